"""Account and card numbers: IBANs and cards. The check digits are python-stdnum's."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from stdnum import iban, luhn, numdb

from receipts.redaction.reading import WRAP, Span, ascii_alnum

_IBAN_HEAD = re.compile(r"(?<![0-9A-Za-z])(?:[Ii][Bb][Aa][Nn])?([A-Za-z]{2})[0-9]{2}(?=[ -]?[A-Za-z0-9]| ?[\r\n])")
_NOT_OF_AN_IBAN = re.compile(r"[^0-9A-Za-z]")


def ibans(text: str) -> Iterator[Span]:
    done = 0
    for head in _IBAN_HEAD.finditer(text):
        pattern = _iban_of(head[1].upper())
        whole = pattern.match(text, head.start(1)) if pattern and head.start() >= done else None
        if whole and iban.is_valid(_NOT_OF_AN_IBAN.sub("", whole[0]), check_country=False):
            yield whole.span()
            done = whole.end()


@functools.cache
def _iban_of(country: str) -> re.Pattern[str] | None:
    """As many characters as the registry gives the country; words may follow, another digit may not."""
    [(_, facts), *_] = numdb.get("iban").info(country)
    size = sum(int(count) for count in re.findall(r"([0-9]+)!", facts.get("bban", "")))
    return re.compile(rf"[A-Za-z]{{2}}[0-9]{{2}}(?:(?:[ -]|{WRAP})?[A-Za-z0-9]){{{size}}}(?![0-9])") if size else None


#: Issuers' ranges and the lengths they use (ISO/IEC 7812; Visa, Mastercard, Amex, Diners, JCB, Discover,
#: UnionPay, Maestro, Mir, RuPay, Troy). One number in ten passes Luhn; an IMEI always does and is no card.
_ISSUER = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11}|3(?:0[0-5]|[689]\d)\d{13,16}|35(?:2[89]|[3-8]\d)\d{12,15}"
    r"|(?:6011|64[4-9]\d|65\d\d|62\d\d|81\d\d|220[0-4]|9792|508\d|60\d\d|82\d\d)\d{12,15}"
    r"|(?:50|5[6-9]|6[0-9])\d{11}|(?:50|5[6-9]|6[0-9])\d{14,17}"
)
_DIGIT_GROUPS = re.compile(r"(?<![0-9A-Za-z_+])(?<![0-9][.,])[0-9]++(?:[ .\-‐-―−]{1,2}+[0-9]++)*")
_CARD_DIGITS = re.compile(r"[0-9](?:[^0-9\n]{0,2}[0-9]){12}")
_GROUP = re.compile(r"[0-9]+")
_GROUPINGS = ((4, 4, 4, 4, 3), (4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 5))
#: Grouped as cards are, broken across lines; more groups on one of them make it a table.
_WRAPPED_GROUPS = re.compile(
    r"(?<![0-9A-Za-z_+])(?<![0-9][ .-])[0-9]{4}GAP(?:[0-9]{4}GAP[0-9]{4}GAP[0-9]{4}|[0-9]{6}GAP[0-9]{4,5})"
    r"(?![ .-]?[0-9])(?![A-Za-z_])".replace("GAP", rf"(?:[ .\-‐-―−]{{1,2}}|{WRAP})")
)
UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")


def cards(text: str) -> Iterator[Span]:
    if not _CARD_DIGITS.search(text):
        return
    for run in _DIGIT_GROUPS.finditer(text):
        if len(run[0]) < 13 or UUID.match(text, run.start()):
            continue
        groups = [group.span() for group in _GROUP.finditer(text, run.start(), run.end())]
        if ascii_alnum(text[run.end() : run.end() + 1]):
            groups.pop()
        yield from _cards_among(text, groups)


def wrapped_cards(text: str) -> Iterator[Span]:
    if "\n" in text:
        for groups in _WRAPPED_GROUPS.finditer(text):
            if is_card(re.sub(r"[^0-9]", "", groups[0]), grouped=False):
                yield groups.span()


def _cards_among(text: str, groups: list[Span]) -> Iterator[Span]:
    """Cards in a run of digit groups: the whole run, else a part of it that is grouped as cards are."""
    lengths = [end - start for start, end in groups]
    if 13 <= sum(lengths) <= 19 and is_card(_digits(text, groups), grouped=False):
        yield groups[0][0], groups[-1][1]
        return
    at = 0
    while at < len(groups):
        size = next((s for s in _card_sizes(lengths, at) if is_card(_digits(text, groups[at : at + s]), s > 1)), 0)
        if size:
            yield groups[at][0], groups[at + size - 1][1]
        at += size or 1


def _card_sizes(lengths: list[int], at: int) -> Iterator[int]:
    for grouping in _GROUPINGS:
        if tuple(lengths[at : at + len(grouping)]) == grouping:
            yield len(grouping)
    if 13 <= lengths[at] <= 19:
        yield 1


def is_card(digits: str, grouped: bool) -> bool:
    known = _ISSUER.fullmatch(digits) or (grouped and len(digits) == 16)
    return bool(known and digits.strip("0") and luhn.is_valid(digits))


def _digits(text: str, groups: list[Span]) -> str:
    return "".join(text[start:end] for start, end in groups)
