"""Telephone numbers, international and national. The rules are libphonenumber's."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

import phonenumbers

from receipts.redaction.accounts import UUID
from receipts.redaction.reading import WRAP, Span, ascii_alnum, mentions

#: The one look that spares most notes all further ones: seven digits, at most four characters between two,
#: a line's end among them.
_DIGITS_CLOSE = re.compile(r"[0-9](?:[^0-9]{0,4}[0-9]){6}")

_BETWEEN = r"[ .()/\-‐-―−]{1,3}+"
_ISO_DATE = r"(?:19|20)[0-9]{2}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])(?![0-9])"
#: Numbers that are something else come first and swallow their digits; then a run of digits as phones have.
_NUMBERS = re.compile(
    rf"(?=[0-9A-Fa-f+(])(?<![0-9A-Za-z_])(?:{UUID.pattern}"
    r"|(?:19|20)[0-9]{2}[-/.][0-9]{1,2}[-/.][0-9]{1,2}(?![0-9])"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?)?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?![0-9:])"
    r"|[0-9]{1,2}([-/.])[0-9]{1,2}\1(?:19|20)?[0-9]{2}(?![-/.]?[0-9])"
    r"|(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}(?![0-9]|\.[0-9])"
    rf"|(?P<run>(?:\+ ?\(?|\(\+?)?[0-9]++(?:{_BETWEEN}(?!{_ISO_DATE})[0-9]++)*))"
)
#: Characters of the longest number people write, brackets and all.
_LONGEST = 40
#: The rest of a number that a mail program broke: in groups as phones have, up to the end of the number.
_NEXT_LINE = re.compile(rf"\)?{WRAP}[0-9]{{2,8}}(?=((?:[ .\-‐-―−][0-9]{{2,8}}){{0,4}}))\1(?![0-9])")
_OF_AN_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*-$")  # the TCK- of TCK-1008, the INV- of INV-2026-0012345
_HARD_BREAK = re.compile(r" [-‐-―−/] |\. | {2,}|(?<=[0-9])/(?=\+|0[1-9][0-9])")
_SOFT_BREAK = re.compile(r" (?=0[1-9]|\()")
_EXTENSION = re.compile(r",? ?(?:ext\.?|extension|x|durchwahl|dw|poste|int\.) ?[0-9]{1,6}(?![0-9])", re.IGNORECASE)

_CONNECTING = (
    r"(?:[\s.:#=)\"'-]|\b(?:me|us|him|her|them|back|at|on|under|unter|auf|is|ist|nr|no|num|number|nummer|numéro"
    r"|número|numero|al|au|a|à|på|het|op|over)\b){0,12}$"
)
_SAYS_PHONE = re.compile(
    r"(?:\bwa\.me/|\b(?:tele(?:ph|f)[oóo]\w*|t[eé]l[eé]phone|t[eé]l|phone|tlf|mob|mobil[ea]?|móvil|mobiel|handy|cell|cellphone"
    r"|cellulare|celular|portable|fax|sms|whatsapp|signal|festnetz|rückruf\w*|callback|erreichbar|puh|puhelin|gsm"
    rf"|тел|телефон|моб)|電話|携帯|电话|手机|電話番号|전화|핸드폰|휴대폰|هاتف|☎|📞){_CONNECTING}",
    re.IGNORECASE,
)
_PHONE_STEMS = (  # noqa: SIM905 (one line of words)
    "tel tél fon phone tlf mob móv handy cel portable fax sms whatsapp signal festnetz rückruf callback "
    "wa.me erreichbar puh gsm тел моб 電話 携帯 电话 手机 전화 핸드폰 휴대폰 هاتف ☎ 📞"
).split()
#: Words that introduce a phone number, and much else: the number has to look like one too.
_MAY_SAY_PHONE = re.compile(
    rf"\b(?:call|ring|dial|text|reach|bel|appelez|llám\w+|llam\w+|ligue|zadzwoń|rufen|anrufen|contact){_CONNECTING}",
    re.IGNORECASE,
)
_SAYS_OTHERWISE = re.compile(
    r"(?:\b(?:order|bestell\w*|invoice|rechnung\w*|auftrag\w*|commande|facture|pedido|factura|ref|reference|case"
    r"|error|fehler|code|id|sku|serial|s/?n|imei|isbn|ean|tracking|build|version|account|konto|customer|kunden\w*"
    r"|ticket|line|port|batch|lot|part|item|article|artikel\w*|commit|no|nr|vat)|[#№])[\s.:#-]*$",
    re.IGNORECASE,
)
_AMOUNT_BEHIND = re.compile(r"[.,][0-9]|\s?(?:%|€|\$|£|EUR|USD|GBP|CHF)")

#: National ways of writing that are a phone's and hardly anything else's, and where they must be valid.
#: The North American plan is a shape alone: its fictional 555 numbers are what people type.
_NATIONAL: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"(?:1[ .-]?)?\(?[2-9]\d\d(?:\) ?|[ .-])[2-9]\d\d[ .-]?\d{4}"), ()),
    (re.compile(r"8[ -]?\(?[3489]\d\d\)?[ -]?\d{3}[ -]?\d\d[ -]?\d\d"), ("RU", "KZ")),
    (re.compile(r"\(\d{2,4}\)[ -]?\d{3,5}[ -]?\d{4}"), ("BR", "AR", "MX", "CO", "US")),
    (re.compile(r"3\d\d[ .-]\d{3}[ .-]?\d{3,4}"), ("IT",)),
    (re.compile(r"69\d[ -]\d{3}[ -]?\d{4}|2\d\d[ -]\d{3}[ -]?\d{4}"), ("GR",)),
    (re.compile(r"1[3-9]\d[ -]\d{4}[ -]\d{4}"), ("CN",)),
    (re.compile(r"[6-9]\d{4}[ -]\d{5}"), ("IN",)),
)
_TRUNK_ZERO = re.compile(r"\(?0[1-9]")
_BARE_MOBILE = re.compile(r"01[5-7]\d{8,9}|0[67]\d{8}|07\d{9}")
#: Countries that dial a 0 before the area (or, like Italy, have it as part of the number).
_TRUNK_ZERO_REGIONS = (  # noqa: SIM905 (one line of words)
    "DE AT CH GB IE FR BE NL LU SE FI IT HR SI RS RO BG UA SK AU NZ JP KR CN TW IN ID MY TH VN PH TR IL EG "
    "ZA NG KE PK BD AE SA AR BR PE"
).split()


def phones(text: str) -> Iterator[Span]:
    if not _DIGITS_CLOSE.search(text):
        return
    for number in _NUMBERS.finditer(text):
        if number["run"] is None:
            continue
        run = number.span("run")
        in_one_line = list(_phones_in_run(text, *run)) if len(number["run"]) >= 7 else []
        for start, end in in_one_line or _over_two_lines(text, *run):
            extension = _EXTENSION.match(text, end)
            yield start, extension.end() if extension else end


def _phones_in_run(text: str, start: int, end: int) -> Iterator[Span]:
    """Several numbers in a row make one run: part it where people part them, and then where they might."""
    if text[start] != "+" and (span := _phone(text, start, end)):
        yield span
        return
    if span := _spaced_out(text, start, end):
        yield span
        start = span[1]
    for hard in _parts(text, start, end, _HARD_BREAK):
        if span := _phone(text, *hard):
            yield span
            continue
        soft = list(_parts(text, *hard, _SOFT_BREAK))
        if len(soft) > 1:
            yield from filter(None, (_phone(text, *part) for part in soft))


def _spaced_out(text: str, start: int, end: int) -> Span | None:
    """As in "+49 (0) 30 / 23125 - 789": what parts numbers elsewhere parts area, number and extension here."""
    if text[start] != "+" or end - start > _LONGEST:
        return None
    gap = _HARD_BREAK.search(text, start, end)
    return _international(text, start, end, strict=True) if gap and not _phone(text, start, gap.start()) else None


def _over_two_lines(text: str, start: int, end: int) -> Iterator[Span]:
    if text.startswith(("+", "00"), start) and end - start <= _LONGEST and (rest := _NEXT_LINE.match(text, end)):
        yield from filter(None, [_international(text, start, rest.end(), strict=True)])


def _parts(text: str, start: int, end: int, by: re.Pattern[str]) -> Iterator[Span]:
    for gap in by.finditer(text, start, end):
        yield start, gap.start()
        start = gap.end()
    yield start, end


def _phone(text: str, start: int, end: int) -> Span | None:
    """The phone number that these digits are, or None; a bracket around the whole is not part of it."""
    if end - start > _LONGEST:
        return None
    if text[start : start + 1] == "(" and ")" not in text[start:end]:
        start += 1
    written = text[start:end]
    if written.startswith(("+", "(+", "00")):
        return _international(text, start, end)
    if not 7 <= sum(map(str.isdigit, written)) <= 15 or _glued(text, end):
        return None
    return (start, end) if _is_national(written, text[max(0, start - 40) : start], text[end : end + 6]) else None


def _glued(text: str, end: int) -> bool:
    """Does an identifier go on behind it, as in 0171-2345678-A?"""
    rest = text[end : end + 2].lstrip("-_")[:1]
    return bool(rest) and text[end : end + 1] not in ("x", "X", " ") and ascii_alnum(rest)


def _international(text: str, start: int, end: int, *, strict: bool = False) -> Span | None:
    """Country code and all; a number that follows ("+1 212 555 0123 2 times") is dropped until it fits."""
    for _ in range(4):
        written = text[start:end]
        digits = re.sub(r"\(0\)|[^0-9]", "", written)
        if len(digits) < 7:
            return None
        plus = not written.startswith("00")
        if not (_glued(text, end) and not plus) and _dialable(
            digits if plus else digits[2:], strict=strict or not plus
        ):
            return start, end
        shorter = re.search(r"[\s>.()/\-‐-―−]+[0-9]+$", written)
        if not shorter:
            return None
        end = start + shorter.start()
    return None


def _dialable(digits: str, *, strict: bool) -> bool:
    """Would it ring? `strict` asks for a range in use; else the length is enough: fictional numbers count."""
    if not 7 <= len(digits) <= 15:
        return False
    try:
        number = phonenumbers.parse(f"+{digits}", None)
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(number) if strict else phonenumbers.is_possible_number(number)


def _is_national(written: str, before: str, behind: str) -> bool:
    if mentions(before, _PHONE_STEMS) and _SAYS_PHONE.search(before):
        return True
    separated = not written.isdigit()
    if not (_written_as_phone(written, separated) or _after_a_verb(written, separated, before)):
        return False
    if _SAYS_OTHERWISE.search(before) or _OF_AN_IDENTIFIER.search(before):
        return False
    return not _AMOUNT_BEHIND.match(behind)


def _after_a_verb(written: str, separated: bool, before: str) -> bool:
    return (separated or len(written) >= 10) and _MAY_SAY_PHONE.search(before) is not None


def _written_as_phone(written: str, separated: bool) -> bool:
    if _TRUNK_ZERO.match(written) and (separated or _BARE_MOBILE.fullmatch(written)):
        return bool(_with_trunk_zero().fullmatch(re.sub(r"[^0-9]", "", written)))
    return separated and any(
        shape.fullmatch(written) and (not regions or any(_valid_in(written, region) for region in regions))
        for shape, regions in _NATIONAL
    )


def _valid_in(written: str, region: str) -> bool:
    try:
        return phonenumbers.is_valid_number_for_region(phonenumbers.parse(written, region), region)
    except phonenumbers.NumberParseException:
        return False


@functools.cache
def _with_trunk_zero() -> re.Pattern[str]:
    """libphonenumber's national patterns as one, the 0 in front: one match instead of one per country."""
    patterns: dict[str, None] = {}
    for region in _TRUNK_ZERO_REGIONS:
        rules = phonenumbers.PhoneMetadata.metadata_for_region(region)
        if rules is not None and rules.general_desc is not None and rules.general_desc.national_number_pattern:
            patterns[f"0?(?:{rules.general_desc.national_number_pattern})"] = None
    return re.compile("|".join(patterns))
