"""What redaction must find and what it must leave: written before the patterns, from how people really write.

A positive marks its private part inline, `⟦kind:value⟧`; `case()` turns that into the text a person would
type and the text that may be kept. Every value is made up or a published example: numbers reserved for
fiction, issuers' test cards, the IBAN registry's examples. Tokens are put together from pieces, so that no
scanner takes this file for a leak.

A hard case is never removed to make a figure look better.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Case(NamedTuple):
    """One positive: what was typed, what may be kept, and the private parts themselves."""

    text: str
    expected: str
    private: tuple[str, ...]


_PART = re.compile(r"⟦([A-Za-z-]+):(.*?)⟧", re.DOTALL)


def case(marked: str) -> Case:
    """The case that an inline-marked sentence describes."""
    return Case(
        text=_PART.sub(lambda part: part[2], marked),
        expected=_PART.sub(lambda part: f"[{part[1]}]", marked),
        private=tuple(part[2] for part in _PART.finditer(marked)),
    )


ZWSP, ZWNJ, SHY, WJ, NBSP, NNBSP = "\u200b", "\u200c", "\u00ad", "\u2060", "\u00a0", "\u202f"
HEX32 = "9f86d081884c7d659a2feaa0c55ad015"
MIX20 = "aZ4kT9qLm2XvB7nRs5Wd"
MIX36 = "aZ4kT9qLm2XvB7nRs5WdE1fGh8JpC3yUiO6t"
MIX48 = MIX36 + "K0xQzN5bV2mS"
B64 = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj"
JWT = (
    "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"
    + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0"
    + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
)
FENCE = "-" * 5


def _pem(kind: str, lines: int = 3, newline: str = "\n") -> str:
    return newline.join([f"{FENCE}BEGIN {kind}{FENCE}", *[B64] * lines, f"{FENCE}END {kind}{FENCE}"])


E_MAIL = [
    "Customer ⟦e-mail:anna.schmidt@example.com⟧ cannot sign in.",
    "Reply to ⟦e-mail:anna.schmidt@example.com⟧, please.",
    "cc ⟦e-mail:j.o'brien@example.ie⟧; he owns the tenant.",
    "SSO loops for ⟦e-mail:maria+sso-test@example.co.uk⟧.",
    "Escalate (⟦e-mail:ops_team-2@mail.example-corp.io⟧)!",
    "From: Ada Lovelace <⟦e-mail:ada@analytical.engine.example.org⟧>",
    "mailto:⟦e-mail:billing@example.fr⟧?subject=Facture",
    "Schreiben Sie an ⟦e-mail:jürgen.groß@müller-söhne.de⟧ bis Freitag.",
    "Пишите на ⟦e-mail:иван@пример.рф⟧, спасибо.",
    "IDN in ASCII form: ⟦e-mail:info@xn--mller-kva.example⟧.",
    "ログインできないのは⟦e-mail:tanaka@example.co.jp⟧です。",
    "문의: ⟦e-mail:kim.minsu@example.co.kr⟧로 보내 주세요",
    "联系⟦e-mail:li.wei@example.cn⟧。",
    "Same person: ⟦e-mail:ANNA@EXAMPLE.COM⟧ and ⟦e-mail:anna@example.com⟧",
    "a@b is no address but ⟦e-mail:a@b.co⟧ is",
    f"Hidden: ⟦e-mail:anna{ZWSP}@exam{ZWNJ}ple.com⟧ ok",
    f"Soft hyphen: ⟦e-mail:long{SHY}name@exam{SHY}ple.org⟧",
    "Full width: ⟦e-mail:ａｎｎａ＠ｅｘａｍｐｌｅ．ｃｏｍ⟧ from the form",
    'Quoted local part ⟦e-mail:"anna schmidt"@example.com⟧ bounced',
    "E-Mail:⟦e-mail:kunde@firma.example.at⟧|Telefon fehlt",
    "user=⟦e-mail:lee@example.com⟧&next=/board",
    "Fediverse @⟦e-mail:anna@chaos.social⟧ complained in public",
    '{"reporter": "⟦e-mail:qa@example.dev⟧", "n": 1}',
    "Address literal ⟦e-mail:postmaster@[192.0.2.7]⟧ refused",
    "obfuscated: ⟦e-mail:anna (at) example.com⟧",
    "obfuscated: ⟦e-mail:anna [at] example [dot] org⟧ in the footer",
    "⟦e-mail:first.last@sub.domain.example.museum⟧",
    "'⟦e-mail:x@example.travel⟧'",
]

PHONE = [
    "Call back at ⟦phone:+49 30 1234567⟧ after lunch.",
    "⟦phone:+49 (0)30 901820⟧ is the switchboard",
    "Mobil ⟦phone:+491711234567⟧, nur abends",
    "⟦phone:0049 171 1234567⟧ from abroad",
    "Festnetz ⟦phone:030/1234567⟧ oder ⟦phone:0171-1234567⟧",
    "Tel. ⟦phone:089 12 34 56 78⟧.",
    "UK: ⟦phone:+44 20 7946 0018⟧ or ⟦phone:020 7946 0018⟧",
    "mobile ⟦phone:07700 900123⟧ please",
    "⟦phone:+44 (0)7911 123456⟧",
    "US: ⟦phone:+1 212-555-0123⟧.",
    "She left ⟦phone:(212) 555-0187⟧ as her number",
    "Cell ⟦phone:555-123-4567⟧",
    "⟦phone:212.555.0123⟧ rings out",
    "⟦phone:1-800-555-0199⟧ toll free",
    "dial ⟦phone:+12125550123⟧ now",
    "⟦phone:+1 (212) 555-0123 ext. 45⟧ for Grace",
    "tel:⟦phone:+1-201-555-0123⟧",
    "phone: ⟦phone:2125550123⟧",
    "Call me at ⟦phone:123-456-7890⟧",
    "Paris ⟦phone:+33 1 42 68 53 00⟧ ; portable ⟦phone:06 12 34 56 78⟧",
    "Téléphone : ⟦phone:06.12.34.56.78⟧",
    "Llámame al ⟦phone:612 345 678⟧ por favor",
    "España ⟦phone:+34 612 34 56 78⟧",
    "Italia: cellulare ⟦phone:347 123 4567⟧, ⟦phone:+39 06 698 83145⟧",
    "Zürich ⟦phone:044 668 18 00⟧, ⟦phone:+41 44 668 18 00⟧",
    "Wien ⟦phone:+43 1 58858 0⟧",
    "Bel ⟦phone:020-624 1111⟧ of ⟦phone:+31 6 12345678⟧",
    "Ring meg på ⟦phone:+47 22 34 56 78⟧",
    "Ring ⟦phone:070-123 45 67⟧ efter klockan tre",
    "Puh. ⟦phone:040 1234567⟧",
    "Zadzwoń: tel. ⟦phone:601 234 567⟧",
    "Тел.: ⟦phone:8 (495) 123-45-67⟧, моб. ⟦phone:+7 916 123-45-67⟧",
    "電話⟦phone:03-1234-5678⟧まで",
    "携帯 ⟦phone:０９０－１２３４－５６７８⟧",
    "手机：⟦phone:138 0013 8000⟧",
    "핸드폰 ⟦phone:010-1234-5678⟧",
    "Ligue (São Paulo) ⟦phone:(11) 98765-4321⟧ ou ⟦phone:+55 11 98765-4321⟧",
    "Sydney ⟦phone:(02) 9876 5432⟧, mobile ⟦phone:0412 345 678⟧",
    "Mumbai ⟦phone:+91 98765 43210⟧, also ⟦phone:98765 43210⟧",
    "İstanbul ⟦phone:0532 123 45 67⟧",
    "الهاتف ⟦phone:+٩٦٦ ٥٠ ١٢٣ ٤٥٦٧⟧",
    "Cape Town ⟦phone:082 123 4567⟧",
    f"No-break spaces: ⟦phone:+49{NBSP}30{NNBSP}1234567⟧",
    f"⟦phone:+49{ZWSP}30{ZWSP}12345{WJ}67⟧ with nothing visible between",
    "Full width ⟦phone:＋４９ ３０ １２３４５６７⟧",
    "En dash ⟦phone:030–1234567⟧",
    "WhatsApp ⟦phone:+972-54-123-4567⟧ / ⟦phone:054-123-4567⟧",
    "fictional ⟦phone:+1 555 010 0199⟧ and ⟦phone:+15555550123⟧",
    "or on ⟦phone:703-4800500⟧ after 10am",
    "Dotted ⟦phone:+49.171.1234567⟧.",
    "⟦phone:030 1234567⟧ / ⟦phone:0171 2345678⟧",
    '{"callback": "⟦phone:+353 1 234 5678⟧"}',
]

CARD = [
    "Card ⟦card:4111 1111 1111 1111⟧ was declined",
    "He pasted ⟦card:4111111111111111⟧ into the chat.",
    "⟦card:5555-5555-5555-4444⟧ exp 12/27",
    "MC 2-series ⟦card:2223003122003222⟧",
    "Amex ⟦card:3782 822463 10005⟧",
    "amex=⟦card:378282246310005⟧;",
    "Discover ⟦card:6011 1111 1111 1117⟧ 12/27 123",
    "Diners ⟦card:3056 930902 5904⟧",
    "JCB ⟦card:3530111333300000⟧!",
    "UnionPay ⟦card:6200 0000 0000 0005⟧",
    "old Visa ⟦card:4222222222222⟧",
    "19 digits ⟦card:4000 0000 0000 0000 006⟧",
    "Kartennummer:⟦card:4242424242424242⟧, bitte löschen",
    "カード番号⟦card:４２４２４２４２４２４２４２４２⟧です",
    f"no-break ⟦card:4242{NBSP}4242{NBSP}4242{NBSP}4242⟧",
    "Visa-⟦card:4012888888881881⟧",
    f"⟦card:4012{ZWSP}8888{ZWSP}8888{ZWSP}1881⟧",
]

IBAN = [
    "IBAN ⟦IBAN:DE89 3704 0044 0532 0130 00⟧, BIC COBADEFFXXX",
    "refund to ⟦IBAN:DE89370400440532013000⟧.",
    "⟦IBAN:GB29 NWBK 6016 1331 9268 19⟧",
    "compte ⟦IBAN:FR14 2004 1010 0505 0001 3M02 606⟧ à rembourser",
    "⟦IBAN:NL91ABNA0417164300⟧ please",
    "cuenta ⟦IBAN:ES91 2100 0418 4502 0005 1332⟧",
    "⟦IBAN:IT60X0542811101000000123456⟧",
    "Konto ⟦IBAN:CH93 0076 2011 6238 5295 7⟧ und danke",
    "⟦IBAN:AT61 1904 3002 3457 3201⟧; ⟦IBAN:BE68 5390 0754 7034⟧",
    "konto ⟦IBAN:PL61 1090 1014 0000 0712 1981 2874⟧",
    "lower case ⟦IBAN:de89370400440532013000⟧",
    "⟦IBAN:NO93-8601-1117-947⟧",
    "Malta ⟦IBAN:MT84MALT011000012345MTLCAST001S⟧",
    "full width ⟦IBAN:ＤＥ８９３７０４００４４０５３２０１３０００⟧",
    "⟦IBAN:TR33 0006 1005 1978 6457 8413 26⟧ IS THE OLD ONE",
]

SECRET = [
    f"key ⟦secret:{'sk-'}{MIX48}⟧ leaked",
    f"⟦secret:{'sk-'}proj-{MIX20}_{MIX20}-{MIX20}⟧",
    f"⟦secret:{'sk-'}ant-api03-{MIX48}⟧ in the log",
    f"git push with ⟦secret:{'ghp_'}{MIX36}⟧.",
    f"⟦secret:{'github_'}pat_11ABCDEFG0{MIX48}⟧",
    f"slack ⟦secret:{'xox'}b-123456789012-123456789012-{MIX20}⟧",
    f"⟦secret:{'AKIA'}IOSFODNN7EXAMPLE⟧ is active",
    f"maps ⟦secret:{'AIza'}Sy{MIX36[:33]}⟧",
    f"⟦secret:{'glpat-'}{MIX20}⟧",
    f"⟦secret:{'npm_'}{MIX36}⟧ in .npmrc",
    f"stripe ⟦secret:{'sk_'}live_{MIX20}{MIX20}⟧",
    f"⟦secret:{'hf_'}{MIX36[:34]}⟧",
    f"⟦secret:{'SG.'}{MIX20}ab.{MIX36}abcdefg⟧",
    f"Authorization: Bearer ⟦secret:{MIX36}⟧",
    f"authorization: Token ⟦secret:{HEX32}{HEX32}⟧",
    "curl -H 'Authorization: Basic ⟦secret:dXNlcjpwYXNzd29yZA==⟧'",
    f"Bearer ⟦secret:{MIX20}⟧ expired",
    f"jwt ⟦secret:{JWT}⟧ rejected",
    f"X-Api-Key: ⟦secret:{HEX32}⟧",
    "password=⟦secret:hunter2⟧",
    "password: ⟦secret:Tr0ub4dor&3⟧ does not work",
    "her password is ⟦secret:Winter2024!⟧",
    "Passwort: ⟦secret:Sommer2024!⟧",
    "mot de passe : ⟦secret:Azerty12345⟧",
    "contraseña: ⟦secret:Gato1234⟧",
    "пароль: ⟦secret:Qwerty123⟧",
    '{"password": "⟦secret:correct horse battery⟧"}',
    f"api_key: ⟦secret:{MIX20}⟧",
    f"API-KEY = '⟦secret:{MIX20}⟧'",
    f"client_secret=⟦secret:{MIX36}⟧ redirect_uri=x",
    "aws_secret_access_key = ⟦secret:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY⟧",
    "AccountKey=⟦secret:Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq⟧;EndpointSuffix=core",
    "db password for prod: ⟦secret:hunter2x⟧",
    "my pass is ⟦secret:Blue42!⟧",
    "root pw ⟦secret:hunter2x⟧ until Monday",
    "DB_PASSWORD=⟦secret:s3cr3t-pw⟧",
    "https://⟦secret:admin:pa55word⟧@intranet.example.com/login",
    "postgres://⟦secret:app:p@ss⟧@db.example.com:5432/receipts",
    "redis://⟦secret::s3cret⟧@cache:6379/0",
    f"https://api.example.com/v1?user=7&access_token=⟦secret:{MIX20}⟧&page=2",
    f"https://files.example.com/a.pdf?sig=⟦secret:{MIX20}%3D⟧#p2",
    f"https://maps.example.com/?key=⟦secret:{MIX20}⟧",
    f"https://s3.example.com/x?X-Amz-Signature=⟦secret:{HEX32}{HEX32}⟧",
    f"https://hooks.slack.com/services/⟦secret:T00000000/B00000000/{MIX20}abcd⟧",
    f"⟦secret:{_pem('RSA PRIVATE KEY')}⟧",
    f"here is the key:\n⟦secret:{_pem('OPENSSH PRIVATE KEY', 5)}⟧\nthanks",
    f'KEY="⟦secret:{_pem("PRIVATE KEY", 2, chr(92) + "n")}⟧"',
    f"cut off ⟦secret:{FENCE}BEGIN EC PRIVATE KEY{FENCE}\n{B64}\n{B64[:30]}⟧",
    f"⟦secret:{_pem('PGP PRIVATE KEY BLOCK')}⟧",
    f"zero-width ⟦secret:{'gh'}{ZWSP}{'p_'}{MIX36}⟧",
    f"bot ⟦secret:{'123456789'}:AAE{MIX36[:32]}⟧",
]

MIXED = [
    "Anna (⟦e-mail:anna@example.com⟧, ⟦phone:+49 30 1234567⟧) wants "
    "⟦IBAN:DE89 3704 0044 0532 0130 00⟧ credited by 2026-02-01.",
    "TCK-1008: ⟦e-mail:ben@example.com⟧ paid 49.90 EUR with ⟦card:4242 4242 4242 4242⟧ at 2026-01-05T10:00:00Z",
    "password=⟦secret:hunter22⟧ for ⟦e-mail:root@example.org⟧ on 192.0.2.10",
]

POSITIVES: list[Case] = [case(marked) for marked in (*E_MAIL, *PHONE, *CARD, *IBAN, *SECRET, *MIXED)]

NEAR_MISSES: list[str] = [
    # the product's own names
    "TCK-1008 is open and about SSO",
    "see TCK-1000, TCK-1001 and TCK-1002/1003",
    "filed as FUP-20260105-0012345",
    "FUP-01J9ZK3V5Q8W receipt 018f3c2a-7b1d-7e4a-9c3f-123456789012",
    "12345678-1234-4234-8234-123456789012 was deduplicated",
    "Idempotency-Key: 018f3c2a-7b1d-7e4a-9c3f-2b1d7e4a9c3f",
    "input_hash 3f2a9c81d0b47e65",
    "contract file_followup@1 sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "commit 2af1ac3e5b6d7081920a3b4c5d6e7f8091a2b3c4 broke it",
    "image: web@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    # dates and times
    "since 2026-01-05 10:32:07 UTC",
    "at 2026-01-05T10:32:07.123456+02:00 and 20260105T103207Z",
    "01.02.2026 14:30 bis 03.02.2026 09:00",
    "between 01/02/2026 and 03/04/2026",
    "01-02-2026 - 03-02-2026",
    "epoch 1767609127 or 1767609127123 ms",
    "2024-2025, 2025/2026 fiscal years",
    "Mo–Fr 08:00–18:00",
    "[05/Jan/2026:10:32:07 +0000]",
    "backup 2026-01-05-103207 done",
    # versions and addresses of machines
    "Chrome 131.0.6778.205 on Windows 10.0.19045.5247",
    "upgrade 1.2.3.4567 to 2026.01.05",
    "10.0.0.1, 192.168.100.200:8080 and 255.255.255.255",
    "2001:db8:85a3::8a2e:370:7334 via 00:1A:2B:3C:4D:5E",
    "django==5.2.1 lodash@4.17.21 react@18.2.0",
    "git@github.com:example/receipts.git",
    "ssh://git@gitlab.com/example/receipts.git",
    "ssh root@10.0.0.5 and deploy@web1",
    "logo@2x.png and icon@3x.webp are missing",
    # people without an address
    "@ada please look, cc @grace.hopper",
    "mail me @ home",
    "meet @ 10:30",
    "a@b, x@y and root@localhost",
    "the e-mail (at) sign",
    # amounts and numbers of things
    "order 4711-0815-2233 is late",
    "Bestellung 0171-2345678-A storniert",
    "Rechnung Nr. 2026-0012345",
    "order no. 123-456-7890",
    "invoice 10012345678",
    "customer 12345678, account 1234567",
    "error 1234567",
    "error code 0x80070005 (2147942405)",
    "exit 137 after 1234567 ms",
    "1 234 567,89 € and 12.345.678,90 EUR",
    "$1,234,567.00 in total",
    "612 345 678 rows were read",
    "10 20 30 40 50 60 70 80",
    "tracking 1Z999AA10123456784 and 9400 1000 0000 0000 0000 00",
    "IMEI 490154203237518",
    "ISBN 978-3-16-148410-0, EAN 4006381333931",
    "4111 1111 1111 1112 fails its check digit",
    "1234567890123456",
    "DE00 1234 5678 9012 3456 78 is no account",
    "DE123456789 is the VAT id",
    "lat 52.520008, lon 13.404954",
    "pi is 3.14159265358979",
    "call 42 of 1000 failed",
    "tool call 20260105 timed out",
    "+1000000 views, +12 % and -3",
    "diff +1234567/-89",
    "build 20260105.1234 on line 12345678",
    "ports 8000-8010, 9000-9010",
    "SKU 030-1234567",
    # words that only sound like secrets
    "password reset does not work",
    "password: please send a new one",
    "the password is expired",
    "pass --parallel=1 to use it, then pass v2beta1 on",
    "curl -u admin:password http://127.0.0.1:8000/users/",
    "token expired, token: missing",
    "max_tokens=4096, prompt_tokens: 1523, total_tokens=20481",
    "Bearer authentication and Basic responsibilities",
    "Token refresh, Basic plan, Bearer bonds",
    "the api_key: none, api key missing",
    "sk-learn, task-force-2026-planning-session, risk-assessment-2026-01",
    "ghp_ is the prefix; npm_config_registry too",
    "https://example.com/tickets/TCK-1008?page=2&sort=-created_at",
    "https://example.com:8443/path?code=404&state=open",
    "https://example.com/login?next=/board#top",
    f"{FENCE}BEGIN CERTIFICATE{FENCE}\n{B64}\n{FENCE}END CERTIFICATE{FENCE}",
    f"the file starts with {FENCE}BEGIN PRIVATE KEY{FENCE} as it should",
    "secret santa list: please add names",
    "secret: nobody reads these",
    "key: value, keyboard=qwertz, monkey: banana1",
    "if password == None: raise",
    # marks themselves, and other brackets
    "[e-mail] wrote to [phone] about [card], [IBAN] and [secret]",
    "password=[secret]",
    "👩‍💻 wrote: naïve café, ½ done, ① first",
    "شماره تیکت را دوباره می‌خواهم",
]
