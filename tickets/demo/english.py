"""Tickets in English: the everyday of the desk."""

from __future__ import annotations

from tickets.demo.script import DemoTicket

TICKETS = (
    DemoTicket(
        number=1000,
        subject="Invoice INV-20931 charges 60 seats, we have 48",
        requester="Priya Raman",
        email="priya.raman@cobaltfreight.example",
        status="closed",
        assignee="grace",
        opened_hours=610,
        quiet_hours=520,
        conversation="""
--- customer
Hi, our October invoice lists 60 seats. The members page says 48 active. Twelve people left with the
Rotterdam office and were deactivated on 3 September. Could you check and send a corrected invoice? Our
finance closes the month on Friday.
--- grace
Hello Priya, thank you for the dates, they make this quick. The twelve were deactivated in the workspace but
still held a seat, because the old plan bills reserved seats. I have released them as of 3 September and
asked billing for a corrected invoice.
--- customer
Great. Will the difference be a credit or a refund? Our auditors prefer a credit note with its own number.
--- grace
A credit note, CN-4410, over 12 seats for September and October. It is attached to the billing page now.
--- customer
Got it, booked. Thanks for the same-day turnaround!
""",
    ),
    DemoTicket(
        number=1001,
        subject="CSV export stops at 10,000 rows without saying so",
        requester="Daniel Osei",
        email="d.osei@brightwaterlabs.example",
        priority="high",
        assignee="alan",
        opened_hours=52,
        quiet_hours=5,
        conversation="""
--- customer
The activity export gives exactly 10,000 rows, every time. There is no warning, the file simply ends. We
noticed only because the totals in our warehouse did not match. How long has it been like this?
--- alan
Hi Daniel, you are right and I am sorry: the export page caps at 10,000 and the notice is shown only on the
old layout. The API endpoint has no cap. I am checking since when the notice is missing.
--- customer
Please do, because we have filed numbers with a regulator based on those files. I need the exact date, not
"a while".
--- alan
Understood. Engineering is going through the release log; I will come back with a date and a list of your
exports that were cut.
--- customer
Any news? Our compliance officer is asking twice a day now.
""",
    ),
    DemoTicket(
        number=1002,
        subject="Webhook signatures fail since the secret was rotated",
        requester="Jo Park",
        email="jo@parcelpilot.example",
        assignee="ada",
        status="waiting",
        opened_hours=30,
        quiet_hours=20,
        conversation="""
--- customer
We rotated our webhook secret yesterday at 16:00 UTC. Since then about half of the deliveries fail
verification on our side. The other half is fine. Looks like some of your workers still sign with the old
secret?
--- ada
Hi Jo, good guess, and close: for 24 hours after a rotation every delivery carries two signatures, old and
new, in one header, separated by a comma. A verifier that compares the whole header fails when both are
present. Do you split on the comma first?
--- customer
We do not. Half of our pods run a library version that does, that explains the half. Where is this
documented?
--- ada
Under "Rotating a secret", third paragraph, and I agree that it deserves to be first. Can you confirm once
all pods split the header? I will keep this open until then.
""",
    ),
    DemoTicket(
        number=1003,
        subject="Can't remove an ex-employee, button is greyed out",
        requester="Louise Tan",
        email="louise.tan@hellerpartners.example",
        assignee=None,
        opened_hours=3.2,
        quiet_hours=3.2,
        conversation="""
--- customer
Hello, I want to remove Marcus Webb (marcus.webb@hellerpartners.example) who left on bad terms last week.
The Remove button is grey and the tooltip says "owner of 3 automations". I can't see those automations
anywhere because I am not an admin of his team. Please remove his access today, he should not be able to
read client files any more.
""",
    ),
    DemoTicket(
        number=1004,
        subject="Dark mode: comments are unreadable on the timeline",
        requester="Sven Aalto",
        email="sven@northboundgames.example",
        priority="low",
        assignee="grace",
        opened_hours=190,
        quiet_hours=76,
        conversation="""
--- customer
In dark mode the comments on the timeline are dark grey on slightly darker grey. I can only read them by
selecting the text. 🙃 Screenshot attached. Firefox 131, Linux.
--- grace
Thanks Sven, I can see it too. It happens only where a comment quotes another one. Passed to the design team
with your screenshot.
--- customer
Cool, no rush. It is just that our whole studio works at night, for obvious reasons.
""",
    ),
    DemoTicket(
        number=1005,
        subject="API: 429 although we are far below the limit",
        requester="Amara Nwosu",
        email="amara.nwosu@ledgerly.example",
        assignee="alan",
        opened_hours=71,
        quiet_hours=9,
        conversation="""
--- customer
We send about 40 requests a minute with one token. Documentation says 600. Since Tuesday we get 429 in
bursts around every full hour. `Retry-After` says 1, and a second later it works.
--- alan
Hello Amara, the 600 are counted for the whole workspace. Is there another integration that runs on the
hour?
--- customer
There is the BI connector, run by another team. I asked them: it fetches everything at :00 with 20 parallel
workers. So that is it? Then I would like a limit per token, one team should not be able to starve another.
--- alan
That is it. A limit per token exists on the Scale plan and can be switched on for you. May I, and which
share should the BI token have?
--- customer
Let's give BI 200 a minute and us the rest. But please only after the month-end run, so not before the 3rd.
""",
    ),
    DemoTicket(
        number=1006,
        subject="Two-factor codes rejected after phone change",
        requester="Ellen Murphy",
        email="ellen.murphy@stillwaterclinic.example",
        status="closed",
        assignee="ada",
        opened_hours=300,
        quiet_hours=280,
        conversation="""
--- customer
I got a new phone and moved my authenticator over. Every code is "invalid". I am the only admin, please
help.
--- ada
Hi Ellen, codes depend on the phone's clock. Could you check that date and time are set automatically?
--- customer
It was four minutes off! Works now. I feel silly.
--- ada
Please don't, it is our most common one. While you are in: a second admin and printed recovery codes would
spare you the fright next time.
--- customer
Done both. Thank you!
""",
    ),
    DemoTicket(
        number=1007,
        subject="Scheduled report arrives an hour early since the clocks changed",
        requester="Hugh Pemberton",
        email="hugh.pemberton@almanacpress.example",
        assignee="grace",
        priority="low",
        opened_hours=120,
        quiet_hours=44,
        conversation="""
--- customer
Our Monday report used to arrive at 07:00. Since the clocks went back it arrives at 06:00. Nobody changed
anything.
--- grace
Hello Hugh, the schedule is stored in UTC because it was created before time zones were supported. Re-saving
it once under Schedule → Time zone fixes it for good. Shall I do that for you, with Europe/London?
--- customer
Yes please. There are eleven of them, I would rather not do it by hand.
""",
    ),
    DemoTicket(
        number=1008,
        subject="SSO login loops back to the sign-in page after the certificate change",
        requester="Henrik Dahl",
        email="henrik.dahl@nordhaul.example",
        priority="high",
        assignee="ada",
        opened_hours=26,
        quiet_hours=1.1,
        conversation="""
--- customer
Good morning. Since about 06:40 nobody at Nordhaul can sign in with SSO. People pick their account at our
identity provider, come back to Tessera for a second, and land on the sign-in page again. No error is shown.
340 people are affected, dispatch is working from paper.
--- ada
Good morning Henrik, I am on it. Did anything change on the identity provider's side last night? A
certificate, a domain, a claim?
--- customer
Our IT rotated the SAML signing certificate at 22:00, planned. The new metadata was uploaded to Tessera, we
have a screenshot of the green tick.
--- ada
Thank you, that narrows it. I see your sign-ins arriving and failing on the signature: the metadata you
uploaded holds both certificates, and Tessera still verifies against the first one, the old one. As a first
aid you can remove the old certificate from the metadata and upload it again.
--- Mette Krogh
Hi, Mette from Nordhaul IT here. We removed the old one and uploaded again. Sign-in works for me and for two
colleagues, but the night shift in Aalborg still loops. They use the shared terminals.
--- ada
Hello Mette, good progress. Shared terminals keep a cookie from the failed attempts; please try a private
window there to confirm.
--- customer
Private window works on the terminals. But I can't ask forty drivers to clear cookies. And the auditors will
ask why both certificates were accepted in the upload and only one was used. Please get us: a fix for the
cookie loop, and a written explanation by Thursday.
""",
    ),
    DemoTicket(
        number=1009,
        subject="Please delete our trial workspace and everything in it",
        requester="Camille Roy",
        email="camille.trial@mailinator.com",
        status="waiting",
        assignee="grace",
        opened_hours=150,
        quiet_hours=98,
        conversation="""
--- customer
We tried Tessera for two weeks and decided against it. Please delete the workspace "atelier-roy" with all
data and confirm in writing, as the GDPR asks for.
--- grace
Hello Camille, we will. Deletion can't be undone, so I need a confirmation from the workspace owner's
address, which is your colleague's: l.roy@atelier-roy.example. Backups age out 30 days after that, and you
will get the certificate then.
""",
    ),
    DemoTicket(
        number=1010,
        subject="Search doesn't find documents with umlauts",
        requester="Karin Blum",
        email="karin.blum@blumundsohn.example",
        assignee="alan",
        opened_hours=88,
        quiet_hours=31,
        conversation="""
--- customer
Searching for "Jahresübersicht" finds nothing although the file is right there. "Jahresubersicht" finds it.
Funny, but our people do have ü keys.
--- alan
Hi Karin, was that file uploaded from a Mac? Their file names store ü as u plus two dots, which looks the
same and compares differently.
--- customer
Yes, our designers have Macs. So it is about half of our files.
--- alan
Thank you. The fix, normalising names at upload and once for existing files, is written and waits for
review.
""",
    ),
    DemoTicket(
        number=1011,
        subject="Feature request: approve expenses from the phone",
        requester="Olu Adeyemi",
        email="olu.adeyemi@fieldworks.example",
        priority="low",
        assignee=None,
        opened_hours=260,
        quiet_hours=260,
        conversation="""
--- customer
I approve 30 to 50 expenses a week, mostly while waiting for trains. The phone app shows them but has no
approve button. Is there a technical reason, or did nobody ask? Consider this me asking. 🚆
""",
    ),
    DemoTicket(
        number=1012,
        subject="Payment failed, workspace will be suspended tomorrow",
        requester="Naomi Feldman",
        email="naomi@feldmanlaw.example",
        priority="high",
        assignee="grace",
        opened_hours=14,
        quiet_hours=0.6,
        conversation="""
--- customer
We got an e-mail that our card was declined and that the workspace will be suspended tomorrow at noon. The
card is fine, our bank says you tried to charge it twice within a second and the second try was flagged as
fraud.
--- grace
Hello Naomi, I have put the suspension on hold until Friday, so nothing will happen tomorrow. I see two
attempts at 02:00:00 and 02:00:01 as well and have raised it with billing.
--- customer
Thank you. Our bank released the card now. Please charge exactly once, and tell me before you do. Call me on
+44 20 7946 0812 if that's quicker.
""",
    ),
    DemoTicket(
        number=1013,
        subject="SCIM: deprovisioned users come back every night",
        requester="Victor Salas",
        email="victor.salas@meridianhotels.example",
        priority="high",
        assignee="ada",
        opened_hours=96,
        quiet_hours=7,
        conversation="""
--- customer
We deprovision leavers through SCIM. They disappear, and at 03:15 the next morning they are back, active,
with a seat. We pay for ghosts.
--- ada
Hello Victor, 03:15 is when the directory import of the old LDAP connector runs. Is it still switched on
beside SCIM?
--- customer
It should not be. The admin page says "LDAP: disabled".
--- ada
The page shows the setting, but the nightly job was created in 2022 and never looked at it. I removed your
job by hand; tonight will tell.
--- customer
Two of five came back last night. So, better, but no.
""",
    ),
    DemoTicket(
        number=1014,
        subject="Training session for 25 new colleagues?",
        requester="Beth Lawson",
        email="beth.lawson@oakridgecouncil.example",
        priority="low",
        status="waiting",
        assignee="alan",
        opened_hours=210,
        quiet_hours=140,
        conversation="""
--- customer
We are onboarding 25 people in January. Do you offer a live session, and could it be recorded for those on
leave?
--- alan
Hello Beth, gladly: 60 minutes, in English, recorded. Tuesdays and Thursdays at 10:00 or 14:00 London time.
Which suits you, and is there a topic that needs more room?
""",
    ),
    DemoTicket(
        number=1015,
        subject="Attachments over 25 MB vanish without an error",
        requester="Rasmus Holm",
        email="rasmus@holm-arkitekter.example",
        assignee="alan",
        opened_hours=40,
        quiet_hours=12,
        conversation="""
--- customer
When I drop a drawing of more than 25 MB on a task, the progress bar runs to the end, and then there is no
file. No message, nothing. I told a client that the plans were there. They were not.
--- alan
I'm sorry, Rasmus, that is embarrassing for you and for us. The limit is 25 MB on your plan; the refusal
should be shown before the upload. I can lift your workspace to 100 MB today. Would that cover your
drawings?
--- customer
Most of them. Yes please. And the silent part should be fixed for everybody, not only for me.
""",
    ),
    DemoTicket(
        number=1016,
        subject="Audit log shows changes by a user who was on holiday",
        requester="Greta Simmons",
        email="greta.simmons@unionmutual.example",
        priority="high",
        assignee="ada",
        opened_hours=8,
        quiet_hours=2.4,
        conversation="""
--- customer
Our audit log says that Paul Idowu changed 14 permissions on Saturday between 02:10 and 02:13. Paul was on a
plane without internet. Either the log is wrong or somebody has his password. I need to know which before
our 15:00 call.
--- ada
Hello Greta, treating this as urgent. All 14 changes came through an API token named "onboarding-script",
created by Paul in March. The log shows the token's owner and hides the token's name, which is misleading.
Do you know that script?
--- customer
I do. It runs on a server of ours, and it should run on Mondays. So why on Saturday? Can you give me the IP
addresses, and can I revoke that one token without cutting off the others?
""",
    ),
    DemoTicket(
        number=1017,
        subject="Custom domain: certificate expired overnight",
        requester="Wes Carver",
        email="wes@carverandcrane.example",
        status="closed",
        priority="high",
        assignee="alan",
        opened_hours=400,
        quiet_hours=380,
        conversation="""
--- customer
portal.carverandcrane.example shows a certificate warning since midnight. Clients are calling.
--- alan
On it. Your DNS has a CAA record that allows one issuer, and it isn't ours, so the renewal was refused.
Could you add `letsencrypt.org` to the CAA record?
--- customer
Added.
--- alan
Renewed at 08:52, valid for 90 days. We now warn 14 days ahead when a CAA record stands in the way.
--- customer
All green. Quick work, thanks.
""",
    ),
    DemoTicket(
        number=1018,
        subject="Wrong language in the notification e-mails",
        requester="Yuki Brandt",
        email="yuki.brandt@kaiserdata.example",
        priority="low",
        assignee="grace",
        opened_hours=66,
        quiet_hours=58,
        conversation="""
--- customer
My interface is English, my notifications are in Portuguese. I don't speak Portuguese. It's a nice language
though.
--- grace
Hello Yuki, it is! Notifications take their language from the person who invited you, until you save your
profile once. Could you open Profile and press Save?
""",
    ),
    DemoTicket(
        number=1019,
        subject="Import from spreadsheet: dates swapped day and month",
        requester="Fiona Gallagher",
        email="fiona@gallagherlogistics.example",
        assignee=None,
        opened_hours=5.5,
        quiet_hours=4.1,
        conversation="""
--- customer
We imported 2,300 shipments. 03/11 became 11 March instead of 3 November. Dates after the 12th of a month
are fine, so now we have a mix of right and wrong and no way to tell which.
--- customer
Adding: the import was today at 09:20, nobody has edited anything since. Undoing the whole import would be
fine.
""",
    ),
)
