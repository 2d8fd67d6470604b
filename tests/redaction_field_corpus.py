"""What people paste into tickets, labelled: sentences with private spans, and look-alikes that hold none.

Written from the outside, from what a reader of a receipt must never see, not from what the patterns can find. A private
span stands as `⟦kind|text⟧` in its sentence; `⟦any|text⟧` is a span that may stay or go, such as the user name beside a
password. Every card and IBAN is a published test number, every phone number comes from a range kept for films or from
libphonenumber's examples where the country keeps none, and every secret is joined from parts so that no scanner trips
over this file.
"""

from __future__ import annotations

import re
from base64 import b64encode, urlsafe_b64encode
from dataclasses import dataclass

EMAIL, PHONE, CARD, IBAN, SECRET, ANY = "email", "phone", "card", "iban", "secret", "any"

_MARKED = re.compile(r"⟦(\w+)\|(.*?)⟧", re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Sentence:
    """One string as it is written, and where it is private."""

    text: str
    spans: tuple[tuple[int, int, str], ...]
    """Start, end and kind; ascending, never touching."""

    def private(self) -> list[str]:
        return [self.text[start:end] for start, end, kind in self.spans if kind != ANY]

    def rest(self) -> list[str]:
        """The text outside every span."""
        edges = [0, *(edge for start, end, _ in self.spans for edge in (start, end)), len(self.text)]
        return [self.text[start:end] for start, end in zip(edges[::2], edges[1::2], strict=True)]


def labelled(marked: str) -> Sentence:
    text, spans, last = "", [], 0
    for match in _MARKED.finditer(marked):
        text += marked[last : match.start()]
        spans.append((len(text), len(text) + len(match[2]), match[1]))
        text += match[2]
        last = match.end()
    return Sentence(text=text + marked[last:], spans=tuple(spans))


# --- Secrets, joined from parts ---------------------------------------------------------------------------------------

OPENAI = "sk" + "-" + "T9f3mQx7Vb2LkWz8RnY4" + "T3BlbkFJ" + "pD6sHc1JgUa5EoXi0MvZ"
OPENAI_PROJECT = "sk" + "-proj-" + "a8Kd_03jfLQm-x92MZpwVb7TnYc4R6uEoHs1" + "T3BlbkFJ" + "kq-5ZtWg_2XyBv9NdAe7Ri0Cf"
ANTHROPIC = "sk" + "-ant-" + "api03-" + "Rk7vT2_mQx9LbZc4-W8nYp5HsJd1GfUa6EoXi3Mv0KtBqNyCzAr" + "AA"
GITHUB = "ghp" + "_" + "16C7e42F292c6912E7710c838347Ae178B4a"
GITHUB_SERVER = "ghs" + "_" + "q8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfPaGt2"
GITHUB_FINE = "github" + "_pat_" + "11ABCDEFG0aBcDeFgHiJkL" + "_" + "x" * 9 + "7Qm2" * 12 + "ZtR"
AWS_ID = "AKIA" + "IOSFODNN7" + "EXAMPLE"
AWS_SESSION_ID = "ASIA" + "Y34FZKBOKM" + "UTVV7A"
AWS_SECRET = "wJalrXUtnFEMI/K7MDENG" + "/bPxRfiCY" + "EXAMPLEKEY"
SLACK = "xo" + "xb-" + "263594206564-2343594206574-" + "FGqddMF8t08v8N7Oq4i57vs1"
SLACK_HOOK = "T0" + "4FXK2PL/B0" + "5QWR81ZC/" + "hV3kQm9XbT2LwZ8nRcYp5sJd"
STRIPE = "sk" + "_live_" + "4eC39HqLyjWDarjtT1zdp7dc"
STRIPE_LONG = (
    "sk"
    + "_live_"
    + "51H8mQxKz2vLbTnYc"
    + "R6uEoHs9JdLfPaGt2WqZr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfPaGt2q8Zr4Kx1Wm7Vb3TnY00aBcDeFg"
)
STRIPE_RESTRICTED = "rk" + "_live_" + "9JdLfPaGt2WqZr4Kx1Wm7Vb3"
STRIPE_HOOK = "wh" + "sec_" + "q8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfP"
GOOGLE = "AI" + "za" + "SyD4q7mX2kVbTnYc6R0uEoHs9JdLfPaGt2W"
GOOGLE_OAUTH = "GOC" + "SPX-" + "q8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9J"
GITLAB = "gl" + "pat-" + "x9Rk7vT2mQbZc4W8nYp5"
NPM = "npm" + "_" + "q8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfPaGt2"
PYPI = "pypi" + "-AgEIcHlwaS5vcmc" + "CJGI0MzQ5ZTk4LTg3ZGYtNDk2Yi05ZDQ3LWE5Nzk2ZTQ3MmQyYgACKlszLCI"
SENDGRID = "SG" + ".q8Zr4Kx1Wm7Vb3TnYc6R0u" + ".EoHs9JdLfPaGt2WqZr4Kx1Wm7Vb3TnYc6R0uEoHs9Jd"
TELEGRAM = "110201543" + ":AA" + "HdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"
HUGGING_FACE = "hf" + "_" + "TnYcRuEoHsJdLfPaGtWqZrKxWmVbQzXkLp"
TWILIO = "SK" + "3f8a1c9e7b2d4056" + "a1f3c5e7b9d20468"
MAILGUN = "key" + "-" + "3ax6xnjp29jd6fds4gc373sgvjxteol0"
DIGITALOCEAN = "dop" + "_v1_" + "3f8a1c9e7b2d4056a1f3c5e7b9d20468" * 2
SHOPIFY = "shp" + "at_" + "3f8a1c9e7b2d4056a1f3c5e7b9d20468"
SQUARE = "sq0" + "atp-" + "q8Zr4Kx1Wm7Vb3TnYc6R0u"
HEX_KEY = "9f86d081884c7d65" + "9a2feaa0c55ad015"
DJANGO_KEY = "django" + "-insecure-" + "8x!k2$w#v9@m5q&z7^t3p*r6+y1u4o0i=l"


def _segment(value: str) -> str:
    return urlsafe_b64encode(value.encode()).decode().rstrip("=")


JWT = ".".join(
    (
        _segment('{"alg":"HS256","typ":"JWT"}'),
        _segment('{"sub":"1234567890","name":"Ada Lovelace","iat":1516239022}'),
        "SflKxwRJSMeKKF2QT4fw" + "pMeJf36POk6yJV_adQssw5c",
    )
)
JWT_UNSIGNED_TAIL = ".".join(
    (_segment('{"kid":"a1","alg":"RS256"}'), _segment('{"iss":"https://id.example.com"}'), "x9Rk7vT2mQ" * 9)
)
BASIC = b64encode(b"ada:correct horse battery").decode()
BASIC_PADDED = b64encode(b"svc-import:pa55-w0rd").decode()

_KEY_LINES = (
    "MIIEpAIBAAKCAQEA0Z3VS5JJcds3xfn/ygWyF8PbnGy0AHB7MbzYLdZ7ZvVy7F7V",
    "oQ3f1mZBq8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfPaGt2WqZr4Kx1Wm7Vb3TnYc6R",
    "q8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfPaGt2Wg==",
)


def _pem(label: str, glue: str = "\n") -> str:
    return glue.join((f"-----{'BEGIN'} {label}-----", *_KEY_LINES, f"-----{'END'} {label}-----"))


PEM_RSA = _pem("RSA PRIVATE" + " KEY")
PEM_PKCS8_JSON = _pem("PRIVATE" + " KEY", "\\n")
PEM_OPENSSH = _pem("OPENSSH PRIVATE" + " KEY")
PEM_EC_QUOTED = _pem("EC PRIVATE" + " KEY", "\n> ")
PEM_CUT = f"-----{'BEGIN'} ENCRYPTED PRIVATE" + " KEY-----\n" + "\n".join(_KEY_LINES[:2])

# --- Sentences with private spans -------------------------------------------------------------------------------------

EMAILS = [
    "Please reply to ⟦email|ada.lovelace@example.com⟧, not to the shared box.",
    "Customer wrote from ⟦email|ada+refunds@mail.example.co.uk⟧ on Tuesday.",
    "Meine Adresse lautet ⟦email|jürgen.groß@müller-söhne.example⟧; bitte dorthin.",
    "Bitte an ⟦email|info@bücher.example⟧ schicken!",
    "Punycode form: ⟦email|info@xn--bcher-kva.example⟧ bounced.",
    "联系邮箱：⟦email|用户@例子.测试⟧，谢谢。",
    "メールは⟦email|tanaka@example.co.jp⟧までお願いします。",
    "Пишите на ⟦email|иван@почта.рф⟧ в любое время.",
    'Old mainframe account: ⟦email|"ada lovelace"@example.org⟧ still receives copies.',
    "[Write to us](mailto:⟦email|help@shop.example.com⟧?subject=TCK-1008) about it",
    '<a href="mailto:⟦email|grace.hopper@navy.example⟧">Grace</a> asked twice',
    "From: Grace Hopper <⟦email|grace@hopper.example⟧>\n"
    "To: Support <⟦email|support@acme.example⟧>\nSubject: Invoice 8841",
    '{"customer": {"name": "Ada", "email": "⟦email|ada@example.net⟧"}, "priority": "high"}',
    "https://app.example.com/invite?email=⟦email|ada%40example.com⟧&plan=pro did nothing",
    "https://app.example.com/u?e=⟦email|ada.l@example.com⟧&next=/billing loops forever",
    "Contact: **⟦email|o'brien@example.ie⟧** or _⟦email|siobhan_o@example.ie⟧_ today",
    "his address is ⟦email|ada [at] example [dot] com⟧ (he writes it that way)",
    "her address: ⟦email|grace(at)hopper(dot)example(dot)org⟧ please",
    "Kontakt: ⟦email|max.mustermann (at) firma.example⟧, Zimmer 12",
    "⟦email|ADA@EXAMPLE.COM⟧ is the same person as ⟦email|ada@example.com⟧?",
    "She typed ⟦email|ada＠example．com⟧ with a Japanese keyboard",
    "copy-paste gave ⟦email|ada\u200b@example.com⟧ and the form refused",
    "soft hyphen ⟦email|lo\u00advelace@exam\u00adple.com⟧ from the PDF",
    "Best regards,\nAda Lovelace\nAnalyst | Engine Ltd.\n"
    "✉ ⟦email|a.lovelace@engine.example⟧\n☎ ⟦phone|+44 20 7946 0958⟧",
    "| name | mail |\n|---|---|\n| Ada | ⟦email|ada@engine.example⟧ |",
    "cc ⟦email|first.last@sub.dept.example.edu⟧;⟦email|second@example.edu⟧,⟦email|third@example.edu⟧ thanks",
    "l'adresse «⟦email|amélie.poulain@exemple.example⟧» ne marche plus",
    "user_name-99%test is in ⟦email|user_name-99%test@example.com⟧ as the local part",
    "Reply-To:⟦email|no-reply@bounce.mailer.example⟧",
    "ssh failed: publickey for ⟦email|deploy@build.example.com⟧ denied",
    "Is it ⟦email|ada@example.com⟧? Or ⟦email|ada@example.org⟧! Ask her.",
    "sip:⟦email|ada@voip.example.com⟧ rings but nobody answers",
    "ticket opened by ⟦email|x@y.example⟧.",
    "eposta: ⟦email|ayşe.yılmaz@örnek.example⟧ olarak güncellendi",
    "البريد: ⟦email|sara@example.com⟧ شكرا",
]

PHONES = [
    "Call me on ⟦phone|+44 20 7946 0958⟧ after five.",
    "UK mobile ⟦phone|+44 (0)7700 900123⟧, landline ⟦phone|+44 (0) 20 7946 0123⟧ extra",
    "Her office: ⟦phone|(212) 555-0142⟧, ask for billing",
    "call ⟦phone|+1-212-555-0142 ext. 33⟧ before noon",
    "call ⟦phone|+1 (415) 555-0199 x204⟧ before noon",
    "fax ⟦phone|+1.650.555.0134⟧ is dead",
    "My cell is ⟦phone|415-555-0132⟧ thanks",
    "tel:⟦phone|+1-201-555-0123⟧ is in the footer",
    '<a href="tel:⟦phone|+33199001234⟧">appeler</a> ne fait rien',
    "Appelez-moi au ⟦phone|+33 6 39 98 12 34⟧ demain matin",
    "Tél. : ⟦phone|01 99 00 12 34⟧ (bureau)",
    "portable ⟦phone|06.39.98.45.67⟧, merci",
    "Rückruf bitte unter ⟦phone|+49 30 23125 123⟧ bis 17 Uhr",
    "Tel.: ⟦phone|030/23125-456⟧ (Zentrale)",
    "Handy ⟦phone|0152 28817386⟧, gerne abends",
    "Telefon: ⟦phone|+49 (0) 30 / 23125 - 789⟧ Durchwahl",
    "Durchwahl ⟦phone|+49‑40‑66969‑123⟧ mit geschützten Strichen",
    "⟦phone|0049 89 99998 123⟧ ist die neue Nummer",
    "Llámame al ⟦phone|+34 612 34 56 78⟧ por favor",
    "teléfono ⟦phone|+52 55 1234 5678⟧ de la oficina",
    "Il mio numero è ⟦phone|+39 06 1234 5678⟧ grazie",
    "cellulare: ⟦phone|+39 312 345 6789⟧ dopo le 18",
    "Ligue para ⟦phone|+55 (11) 96123-4567⟧ amanhã",
    "Telemóvel ⟦phone|+351 912 345 678⟧ se faz favor",
    "電話は⟦phone|+81 3-1234-5678⟧です",
    "携帯：⟦phone|090-1234-5678⟧ までご連絡ください",
    "手机⟦phone|+86 131 2345 6789⟧，请回电",
    "전화 ⟦phone|+82 10-2000-0000⟧ 으로 주세요",
    "Звоните ⟦phone|+7 912 345-67-89⟧ до шести",
    "тел. ⟦phone|8 (912) 345-67-89⟧ вечером",
    "WhatsApp ⟦phone|+91 81234 56789⟧ pls",
    "Ring meg på ⟦phone|+47 40 61 23 45⟧ i morgen",
    "Ring ⟦phone|+46 (0)70-174 06 05⟧ efter lunch",
    "Bel ⟦phone|+31 6 12345678⟧ of mail",
    "tel ⟦phone|+32 470 12 34 56⟧ svp",
    "Zadzwoń ⟦phone|+48 512 345 678⟧ proszę",
    "Telefon ⟦phone|+41 44 668 18 00⟧ (Empfang)",
    "mobil ⟦phone|+43 664 1234567⟧ bitte",
    "Aussie mobile ⟦phone|+61 491 570 156⟧ or local ⟦phone|0491 570 156⟧ please",
    "الهاتف: ⟦phone|+971 50 123 4567⟧ شكرا",
    "هاتف ⟦phone|+٩٦٦ ٥٠ ١٢٣ ٤٥٦٧⟧ مساء",
    "מספר הטלפון שלי ⟦phone|+972-50-234-5678⟧ תודה",
    "Ara beni: ⟦phone|+90 501 234 56 78⟧ lütfen",
    "full-width ⟦phone|＋４４　２０　７９４６　０９５８⟧ from the web form",
    "dashes ⟦phone|+1 212–555–0147⟧ from Word",
    "pasted ⟦phone|+44\u200b20\u200b7946\u200b0999⟧ with invisible joins",
    "nbsp ⟦phone|+33\u00a01\u00a099\u00a000\u00a056\u00a078⟧ du site",
    "wrapped ⟦phone|+44 20\n7946 0321⟧ by the mailer",
    '{"contact_phone": "⟦phone|+442079460111⟧", "lang": "en"}',
    '{"phone": "⟦phone|2125550175⟧", "ok": true}',
    "https://wa.me/⟦phone|447700900456⟧ opens nothing",
    "P: ⟦phone|212.555.0188⟧ | F: ⟦phone|212.555.0189⟧ | W: engine.example",
    "sms:⟦phone|+15555550123⟧ fails on Android",
    "Nairobi desk ⟦phone|+254 712 123456⟧, Lagos desk ⟦phone|+234 802 123 4567⟧ both closed",
    "Singapore ⟦phone|+65 8123 4567⟧ and Hong Kong ⟦phone|+852 5123 4567⟧ numbers",
    "Dublin ⟦phone|+353 85 012 3456⟧ - ask for Niamh",
    "call **⟦phone|+64 21 123 4567⟧** (Auckland)",
]

CARDS = [
    "My card ⟦card|4242 4242 4242 4242⟧ was charged twice",
    "card number:⟦card|4111111111111111⟧ exp 12/29",
    "Visa ⟦card|4012-8888-8888-1881⟧ declined",
    "Amex ⟦card|3782 822463 10005⟧ charged on 3 May",
    "amex ⟦card|371449635398431⟧ unbroken",
    "Mastercard ⟦card|5555 5555 5555 4444⟧ bitte löschen",
    "carte ⟦card|5105-1051-0510-5100⟧ refusée",
    "new 2-series ⟦card|2223 0031 2200 3222⟧ not accepted",
    "Discover ⟦card|6011 1111 1111 1117⟧ fails",
    "JCB カード⟦card|3530 1113 3330 0000⟧ が使えません",
    "Diners ⟦card|3056 930902 5904⟧ too",
    "UnionPay ⟦card|6200 0000 0000 0005⟧ 被拒绝",
    "Maestro ⟦card|6759 6498 2643 8453⟧ works",
    '{"card": "⟦card|4000056655665556⟧", "amount": 1999, "currency": "EUR"}',
    "tarjeta «⟦card|4242–4242–4242–4242⟧» con guiones largos",
    "nbsp card ⟦card|4242\u00a04242\u00a04242\u00a04242⟧ from the PDF",
    "zero width ⟦card|4242\u200b4242\u200b4242\u200b4242⟧ from the web",
    "全角 ⟦card|４２４２４２４２４２４２４２４２⟧ です",
    "line break ⟦card|4242 4242\n4242 4242⟧ in the mail",
    "double spaced ⟦card|4242  4242  4242  4242⟧ by hand",
    "dots ⟦card|4242.4242.4242.4242⟧ by hand",
    "PAN=⟦card|4000000000000002⟧;CVV omitted",
    "`⟦card|6011000990139424⟧` in backticks",
]

IBANS = [
    "Bitte überweisen auf ⟦iban|DE89 3704 0044 0532 0130 00⟧ bis Freitag",
    "IBAN: ⟦iban|DE89370400440532013000⟧ BIC COBADEFFXXX",
    "iban ⟦iban|de89 3704 0044 0532 0130 00⟧ klein geschrieben",
    "UK account ⟦iban|GB82 WEST 1234 5698 7654 32⟧ please",
    "gb account ⟦iban|gb29nwbk60161331926819⟧ in lower case",
    "Mon IBAN est ⟦iban|FR14 2004 1010 0505 0001 3M02 606⟧ merci",
    "rekening ⟦iban|NL91 ABNA 0417 1643 00⟧ op naam van A. de Vries",
    "cuenta ⟦iban|ES91 2100 0418 4502 0005 1332⟧ de la empresa",
    "conto ⟦iban|IT60 X054 2811 1010 0000 0123 456⟧ intestato a Rossi",
    "Konto ⟦iban|CH93 0076 2011 6238 5295 7⟧ in Zürich",
    "rekening ⟦iban|BE68 5390 0754 7034⟧ geblokkeerd",
    "Konto ⟦iban|AT61 1904 3002 3457 3201⟧ Wien",
    "konto ⟦iban|SE45 5000 0000 0583 9825 7466⟧ tack",
    "konto ⟦iban|NO93 8601 1117 947⟧ takk",
    "konto ⟦iban|PL61 1090 1014 0000 0712 1981 2874⟧ dziękuję",
    "tili ⟦iban|FI21 1234 5600 0007 85⟧ kiitos",
    "conta ⟦iban|PT50 0002 0123 1234 5678 9015 4⟧ obrigado",
    "حساب ⟦iban|SA03 8000 0000 6080 1016 7519⟧ شكرا",
    "hesap ⟦iban|TR33 0006 1005 1978 6457 8413 26⟧ teşekkürler",
    "account ⟦iban|MT84MALT011000012345MTLCAST001S⟧ in Malta",
    "account ⟦iban|IE29-AIBK-9311-5212-3456-78⟧ with dashes",
    "compte ⟦iban|LU28 0019 4006 4475 0000⟧ au Luxembourg",
    "účet ⟦iban|CZ65 0800 0000 1920 0014 5399⟧ děkuji",
    '{"iban":"⟦iban|AE070331234567890123456⟧","bic":"EBILAEAD"}',
    "wrapped ⟦iban|DE89 3704 0044\n0532 0130 00⟧ by the mailer",
    "nbsp ⟦iban|DE89\u00a03704\u00a00044\u00a00532\u00a00130\u00a000⟧ aus dem PDF",
    "zero width ⟦iban|DE89\u200b3704\u200b0044\u200b0532\u200b0130\u200b00⟧ aus dem Web",
    "全角 ⟦iban|ＤＥ８９３７０４００４４０５３２０１３０００⟧ です",
    "(⟦iban|RO49AAAA1B31007593840000⟧)",
    "IBAN⟦iban|DK5000400440116243⟧ without a space",
]

SECRETS = [
    f"I set OPENAI_API_KEY=⟦secret|{OPENAI}⟧ and it says quota",
    f"our key ⟦secret|{OPENAI_PROJECT}⟧ leaked in a screenshot",
    f"Anthropic key: `⟦secret|{ANTHROPIC}⟧` please rotate",
    f"git clone fails with ⟦secret|{GITHUB}⟧, what scope?",
    f"the fine-grained one is ⟦secret|{GITHUB_FINE}⟧.",
    f"Actions log shows ⟦secret|{GITHUB_SERVER}⟧ in clear",
    f"aws_access_key_id = ⟦secret|{AWS_ID}⟧\naws_secret_access_key = ⟦secret|{AWS_SECRET}⟧\nregion = eu-west-1",
    f"export AWS_SECRET_ACCESS_KEY=⟦secret|{AWS_SECRET}⟧ && terraform plan",
    f"temporary id ⟦secret|{AWS_SESSION_ID}⟧ is expired",
    f"Slack bot ⟦secret|{SLACK}⟧ returns not_in_channel",
    f"hook https://hooks.slack.com/services/⟦secret|{SLACK_HOOK}⟧ is silent",
    f"Stripe: ⟦secret|{STRIPE}⟧ is in the repo!!",
    f"Stripe long: ⟦secret|{STRIPE_LONG}⟧ is there too",
    f"restricted ⟦secret|{STRIPE_RESTRICTED}⟧ and hook ⟦secret|{STRIPE_HOOK}⟧ both rotate",
    f"https://maps.example.com/js?key=⟦secret|{GOOGLE}⟧&v=3 gives RefererNotAllowed",
    f"Maps key ⟦secret|{GOOGLE}⟧ has no referrer limits",
    f'"client_secret": "⟦secret|{GOOGLE_OAUTH}⟧", "project_id": "acme-prod"',
    f"CI variable ⟦secret|{GITLAB}⟧ expired yesterday",
    f"//npm.example.com/:_authToken=⟦secret|{NPM}⟧",
    f"npm token ⟦secret|{NPM}⟧ revoked?",
    f"twine upload -u __token__ -p ⟦secret|{PYPI}⟧ dist/*",
    f"SendGrid ⟦secret|{SENDGRID}⟧ gives 403",
    f"bot https://api.telegram.org/bot⟦secret|{TELEGRAM}⟧/getMe returns 401",
    f"Telegram token ⟦secret|{TELEGRAM}⟧ please revoke",
    f"HF ⟦secret|{HUGGING_FACE}⟧ read only",
    f"Twilio API key ⟦secret|{TWILIO}⟧ (old account)",
    f"mailgun ⟦secret|{MAILGUN}⟧ was posted",
    f"droplet token ⟦secret|{DIGITALOCEAN}⟧ was posted",
    f"Shopify ⟦secret|{SHOPIFY}⟧ was posted",
    f"Square ⟦secret|{SQUARE}⟧ was posted",
    f"Authorization: Bearer ⟦secret|{JWT}⟧",
    "curl -H 'Authorization: Bearer ⟦secret|q8Zr4Kx1Wm7Vb3TnYc6R⟧' https://api.example.com/v1/orders",
    f'curl -H "authorization: Basic ⟦secret|{BASIC}⟧" https://api.example.com/v1/orders',
    f"Authorization: Basic ⟦secret|{BASIC_PADDED}⟧",
    f"Proxy-Authorization: Basic ⟦secret|{BASIC}⟧\nHost: api.example.com",
    f"Authorization: Token ⟦secret|{HEX_KEY}⟧\nAccept: application/json",
    f"X-Api-Key: ⟦secret|{HEX_KEY}⟧\nAccept: */*",
    f"the session token is a JWT: ⟦secret|{JWT_UNSIGNED_TAIL}⟧, see header",
    f'{{"access_token":"⟦secret|{JWT}⟧","token_type":"Bearer","expires_in":3600}}',
    f"https://app.example.com/cb#access_token=⟦secret|{JWT}⟧&state=xyz",
    f"https://api.example.com/v2/orders?api_key=⟦secret|{HEX_KEY}⟧&page=2 is 500",
    f"my deploy key:\n⟦secret|{PEM_RSA}⟧\nwhy is it rejected?",
    f'{{"type": "service_account", "private_key": "⟦secret|{PEM_PKCS8_JSON}⟧⟦any|\\n⟧", "zone": "eu"}}',
    f"```\n⟦secret|{PEM_OPENSSH}⟧\n```\nfor the runner",
    f"> ⟦secret|{PEM_EC_QUOTED}⟧\nquoted by the customer",
    f"the log was cut:\n⟦secret|{PEM_CUT}⟧",
    "DATABASE_URL=postgres://⟦any|shop⟧:⟦secret|s3cr3t-Pa55⟧@db.internal:5432/shop in .env",
    "redis://:⟦secret|p4ssw0rd!x⟧@cache.internal:6379/0 refuses",
    "mongodb+srv://⟦any|app⟧:⟦secret|Zr4Kx1Wm7Vb⟧@cluster0.abcde.mongodb.example/prod?retryWrites=true times out",
    "amqp://⟦any|guest⟧:⟦secret|gu3st%21pw⟧@mq.example.com:5672/vhost",
    "git remote: https://⟦any|ada⟧:⟦secret|hunter2hunter2⟧@git.example.com/acme/shop.git",
    f"git remote: https://⟦any|oauth2⟧:⟦secret|{GITLAB}⟧@git.example.com/acme/shop.git",
    "ftp://⟦any|upload⟧:⟦secret|geheim123⟧@ftp.example.com/in/orders.csv",
    "Server=db1;Database=shop;User Id=⟦any|sa⟧;Password=⟦secret|P@ssw0rd!2024⟧;Encrypt=true",
    "jdbc:mysql://db1:3306/shop?user=⟦any|app⟧&password=⟦secret|Kx1Wm7Vb⟧&useSSL=false",
    "DefaultEndpointsProtocol=https;AccountName=acme;AccountKey=⟦secret|"
    + "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq"
    + "/K1SZFPTOtr/KBHBeksoGMGw==⟧;EndpointSuffix=core.windows.net",
    "password=⟦secret|hunter2⟧",
    "Login works with password: ⟦secret|Tr0ub4dor&3⟧ but not SSO",
    "PGPASSWORD=⟦secret|zr4Kx1Wm⟧ psql -h db1 shop",
    '{"username": "⟦any|ada⟧", "password": "⟦secret|correct horse battery⟧", "remember": true}',
    "db_password: '⟦secret|q8Zr4Kx1⟧'  # staging",
    "Passwort: ⟦secret|Sommer2024!⟧ (bitte ändern)",
    "mot de passe : ⟦secret|Soleil-1789⟧ merci",
    "contraseña: ⟦secret|Verano#2024⟧ gracias",
    "пароль: ⟦secret|Zima2024!⟧ спасибо",
    "パスワード：⟦secret|Sakura2024⟧ です",
    "密码：⟦secret|Chun2024!⟧，谢谢",
    f"SECRET_KEY = '⟦secret|{DJANGO_KEY}⟧'\nDEBUG = False",
    "pwd=⟦secret|Kx1Wm7Vb⟧; still locked",
    "mysql -u shop -p⟦secret|Zr4Kx1Wm⟧ -h db1 shop",
    "curl -u ⟦any|ada⟧:⟦secret|hunter2hunter2⟧ https://api.example.com/v1/me",
    "Cookie: sessionid=⟦secret|q8zr4kx1wm7vb3tnyc6r0ueohs9jdlfp⟧; theme=dark",
    "zero-width in key ⟦secret|" + GITHUB[:12] + "\u200b" + GITHUB[12:] + "⟧ from chat",
    f"two at once: ⟦secret|{GITHUB}⟧,⟦secret|{STRIPE}⟧",
    "client_secret=⟦secret|8Q~kd0_Lm.Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLf⟧&grant_type=client_credentials",
]

#: Written after the first lists had found what was missing: other words for the same gaps, so that none is closed for
#: one string alone.
AGAIN = [
    '{"email":"⟦email|ada\\u0040example.com⟧","tel":"⟦phone|\\u002B442079460958⟧"}',
    "https://app.example.com/s?tel=⟦phone|%2B442079460958⟧&x=1 is empty",
    "<span>⟦email|ada&#64;example.com⟧</span> in the page source",
    "<a href='&#109;ailto:x'>⟦email|ada&#x40;example.com⟧</a>",
    "Error: Duplicate entry '⟦email|ada@example.com⟧' for key 'users.email'",
    "Key (email)=(⟦email|ada@example.com⟧) already exists.",
    "SMTP 550 5.1.1 <⟦email|no.such.user@example.com⟧>: Recipient address rejected",
    'The model wrote: "Contact ⟦email|grace@example.org⟧, cc ⟦email|ops@example.org⟧."',
    'Von: "Müller, Jörg" <⟦email|joerg.mueller@firma.example⟧>; Gesendet: Montag, 4. Mai 2026 09:12',
    "user ⟦email|1234567@example.com⟧ (id 1234567)",
    "⟦email|ada@example.com⟧\n⟦email|bob@example.com⟧\n⟦email|cleo@example.com⟧",
    "Skype live:ada, mail ⟦email|ada-l@my-company.example⟧/⟦email|ada2@my-company.example⟧",
    "Ada<⟦email|ada@example.com⟧>wrote:",
    "E-Mail = ⟦email|ada@example.com⟧;Tel = ⟦phone|+49 30 23125 111⟧",
    "mail to ⟦email|ada@example.com⟧(work) or ⟦email|ada@home.example⟧(private)",
    "~⟦email|ada@example.com⟧~ crossed out",
    "Rückrufnummer: ⟦phone|+49 (30) 23125-0⟧ oder ⟦phone|+49 (30) 23125-12⟧",
    "Ruf mich an: ⟦phone|+49(0)30 23125 14⟧!",
    "Bureau ⟦phone|+33 (0)1 99 00 12 34⟧ ou mobile ⟦phone|+33 (0) 6 39 98 12 34⟧.",
    "+44: dial ⟦phone|+44 (20) 7946-0958⟧ or toll free ⟦phone|+44 808 157 0192⟧",
    "Mobile number - ⟦phone|07700 900 456⟧",
    "US office ⟦phone|1 (800) 555-0199⟧ works 9-5",
    "my no. is ⟦phone|+27 82 123 4567⟧",
    "phone numbers: ⟦phone|+1 202 555 0101⟧, ⟦phone|+1 202 555 0102⟧ and ⟦phone|+1 202 555 0103⟧",
    "TEL;TYPE=CELL:⟦phone|+15555550100⟧\nEMAIL:⟦email|ada@example.com⟧\nEND:VCARD",
    "contact: ⟦phone|+66 81 234 5678⟧ (Bangkok), ⟦phone|+84 912 345 678⟧ (Hanoi), ⟦phone|+62 812 345 678⟧ (Jakarta)",
    "⟦phone|+380 50 123 4567⟧ Київ; ⟦phone|+375 29 491 19 11⟧ Мінск",
    "telefonszám: ⟦phone|+36 20 123 4567⟧ köszönöm",
    "τηλέφωνο ⟦phone|+30 21 2345 6789⟧ ευχαριστώ",
    "broken ⟦phone|+49 30\n> 23125 456⟧ in a reply",
    "Call ⟦phone|+1 (212)\n555-0142⟧ please",
    "Zahlung mit ⟦card|5555-5555-5555-4444⟧, gültig bis 12/29, Prüfziffer entfernt",
    "wrapped reply ⟦card|4000 0566\n> 5566 5556⟧ there",
    "card=⟦card|378282246310005⟧&exp=1229",
    "log: charge pan:⟦card|5200828282828210⟧ result:declined",
    "[card ⟦card|4917 6100 0000 0000⟧] Visa debit",
    "IBAN des Kunden lautet: ⟦iban|AT611904300234573201⟧.",
    "iban=⟦iban|BE68539007547034⟧&amount=12",
    "IBAN:⟦iban|HU42 1177 3016 1111 1018 0000 0000⟧|BIC:OTPVHUHB",
    "⟦iban|HR12 1001 0051 8630 0016 0⟧ i ⟦iban|SI56 1910 0000 0123 438⟧",
    "iban⟦iban|lt121000011101001000⟧ sąskaita",
    "wrapped reply ⟦iban|GB82 WEST 1234\n> 5698 7654 32⟧ there",
    f"remote: https://⟦secret|{GITHUB}⟧@github.com/acme/shop.git",
    f"docker login -u ci -p ⟦secret|{GITLAB}⟧ registry.example.com",
    "docker login -u ci -p ⟦secret|q8Zr4Kx1Wm⟧ registry.example.com",
    "redis-cli -h cache -p 6379 -a ⟦secret|q8Zr4Kx1Wm⟧ ping",
    "sshpass -p '⟦secret|q8Zr4Kx1Wm⟧' ssh deploy@web1",
    "mysqldump --user=shop --password=⟦secret|q8Zr4Kx1Wm⟧ shop > dump.sql",
    "curl --user '⟦any|svc⟧:⟦secret|q8Zr4Kx1Wm⟧' -X POST https://api.example.com/v1/x",
    "gh auth login --token ⟦secret|q8Zr4Kx1Wm7Vb3TnYc⟧ then retry",
    "Server=tcp:db1,1433;Initial Catalog=shop;User ID=⟦any|sa⟧;Password=⟦secret|Q8zr;4kx1⟧;Connection Timeout=30;",
    "host=db1 port=5432 dbname=shop user=⟦any|app⟧ password=⟦secret|Zr4Kx1Wm⟧ sslmode=require",
    "sftp://⟦any|ada⟧:⟦secret|p%40ss%2Fw0rd⟧@files.example.com/out",
    "smtp://⟦any|apikey⟧:⟦secret|" + SENDGRID + "⟧@smtp.sendgrid.example:587",
    "密码是⟦secret|Chun2024x⟧。请重置",
    "PIN/Passwort: „⟦secret|Sommer2024⟧“ geht nicht",
    "Password is ⟦secret|Winter#2026⟧, please reset it.",
    "set-cookie: session=⟦secret|q8zr4kx1wm7vb3tnyc6r0ueohs9j⟧; HttpOnly; Path=/",
    f"> Authorization: Bearer ⟦secret|{JWT}⟧\n> Host: api",
    f"'Authorization': 'Bearer ⟦secret|{OPENAI}⟧'",
    f'headers={{"x-api-key": "⟦secret|{ANTHROPIC}⟧"}}',
    f"ENV STRIPE_SECRET_KEY ⟦secret|{STRIPE}⟧",
    f"const token = `⟦secret|{GITHUB_FINE}⟧`;",
    "grafana ⟦secret|gl" + "sa_q8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfP_1a2b3c4d⟧ editor",
    "groq ⟦secret|gs" + "k_q8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfPaGt2q8Zr4Kx1Wm7Vb3Tn⟧ quota",
    "vault ⟦secret|hv" + "s.CAESIJq8Zr4Kx1Wm7Vb3TnYc6R0uEo⟧ sealed",
    "otp secret: ⟦secret|JBSWY3DPEHPK3PXP⟧ in the QR",
    "refresh_token: ⟦secret|1/" + "/0gq8Zr4Kx1Wm7Vb3TnYc6R0uEoHs9JdLfPaGt2WqZr4Kx1Wm7⟧",
]

PRIVATE = [labelled(marked) for marked in (*EMAILS, *PHONES, *CARDS, *IBANS, *SECRETS, *AGAIN)]

# --- Look-alikes: nothing here is private -----------------------------------------------------------------------------

NEAR_MISSES = [
    "Order 20240512-000183 has not shipped",
    "Bestellnummer 4500123456 fehlt im Portal",
    "commande n° 100-2345678-9012345 toujours en attente",
    "See TCK-1008, TCK-100812345 and FUP-12 for the history",
    "Receipt R-1f3a90bc replays R-0a1b2c3d",
    "receipt 0192f3a4-5b6c-7d8e-9f01-23456789abcd was swept",
    "trace id 550e8400-e29b-41d4-a716-446655440000 in the header",
    "uuid without dashes 550e8400e29b41d4a716446655440000 in the log",
    "on 2026-05-12 at 09:14:03 the page froze",
    "2026-05-12T09:14:03.123456+00:00 worker-3 settled in 1204 ms",
    "12-05-2026 works for me, 05/12/2026 does not",
    "Termin am 12.05.2026 um 14.30 Uhr, Raum 3.014",
    "2026-05-12 09:14:03,412 ERROR [billing.tasks:118] retry 3/5 in 30s",
    '[12/May/2026:09:14:03 +0000] "GET /api/v1/tickets/1008 HTTP/1.1" 200 5316',
    "unix time 1778577243 and in ms 1778577243123",
    "Upgrade from 5.2.14 to 5.2.15rc1, Chrome 126.0.6478.127",
    "Total € 1.234.567,89 instead of $1,234,567.89",
    "12 x 149.99 = 1799.88, VAT 19 % = 341.98",
    "host 192.168.100.254 and 10.0.0.1:5432 answer",
    "ipv6 2001:0db8:85a3:0000:0000:8a2e:0370:7334 does not",
    "part 7894-AB-00123 rev C, SKU 100200300400",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 matches",
    "fixed in commit 96de998c1f3a90bc7d8e5b6c0192f3a423456789",
    "md5 d41d8cd98f00b204e9800998ecf8427e of the empty file",
    "image: shop@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "tracking 4242 4242 4242 4241 is not found",
    "reference 4111111111111112 on the invoice",
    "parcel 1Z999AA10123456784 is in Leipzig",
    "statement shows DE00 3704 0044 0532 0130 00 which the bank calls invalid",
    "code GB82 WEST 1234 5698 7654 33 was refused",
    "ask @ada in the channel, a@b is only an example",
    "the @media rule and @property decorator are fine",
    "meet @ 10 am, 5 @ 3.50 each",
    "scoped package @acme/shop@4.17.21 breaks the build",
    "coordinates 52.520008, 13.404954 are Berlin",
    "40°26′46″N 79°58′56″W on the map",
    "ISBN 978-3-16-148410-0 and ISBN 0-306-40615-2 are out of print",
    "EAN 4006381333931 scanned twice",
    "MAC 00:1A:2B:3C:4D:5E and 00-1a-2b-3c-4d-5f on the switch",
    "hex colours #1f3a90bc, #fff and #4242ff",
    "IMG_20260512_091403.jpg and scan-0012-final(2).pdf are attached",
    "backup_2026-05-12_09-14-03.tar.gz is 1234567890 bytes",
    "3.14159265358979 is close to pi; 2**64 = 18446744073709551616",
    "(1024 - 512) / 2 + 33 * 10 = 586",
    "Error 0x80070005 at 0x00007ffd1a2b3c4d",
    "HTTP 429 Too Many Requests, Retry-After: 120",
    "customer 1008 paid invoice 2026-00412 on time",
    "He forgot his password and the reset link is dead",
    "the password is wrong, says the form",
    "password reset token expired after 24 hours",
    "Basic plan users cannot use the Bearer of bad news badge",
    "the API key page shows a blank token list",
    "secret santa list and the key to the office",
    "rate limits: max_tokens=4096, temperature=0.2, top_p=1",
    "usage: prompt_tokens: 1204, completion_tokens: 318, total_tokens: 1522",
    "prices 100 200 300 400 500 in the table",
    "opening hours 09:00-17:00, Sat 10-14",
    "rows 1-250 of 10000, page 1/40",
    "Steuernummer und USt-IdNr. DE123456789 stehen auf der Rechnung",
    "room 2.104, floor 2, building 12-14, 10115 Berlin",
    "https://shop.example.com/products/100200300400?ref=mail#reviews is slow",
    "https://medium.example/@ada/how-we-ship-3f8a1c9e7b2d",
    "ssh://git.example.com:2222/acme/shop.git asks twice",
    "the task-management and risk-assessment-template pages",
    "sk-learn and sk_learn are not scikit-learn; npm_config_cache is set",
    "version 1.2.3-beta.4+build.20260512 is live",
    "LOT 0123 4567 89 best before 05 2027",
    "score 21-15 21-18, then 30 15 40",
    "flight LH 4567 on 12 May, seat 23A, PNR X7K9QZ",
    "eyJ is how a token begins, not a token",
    "-----BEGIN CERTIFICATE----- is public, said the doc",
    "zip codes 90210, 10115, 75008 and 100-0001",
    "git describe says v5.2-14-g96de998",
    "Kundennummer: 00123456, Vertragsnummer: 7700123456",
    "serial C02XL0GYJGH5, asset 000-123-456",
    "progress 0.30 0.45 0.60 0.75 0.90",
    "idempotency key press:0192f3a4-5b6c-7d8e-9f01-23456789abcd was reused",
    "Idempotency-Key: tck-1008-press-0001",
    "run 20260512T091403Z-7f3a on worker 12 of 16",
    "input_hash 1f3a90bc7d8e5b6c of both runs is the same",
    # beside what is found: two lines of numbers, flags, escapes, prefixes
    "+12 points\n34 wins\n5678 fans",
    "scores:\n4100 4200\n4300 4400\n4500 4600",
    "1000\n2000\n3000\n4000\n5000",
    "+1000\n+2000\n20260512",
    "mkdir -p build2024x/out && cp -a src1234x dst5678y",
    "docker run -p 8080:8080 -u 1000:1000 shop:1.2.3",
    "curl -u admin:password https://api.example.com is from the docs",
    "curl -sS -o out1234.json https://api.example.com/v2/items",
    "http -p headers1 is httpie's flag? see http docs",
    "ssh -p 2222 deploy@web1 and psql -p 5432",
    "bot commands: /start, bot:1, robot1234567890",
    "https://wa.me/ is blocked here",
    "50%40 is not an address, 5%2B3 neither",
    "AT&amp;T &plus; friends &#64; nobody",
    "iban is missing, IBAN invalid, ibanDE12",
    "table:\n| 2024 | 2025 |\n| 2026 | 2027 |",
    "line 4242\n4242 of 9999",
    "key-value-store and key-0001 and key-press",
    "patience, pattern.abc and patch 1.2",
    "ratio 1//0 is an error, 10//3 is 3",
    "secret_santa_list_2026 is a file; secret_key_base is unset",
    "see pages 100 - 120 / 200 - 230",
    "growth +4.5 % / +3.2 % - flat",
    "+49 is Germany's code, 0049 too",
    "PR #1234, issue #5678 and MR !910",
    "from 10:00 - 12:00 / 14:00 - 16:00",
    "密码错误，请重试。密码已过期",
    "パスワードを忘れました。パスワード：8文字以上",
    "password;next=1 user-agent: curl/8.5.0",
    "https://example.com/a;jsessionid=none?key=title",
]
