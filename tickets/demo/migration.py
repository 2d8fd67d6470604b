"""The very long one: two weeks of moving fourteen warehouses, told by everybody who was there."""

from __future__ import annotations

from tickets.demo.script import DemoTicket

TICKETS = (
    DemoTicket(
        number=1037,
        subject="Migration of 14 warehouses from Stockroom Classic to Tessera: running log",
        requester="Ingrid Solheim",
        email="ingrid.solheim@fjordpharma.example",
        priority="high",
        assignee="grace",
        opened_hours=352,
        quiet_hours=2.9,
        conversation="""
--- customer
Hello Tessera team, as agreed on the phone: one ticket for the whole migration, so that nobody has to
search. Fourteen warehouses, 212,000 stock lines, 61 users. We start with Bergen on Monday at 05:00 and want
to be done in two weeks.
--- grace
Good morning Ingrid, I will be your contact for all of it. Alan does the data, Ada the sign-in. If something
stops a warehouse from shipping, write STOP as the first word, and whoever is on duty sees it at once.
--- alan
Alan here. Please send the Classic exports with the column "lot_no" as text. As numbers, Excel eats the
leading zeros.
--- customer
Understood. Oskar from our IT does the exports. Oskar, say hello.
--- Oskar Lie
Hello. Export for Bergen is uploaded: 18,204 lines, lot_no as text, UTF-8. I checked the zeros by hand in
three places.
--- alan
Received, 18,204 lines, digest matches. The test import runs now.
--- alan
Test import done: 18,197 fine, 7 refused. All seven have an expiry date of 31 November.
--- Oskar Lie
There is no 31 November.
--- alan
Classic did not know that.
--- customer
I asked Bergen. It should be 30 November in all seven cases, the labels say so. Please correct them and note
it here.
--- alan
Corrected seven lines, 31 to 30 November, on Ingrid's word. List is attached as bergen-dates.csv.
--- ada
Sign-in: 61 accounts are prepared, invitations go out Sunday at 18:00. Two people share the address
lager2@fjordpharma.example. Who are they?
--- customer
Tor and Siv, forklift, one terminal. Can they keep sharing?
--- ada
Technically yes, but your own rule for controlled substances says one person, one name. I suggest two
accounts with a badge login, the terminal stays shared.
--- customer
You have read our rules, I am impressed. Two accounts please.
--- grace
Plan for Monday: 04:30 Classic goes read-only in Bergen, 05:00 import, 05:30 Tor counts ten shelves by hand,
06:00 first truck. If the count is off by more than one line, we go back to Classic and try on Tuesday.
--- customer
Agreed. Tor is told. He says he counts faster than your computer.
--- alan
Monday 05:02, import for Bergen started.
--- alan
05:09, done. 18,204 of 18,204.
--- Tor Vik
ten shelves counted. nine are right. shelf 14-C has 6 boxes, screen says 8.
--- alan
Looking. In Classic the last movement on 14-C is from 04:41, two boxes out. That is eleven minutes after
read-only.
--- Oskar Lie
The handheld scanners buffer. One was in the cold room without network and delivered when it came back.
--- alan
Then these two boxes are the only difference. I booked them by hand, with the scanner's own time. Tor, does
14-C say 6 now?
--- Tor Vik
6. ok. first truck leaves.
--- grace
Bergen is live at 06:04. For the next ones we wait until every scanner has reported in before the export.
Oskar, can you see that?
--- Oskar Lie
Yes, there is a page for it. I will post a photo of it here before each export.
--- customer
Day one and we are shipping. Thank you all. Cake is on its way to your office, I hope you like almond. 🎂
--- grace
The cake arrived. There was a short dispute about the last piece; it was settled in favour of the person on
duty.
--- Siv Haugen
my badge does not open the returns screen. tor can.
--- ada
Siv, your role was set to "Picker". Returns need "Picker and returns". Ingrid, may she have it?
--- customer
Yes. And the same for Nils and Berit in Stavanger, they do returns as well.
--- ada
Done for all three.
--- Oskar Lie
Stavanger: all 9 scanners reported, photo attached. Export uploaded: 15,950 lines.
--- alan
Test import: 15,950 of 15,950. I like Stavanger.
--- alan
Live import done at 05:07.
--- Nils Brekke
Counted ten shelves. Ten of ten. Coffee now.
--- grace
Stavanger is live at 05:55.
--- customer
Trondheim is next and it is the difficult one: it has the cold chain. Every line carries a temperature
class. Please read the mapping that I attached before anything else.
--- alan
Read it. Question: classes "K" and "K2". Your table says both are 2–8 °C. Classic treats K2 as 2–8 with
logger. Do you want to keep the difference?
--- customer
Keep it! K2 without a logger may not leave the house. If the difference gets lost, we lose our licence. I am
not joking.
--- alan
Kept as two classes. I also added a rule: a K2 line without logger number is refused at import, with its
line number.
--- Oskar Lie
Trondheim export: 31,420 lines.
--- alan
Test import: 31,308 fine, 112 K2 lines without logger.
--- customer
112?! There should be none. Give me the list.
--- alan
trondheim-k2.csv is attached, sorted by shelf.
--- Hanne Moen
Hanne, cold store Trondheim. I walked the list with a torch. 109 boxes have their logger, it was simply
never typed in. 3 boxes have none.
--- customer
Hanne, please quarantine the three. How did they get in?
--- Hanne Moen
All three came from the same supplier on the same day. They are in the red cage now.
--- customer
Thank you. I will talk to the supplier. This alone was worth the migration.
--- Hanne Moen
109 logger numbers typed in. My thumbs hurt.
--- alan
New test import: 31,417 of 31,417, plus three in quarantine with a note. Thank you, Hanne.
--- grace
Trondheim goes live on Thursday instead of Wednesday. New plan is in the calendar. Nobody needs to hurry
with cold goods.
--- Oskar Lie
Scanner page: 14 of 15 have reported. Number 11 is missing.
--- Hanne Moen
Number 11 fell into the dock in September. It is with the fish.
--- Oskar Lie
Removed from the list. 14 of 14.
--- alan
Trondheim imported, 05:16. 31,417 lines.
--- Hanne Moen
Counted twenty shelves, because cold. Twenty of twenty.
--- grace
Trondheim is live at 06:20. Three down, eleven to go.
--- Berit Sande
The label printer in Stavanger prints the lot number twice and no expiry date.
--- alan
Berit, is that since today? The template "pharma 60×40" was edited yesterday at 16:12 by Nils.
--- Nils Brekke
I only wanted the lot number bigger.
--- alan
Restored to the version of Tuesday. I also made a copy called "Nils big lot" in which it is bigger and the
date is still there.
--- Berit Sande
Both work. Nils is happy.
--- customer
Can templates be locked? I sleep badly when expiry dates depend on Nils. (Sorry, Nils.)
--- ada
Yes, there is a permission for it. Now only you and Oskar can edit templates; others can copy them.
--- Nils Brekke
fair
--- customer
Week one is over. Seven warehouses live: Bergen, Stavanger, Trondheim, Kristiansand, Ålesund, Molde,
Haugesund. Two days ahead of plan. Now the weekend. Please, everybody, do not touch anything.
--- grace
Nobody touches anything. The on-duty phone is with Ada until Sunday noon, then with me.
--- Oskar Lie
STOP. Kristiansand can't print delivery notes since 07:40. Four trucks at the gate.
--- ada
I am here. I see jobs leaving Tessera and the printer server answering "out of memory". Oskar, can somebody
restart the print server in Kristiansand?
--- Oskar Lie
It is under a desk in a locked office. The key is with a colleague who is fishing.
--- ada
Then the other way: I can send delivery notes as PDF to a mailbox, and any laptop can print them over USB.
Which address?
--- Oskar Lie
krs-gate@fjordpharma.example, the gatekeeper has a laptop and a printer.
--- ada
Sent the four that are waiting. New ones follow by themselves until you say stop.
--- Oskar Lie
Trucks are leaving. 42 minutes late.
--- customer
Thank you, Ada. On a Saturday. The print server moves out from under that desk on Monday, I promise.
--- Oskar Lie
The colleague is back, with two cod. Print server restarted. You can switch the mailbox off.
--- ada
Off. For the record: 07:40 to 09:05, four trucks late, no data lost, cause is a print server without
monitoring, yours. It has monitoring now, ours.
--- grace
Monday. Oslo today: two buildings, one stock. Oskar, which building number goes into "site"?
--- Oskar Lie
Building 1 is "OSL-A", building 2 is "OSL-B". They share shelf numbers. Shelf 3-A exists twice.
--- alan
Then the site becomes part of the shelf: OSL-A/3-A. Otherwise somebody walks 400 metres for nothing.
--- Marte Skogen
Marte, Oslo. We walk 400 metres for nothing today. Please do it.
--- alan
Test import Oslo: 44,871 lines, of those 44,102 fine. 769 have a shelf that exists in neither building.
--- Marte Skogen
What are they called?
--- alan
They all begin with "X-".
--- Marte Skogen
X is the container in the yard. Officially it does not exist.
--- customer
Marte. We will talk about the container. Alan, please make it a site of its own, OSL-X, and mark it as to be
dissolved by year's end.
--- alan
Done. 44,871 of 44,871. The container now exists, officially and for eight weeks.
--- Marte Skogen
best migration ever
--- alan
Oslo imported, 05:31.
--- Marte Skogen
counted 30 shelves over three sites. 29 right. OSL-X/X-07 has one box more than it should. A present.
--- grace
Oslo is live at 06:45. The present has been booked as a correction with Marte's name.
--- customer
Drammen, Fredrikstad and Hamar on Tuesday and Wednesday. They are small. Then Bodø, Tromsø and Alta, which
are far.
--- Oskar Lie
Drammen 6,120, Fredrikstad 5,884, Hamar 4,031 lines. All scanners in, photos attached.
--- alan
All three tested: 16,035 of 16,035. I suggest one night for all three.
--- customer
One night. Go.
--- alan
Drammen 05:04, Fredrikstad 05:11, Hamar 05:15. All complete.
--- Jon Aas
Hamar here, ten of ten. The screen is nicer than the old one. The old one was brown.
--- grace
Three more are live. Eleven of fourteen.
--- ada
Tromsø and Alta sign in through the county's network, which blocks our log-in page's font server. The page
works but looks like 1996.
--- Oskar Lie
They will not complain. They liked 1996.
--- ada
Still: since tonight fonts come from our own address, for everyone. Please tell them to reload once.
--- Oskar Lie
Tromsø 9,310 lines, Bodø 7,902, Alta 2,655. In Alta one scanner is on the boat to Hammerfest. It is back
tomorrow at 11:00.
--- grace
Then Alta waits for the boat. Bodø and Tromsø tonight.
--- alan
Bodø 05:06, Tromsø 05:12, both complete.
--- Eirik Nilsen
Tromsø counted, ten of ten, in the dark. It is always dark. All good.
--- Liv Johansen
Bodø: nine of ten. Shelf 2-B has a box that the system calls "TEST DO NOT SHIP". It is a real box. What is
in it?
--- customer
Liv, do not ship it, and do not open it. Photo please.
--- Liv Johansen
Photo attached. It is a box of pens from a trade fair in 2016.
--- customer
Then they are yours, Liv.
--- Oskar Lie
The boat is in. Alta: all 4 scanners reported, 2,655 lines.
--- alan
Alta imported at 12:20. 2,655 of 2,655. That was the last one: 14 warehouses, 212,006 lines.
--- customer
212,006? We started with 212,000.
--- alan
"212,000" in your first message was rounded. I did check. Exports: 212,009. Minus three in quarantine. The
sum is in migration-sums.csv, by warehouse.
--- customer
Of course you did. Thank you.
--- grace
What is left: 1. Classic stays readable until 31 January, then it is switched off. 2. The container OSL-X is
dissolved by year's end. 3. Your auditor wants a migration report that covers Bergen's dates, Trondheim's K2
lines and the correction in Oslo. 4. A follow-up call after 30 days.
--- customer
Please file number 3 so that it does not get lost between Christmas presents. The auditor, Mr. Thorsen,
comes on the 12th. He reads everything and believes nothing. He will want to see who corrected what, on
whose word, and when.
--- Oskar Lie
And somebody should tell Hanne that number 11 is still on the inventory of the IT department. With the fish.
""",
    ),
)
