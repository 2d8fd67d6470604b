"""Private values out, before anything enters a receipt, attempt, event, log line or hash. No Django, no ORM.

`redact_text` replaces each private value by the mark of its kind: `[e-mail]`, `[phone]`, `[card]`, `[IBAN]`,
`[secret]`; `redact` adds `[private]` for the fields that a contract declares private. The check digits are
python-stdnum's, the rules of phone numbers libphonenumber's.

How it reads: every kind has a *finder*, a function from text to spans. Finders see the text as a person does
(NFKC, digits of any script, nothing invisible); the spans are cut from the text as it was typed. Each works on
what the one before left, in the order of `_FINDERS`, so a digit run inside a key is a key and not a phone.

How it stays linear: no pattern may rescan what it has refused. Repetitions are possessive (`++`) or bounded,
and what a pattern cannot say so is checked in Python after the match.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

import phonenumbers
from stdnum import iban, luhn, numdb

Span: TypeAlias = tuple[int, int]
Finder: TypeAlias = Callable[[str], Iterable[Span]]

#: JSON nested deeper than this is nobody's arguments; what lies below is replaced, not walked.
MAX_DEPTH = 64

#: A replaced value can uncover another one beside it; passes until nothing changes, and no more than this.
_MAX_PASSES = 8


# ── the outside ─────────────────────────────────────────────────────────────────────────────────────────────


def redact_text(text: str) -> str:
    """`text` with every private value replaced by its mark; unchanged, and cheap, where there is none.

    Never raises; lone surrogates pass through. `redact_text(redact_text(x)) == redact_text(x)`.
    """
    for _ in range(_MAX_PASSES):
        redacted = _one_pass(text)
        if redacted == text:
            break
        text = redacted
    return text


def redact(value: Any, *, private: frozenset[str] = frozenset()) -> Any:
    """A JSON value with its texts redacted, keys included; a new value, the given one is not touched.

    Args:
        value: dict, list, str, number, bool or None; a tuple comes back as a list.
        private: names of fields, at any depth, whose whole value becomes `[private]`.

    A text in a field named like a secret (`password`, `api_key`) becomes `[secret]`, whatever it looks like.
    """
    return _redact(value, private, MAX_DEPTH)


def input_hash(ticket_id: str, notes: str) -> str:
    """16 hex characters that say "the same input"; for correlation, not security.

    Source: `make_receipt` of the article on run receipts, over the redacted `{"ticket_id", "notes"}`.
    """
    redacted = {"ticket_id": ticket_id, "notes": redact_text(notes)}
    return hashlib.sha256(json.dumps(redacted, sort_keys=True).encode()).hexdigest()[:16]


def _redact(value: Any, private: frozenset[str], depth: int) -> Any:
    if isinstance(value, str):
        return redact_text(value)
    if isinstance(value, dict | list | tuple) and depth == 0:
        return "[too deep]"
    if isinstance(value, dict):
        return _redact_fields(value, private, depth)
    if isinstance(value, list | tuple):
        return [_redact(item, private, depth - 1) for item in value]
    # A card number sent as a JSON number is still a card number.
    if isinstance(value, int) and 10**12 <= value < 10**19 and _is_card(str(value), grouped=False):
        return "[card]"
    return value


def _redact_fields(fields: dict[Any, Any], private: frozenset[str], depth: int) -> dict[Any, Any]:
    redacted: dict[Any, Any] = {}
    for name, value in fields.items():
        shown = redact_text(name) if isinstance(name, str) else name
        # Two addresses as keys become the same mark: number the later ones rather than lose their values.
        if shown in redacted:
            shown = next(s for n in range(2, len(fields) + 2) if (s := f"{shown} ({n})") not in redacted)
        if name in private:
            redacted[shown] = "[private]"
        elif isinstance(name, str) and isinstance(value, str) and value and _SECRET_FIELD.search(name):
            redacted[shown] = "[secret]"
        else:
            redacted[shown] = _redact(value, private, depth - 1)
    return redacted


def _one_pass(text: str) -> str:
    view, origin = _readable(text)
    for mark, find in _FINDERS:
        spans = list(find(view))
        if spans:
            text = _replace(text, origin, spans, mark)
            view, origin = _readable(text)
    return text


def _replace(text: str, origin: list[int] | None, spans: list[Span], mark: str) -> str:
    pieces, done = [], 0
    for start, end in spans:
        if origin is not None:
            start, end = origin[start], origin[end - 1] + 1
        if start < done:
            continue
        pieces += [text[done:start], mark]
        done = end
    return "".join([*pieces, text[done:]])


# ── the text as a person reads it ───────────────────────────────────────────────────────────────────────────

#: Characters without a shape: soft hyphen, joiners, direction marks, fillers, variation selectors, tags.
_INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff"
)
_HIDES_SOMETHING = re.compile(rf"[{_INVISIBLE}]|(?![0-9])\d")
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_IS_INVISIBLE = re.compile(rf"[{_INVISIBLE}]")


def _readable(text: str) -> tuple[str, list[int] | None]:
    """The text to search, and the place in `text` of each of its characters; None where both are the same."""
    if text.isascii() or (unicodedata.is_normalized("NFKC", text) and not _HIDES_SOMETHING.search(text)):
        return text, None
    pieces: list[str] = []
    origin: list[int] = []
    done = 0
    for char in _NOT_ASCII.finditer(text):
        at = char.start()
        pieces.append(text[done:at])
        origin.extend(range(done, at))
        shape = _shape(char[0])
        pieces.append(shape)
        origin.extend([at] * len(shape))
        done = at + 1
    pieces.append(text[done:])
    origin.extend(range(done, len(text)))
    return "".join(pieces), origin


@functools.lru_cache(maxsize=4096)
def _shape(char: str) -> str:
    if _IS_INVISIBLE.match(char):
        return ""
    digit = unicodedata.decimal(char, None)
    return unicodedata.normalize("NFKC", char) if digit is None else str(digit)


# ── secrets ─────────────────────────────────────────────────────────────────────────────────────────────────

_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:\s|\\[nr])*+(?:[A-Za-z-]{2,20}: [^\n]{0,120}\n\s*+)*+[A-Za-z0-9+/=]{16}")


def _private_keys(text: str) -> Iterator[Span]:
    done = 0
    while begin := _PEM_BEGIN.search(text, done):
        end = _PEM_END.search(text, begin.end())
        if end:
            done = end.end()
        elif _PEM_BODY.match(text, begin.end()):
            done = len(text)  # cut off: where the key stops cannot be known
        else:
            return  # the header alone, and no footer behind it
        yield begin.start(), done


#: Tokens that say what they are. Prefixes as their issuers publish them for secret scanners.
_TOKEN = re.compile(
    r"(?<![0-9A-Za-z_])(?:"
    r"(?P<loose>sk-[A-Za-z0-9_-]{16,})"  # OpenAI and its many imitators, Anthropic
    r"|gh[opusr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{30,}"
    r"|gl(?:pat|dt|rt|ptt|cbt|oas|soat|ft|imt|agent)-[A-Za-z0-9_.-]{16,}"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}"
    r"|(?<=hooks\.slack\.com/services/)[A-Za-z0-9_/-]{20,}"
    r"|(?<=discord\.com/api/webhooks/)[0-9]{10,}/[A-Za-z0-9_-]{30,}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Z0-9])"
    r"|AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{20,}|GOCSPX-[A-Za-z0-9_-]{20,}"
    r"|npm_[A-Za-z0-9]{30,}|pypi-[A-Za-z0-9_-]{40,}|hf_[A-Za-z0-9]{30,}|dckr_pat_[A-Za-z0-9_-]{20,}"
    r"|(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{20,}"
    r"|SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}|(?:SK|AC)[0-9a-f]{32}(?![0-9a-f])"
    r"|do[opr]_v1_[a-f0-9]{40,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{30,}|hv[sb]\.[A-Za-z0-9_-]{20,}"
    r"|lin_api_[A-Za-z0-9]{30,}|ntn_[A-Za-z0-9]{30,}|dapi[a-f0-9]{32}|ATATT3[A-Za-z0-9_=-]{30,}"
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,}|[0-9]{8,10}:[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"  # age; Telegram's bots
    r"|eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){1,4}"  # JWT and JWE
    r")"
)


def _tokens(text: str) -> Iterator[Span]:
    for token in _TOKEN.finditer(text):
        if token["loose"] is None or _looks_random(token["loose"][3:]):
            yield token.start(), token.start() + len(token[0].rstrip(".-"))


_USERINFO = re.compile(r"://([^\s/?#\[\]<>\"]{1,512})@")


def _url_credentials(text: str) -> Iterator[Span]:
    if "://" in text:
        for userinfo in _USERINFO.finditer(text):
            if ":" in userinfo[1]:
                yield userinfo.span(1)


_QUERY = re.compile(
    r"[?&;](?:(?P<sure>[a-z]{0,10}_?token|api_?key|client_secret|secret|password|passwd|pwd|pass|jwt"
    r"|x-(?:amz|goog)-(?:signature|credential|security-token)|signature)"
    r"|sig|key|code|auth|session|sessionid|sid)=(?P<value>[^&#\s\"'<>\[\]]{4,})",
    re.IGNORECASE,
)


def _query_secrets(text: str) -> Iterator[Span]:
    if "=" in text:
        for parameter in _QUERY.finditer(text):
            if parameter["sure"] or (len(parameter["value"]) >= 8 and _looks_random(parameter["value"])):
                yield parameter.span("value")


_SCHEME = re.compile(r"(?<![A-Za-z])(?:bearer|basic|token)(?::? {1,3}|:)([A-Za-z0-9._~+/=-]{8,}+)", re.IGNORECASE)


def _authorization(text: str) -> Iterator[Span]:
    for header in _SCHEME.finditer(text):
        value = header[1].rstrip(".")
        if len(value) >= 12 and _looks_random(value):
            yield header.start(1), header.start(1) + len(value)


#: What people call a password: any value with "=" is one.
_PASSWORD = (
    r"passwords?|passwd|passwort|passphrase|kennwort|(?<![a-z])(?:pwd|pass|pw)|mot de passe|contraseña|senha"  # noqa: S105
    r"|wachtwoord|lösenord|hasło|пароль|парол|パスワード|密码|密碼|비밀번호"
)
#: What programs call a secret: the value has to look like one as well.
_KEY = (
    r"(?:api|access|secret[_ -]?access|secret|account|shared[_ -]?access|private|signing|encryption|master"
    r"|storage|subscription)[_ -]?key(?:[_ -]?base)?|client[_ -]?secret|secret|token|authorization"
    r"|session[_-]?(?:id|key)|credentials?"
)
_SECRET_FIELD = re.compile(rf"(?:{_PASSWORD}|{_KEY})$", re.IGNORECASE)
_IS = r"(?:\s{0,3}(?P<op_%s>=>|:=|={1,3}|:)|\s(?:is|was|ist|lautet|est|es|é)\b:?)\s{0,3}"
_ASSIGNMENT = re.compile(
    # "password for ben@example.com: …", "password - …", even "password hunter2"; a key needs an assignment.
    rf"(?:(?P<password>{_PASSWORD})[\"'\]]?(?:\s(?:for|für|pour|para|per|of)\s[^\s:=]{{1,60}})?"
    rf"(?:{_IS % 'password'}|(?P<space>\s(?:[-–]\s)?))|(?:{_KEY})[\"'\]]?{_IS % 'key'})"
    r"(?:\"(?P<double>[^\"\n]{1,400})\"|'(?P<single>[^'\n]{1,400})'"
    # A separator belongs to the value unless the next assignment or a space follows it.
    r"|(?P<bare>(?:[^\s\"'<>,;&]|[,;&](?!\s|$|[\w-]{1,40}[=:])){3,400}))",
    re.IGNORECASE,
)
#: One of these is part of every name above: what `_mentions` looks for first.
_STEMS = (  # noqa: SIM905 (one line of words)
    "pass pwd pw kennwort contrase senha wachtwoord lösenord hasło парол パスワード 密码 密碼 비밀번호 "
    "key secret token authoriz session credential"
).split()
_PLACEHOLDER = re.compile(
    r"none|null|nil|undefined|true|false|yes|no|required|missing|invalid|expired|changed|reset|unset|empty"
    r"|optional|string|str|hidden|redacted|x+|\*+|•+|\.+|[\w.]+\(.*|[$<{%\[].*|--.*|https?://.*",
    re.IGNORECASE | re.DOTALL,
)
#: Names of our own things, dates and versions may stand where a secret would.
_OUR_OWN = re.compile(r"(?:TCK|FUP)-[\w-]+|\d{4}-\d\d-\d\d.*|v?\d+(?:\.\d+)+", re.DOTALL)


def _assignments(text: str) -> Iterator[Span]:
    if not _mentions(text, _STEMS):
        return
    for found in _ASSIGNMENT.finditer(text):
        group = next(name for name in ("double", "single", "bare") if found[name] is not None)
        value = found[group] if group != "bare" else found[group].rstrip(".,;:)]}")
        if len(value) < 4 or _PLACEHOLDER.fullmatch(value) or _OUR_OWN.fullmatch(value):
            continue
        if found["space"] and found["password"].lower() == "pass":
            continue  # the verb: "pass v2beta1 instead"
        said_so = found["password"] and (group != "bare" or "=" in (found["op_password"] or ""))
        if said_so or _looks_random(value):
            yield found.start(group), found.start(group) + len(value)


def _looks_random(value: str) -> bool:
    """No word of a language: six characters or more with letters and digits among them, and no name of ours."""
    has_digit = any(char.isdigit() for char in value)
    has_letter = any(char.isalpha() for char in value)
    if len(value) >= 20 and not has_digit:
        # Base64 of a few bytes can do without digits; a capital inside gives it away.
        return any(left.islower() and right.isupper() for left, right in itertools.pairwise(value))
    return len(value) >= 6 and has_digit and has_letter and not _OUR_OWN.fullmatch(value)


# ── e-mail addresses ────────────────────────────────────────────────────────────────────────────────────────

_AT = re.compile(r"@| ?[\[({] ?at ?[\])}] ?", re.IGNORECASE)
_DOT = r"(?:\.| ?[\[({] ?dot ?[\])}] ?)"
_LABEL = r"[\w\u0300-\u036f-]{1,63}"  # a decomposed umlaut is a letter and a combining mark
_DOMAIN = re.compile(rf"{_LABEL}(?:{_DOT}{_LABEL}){{1,10}}+|\[(?:IPv6:)?[0-9A-Fa-f.:]{{3,45}}\]", re.IGNORECASE)
_LAST_LABEL = re.compile(r"[^.\s\])}]+$")
_TOP_LEVEL = re.compile(r"(?:xn--[a-z0-9-]{2,59}|[a-z]{2,63}|[^\W\d_a-z]{2,63})", re.IGNORECASE)
_LOCAL_BACKWARDS = re.compile(r"[\w\u0300-\u036f.+%!#$*^~'’-]{1,256}")
_BEHIND_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]([A-Za-z0-9._%+'-]+)$")
_PICTURE_SCALE = re.compile(r"@\d(?:\.\d)?x\.(?:png|jpe?g|gif|webp|svg|avif)", re.IGNORECASE)


def _e_mails(text: str) -> Iterator[Span]:
    done = 0
    for at in _AT.finditer(text):
        if at.start() < done:
            continue
        end = _domain_end(text, at.end())
        start = _local_start(text, at.start(), done) if end else at.start()
        if end and start < at.start() and not _only_looks_like_one(text, start, at.start(), end):
            yield start, end
            done = end


def _domain_end(text: str, start: int) -> int:
    """Where the domain that begins at `start` ends; 0 when there is none with a top level of letters."""
    domain = _DOMAIN.match(text, start)
    if not domain:
        return 0
    if domain[0].startswith("["):
        return domain.end()
    name = domain[0]
    while last := _LAST_LABEL.search(name):
        if last.start() == 0:
            return 0
        # A match, not a full match: languages without spaces write on right behind the address.
        top = _TOP_LEVEL.match(last[0])
        if top:
            return start + last.start() + top.end()
        name = name[: last.start()].rstrip(".[({])} dotDOT")
    return 0


def _local_start(text: str, at: int, done: int) -> int:
    if text[at - 1 : at] == '"':
        quote = text.rfind('"', max(done, at - 66), at - 1)
        return quote if quote != -1 and "\n" not in text[quote:at] else at
    # Backwards from the "@", so that a long text without one is never walked from each of its letters.
    backwards = _LOCAL_BACKWARDS.match(text[max(done, at - 256) : at][::-1])
    local = backwards[0][::-1].lstrip(".-'’!#$*^~") if backwards else ""
    if behind := _BEHIND_CJK.search(local):
        local = behind[1]
    return at - len(local)


def _only_looks_like_one(text: str, start: int, at: int, end: int) -> bool:
    if text[start:at] == "git":  # git@host:path and ssh://git@host: everybody's user, nobody's address
        return text[end : end + 1] == ":" or text[:start].endswith("://")
    return bool(_PICTURE_SCALE.match(text, at))


# ── IBANs and cards ─────────────────────────────────────────────────────────────────────────────────────────

_IBAN_HEAD = re.compile(r"(?<![0-9A-Za-z])[A-Za-z]{2}[0-9]{2}(?=[ -]?[A-Za-z0-9])")


def _ibans(text: str) -> Iterator[Span]:
    done = 0
    for head in _IBAN_HEAD.finditer(text):
        pattern = _iban_of(head[0][:2].upper())
        whole = pattern.match(text, head.start()) if pattern and head.start() >= done else None
        if whole and iban.is_valid(whole[0], check_country=False):
            yield whole.span()
            done = whole.end()


@functools.cache
def _iban_of(country: str) -> re.Pattern[str] | None:
    """As many characters as the registry gives the country; words may follow, another digit may not."""
    [(_, facts), *_] = numdb.get("iban").info(country)
    size = sum(int(count) for count in re.findall(r"([0-9]+)!", facts.get("bban", "")))
    return re.compile(rf"[A-Za-z]{{2}}[0-9]{{2}}(?:[ -]?[A-Za-z0-9]){{{size}}}(?![0-9])") if size else None


#: Issuers' ranges and the lengths they use (ISO/IEC 7812; Visa, Mastercard, Amex, Diners, JCB, Discover,
#: UnionPay, Maestro, Mir, RuPay, Troy). One number in ten passes Luhn; an IMEI always does and is no card.
_ISSUER = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[689]\d)\d{11}|3(?:0[0-5]|[689]\d)\d{13,16}|35(?:2[89]|[3-8]\d)\d{12,15}"
    r"|(?:6011|64[4-9]\d|65\d\d|62\d\d|81\d\d|220[0-4]|9792|508\d|60\d\d|82\d\d)\d{12,15}"
    r"|(?:50|5[6-9]|6[0-9])\d{11}|(?:50|5[6-9]|6[0-9])\d{14,17}"
)
_DIGIT_GROUPS = re.compile(r"(?<![0-9A-Za-z_+])(?<![0-9][.,])[0-9]++(?:[ .\-‐-―−]{1,2}+[0-9]++)*+")
_CARD_DIGITS = re.compile(r"[0-9](?:[^0-9\n]{0,2}[0-9]){12}")
_GROUP = re.compile(r"[0-9]+")
_GROUPINGS = ((4, 4, 4, 4, 3), (4, 4, 4, 4), (4, 6, 5), (4, 6, 4), (4, 4, 5))
_UUID = re.compile(r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}")


def _cards(text: str) -> Iterator[Span]:
    if not _CARD_DIGITS.search(text):
        return
    for run in _DIGIT_GROUPS.finditer(text):
        if len(run[0]) < 13 or _UUID.match(text, run.start()):
            continue
        groups = [group.span() for group in _GROUP.finditer(text, run.start(), run.end())]
        if _ascii_alnum(text[run.end() : run.end() + 1]):
            groups.pop()
        yield from _cards_among(text, groups)


def _cards_among(text: str, groups: list[Span]) -> Iterator[Span]:
    """Cards in a run of digit groups: the whole run, else a part of it that is grouped as cards are."""
    lengths = [end - start for start, end in groups]
    if 13 <= sum(lengths) <= 19 and _is_card(_digits(text, groups), grouped=False):
        yield groups[0][0], groups[-1][1]
        return
    at = 0
    while at < len(groups):
        size = next((s for s in _card_sizes(lengths, at) if _is_card(_digits(text, groups[at : at + s]), s > 1)), 0)
        if size:
            yield groups[at][0], groups[at + size - 1][1]
        at += size or 1


def _card_sizes(lengths: list[int], at: int) -> Iterator[int]:
    for grouping in _GROUPINGS:
        if tuple(lengths[at : at + len(grouping)]) == grouping:
            yield len(grouping)
    if 13 <= lengths[at] <= 19:
        yield 1


def _is_card(digits: str, grouped: bool) -> bool:
    known = _ISSUER.fullmatch(digits) or (grouped and len(digits) == 16)
    return bool(known and digits.strip("0") and luhn.is_valid(digits))


def _digits(text: str, groups: list[Span]) -> str:
    return "".join(text[start:end] for start, end in groups)


def _ascii_alnum(char: str) -> bool:
    """Is it a letter or digit that would make one word with a number? Kana and the like do not."""
    return char.isascii() and (char.isalnum() or char == "_")


# ── phone numbers ───────────────────────────────────────────────────────────────────────────────────────────

#: The one look that spares most notes all further ones: seven digits, at most four characters between two.
_DIGITS_CLOSE = re.compile(r"[0-9](?:[^0-9\n]{0,4}[0-9]){6}")

_BETWEEN = r"[ .()/\-‐-―−]{1,3}+"
_ISO_DATE = r"(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}"
#: Numbers that are something else come first and swallow their digits; then a run of digits as phones have.
_NUMBERS = re.compile(
    rf"(?=[0-9A-Fa-f+(])(?<![0-9A-Za-z_])(?:{_UUID.pattern}"
    r"|(?:19|20)[0-9]{2}[-/.][0-9]{1,2}[-/.][0-9]{1,2}(?![0-9])"
    r"(?:[T ][0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?)?"
    r"|[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?![0-9:])"
    r"|[0-9]{1,2}([-/.])[0-9]{1,2}\1(?:19|20)?[0-9]{2}(?![-/.]?[0-9])"
    r"|(?:0|[1-9][0-9]{0,2})(?:\.(?:0|[1-9][0-9]{0,2})){3}(?![0-9]|\.[0-9])"
    rf"|(?P<run>(?:\+ ?\(?|\(\+?)?[0-9]++(?:{_BETWEEN}(?!{_ISO_DATE})[0-9]++)*+))"
)
_OF_AN_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*-$")  # the TCK- of TCK-1008, the INV- of INV-2026-0012345
_HARD_BREAK = re.compile(r" [-‐-―−/] |\. | {2,}|(?<=[0-9])/(?=\+|0[1-9][0-9])")
_SOFT_BREAK = re.compile(r" (?=0[1-9]|\()")
_EXTENSION = re.compile(r",? ?(?:ext\.?|extension|x|durchwahl|dw|poste|int\.) ?[0-9]{1,6}(?![0-9])", re.IGNORECASE)

_CONNECTING = (
    r"(?:[\s.:#=)\"'-]|\b(?:me|us|him|her|them|back|at|on|under|unter|auf|is|ist|nr|no|num|number|nummer|numéro"
    r"|número|numero|al|au|a|à|på|het|op|over)\b){0,12}$"
)
_SAYS_PHONE = re.compile(
    r"(?:\b(?:tele(?:ph|f)[oóo]\w*|t[eé]l[eé]phone|t[eé]l|phone|tlf|mob|mobil[ea]?|móvil|mobiel|handy|cell|cellphone"
    r"|cellulare|celular|portable|fax|sms|whatsapp|signal|festnetz|rückruf\w*|callback|erreichbar|puh|puhelin|gsm"
    rf"|тел|телефон|моб)|電話|携帯|电话|手机|電話番号|전화|핸드폰|휴대폰|هاتف|☎|📞){_CONNECTING}",
    re.IGNORECASE,
)
_PHONE_STEMS = (  # noqa: SIM905 (one line of words)
    "tel tél fon phone tlf mob móv handy cel portable fax sms whatsapp signal festnetz rückruf callback "
    "erreichbar puh gsm тел моб 電話 携帯 电话 手机 전화 핸드폰 휴대폰 هاتف ☎ 📞"
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


def _phones(text: str) -> Iterator[Span]:
    if not _DIGITS_CLOSE.search(text):
        return
    for number in _NUMBERS.finditer(text):
        if number["run"] is not None and len(number["run"]) >= 7:
            for start, end in _phones_in_run(text, *number.span("run")):
                extension = _EXTENSION.match(text, end)
                yield start, extension.end() if extension else end


def _phones_in_run(text: str, start: int, end: int) -> Iterator[Span]:
    """Several numbers in a row make one run: part it where people part them, and then where they might."""
    if text[start] != "+" and (span := _phone(text, start, end)):
        yield span
        return
    for hard in _parts(text, start, end, _HARD_BREAK):
        if span := _phone(text, *hard):
            yield span
            continue
        soft = list(_parts(text, *hard, _SOFT_BREAK))
        if len(soft) > 1:
            yield from filter(None, (_phone(text, *part) for part in soft))


def _parts(text: str, start: int, end: int, by: re.Pattern[str]) -> Iterator[Span]:
    for gap in by.finditer(text, start, end):
        yield start, gap.start()
        start = gap.end()
    yield start, end


def _phone(text: str, start: int, end: int) -> Span | None:
    """The phone number that these digits are, or None; a bracket around the whole is not part of it."""
    if end - start > 40:
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
    return bool(rest) and text[end : end + 1] not in ("x", "X", " ") and _ascii_alnum(rest)


def _international(text: str, start: int, end: int) -> Span | None:
    """Country code and all; a number that follows ("+1 212 555 0123 2 times") is dropped until it fits."""
    for _ in range(4):
        written = text[start:end]
        digits = re.sub(r"\(0\)|[^0-9]", "", written)
        if len(digits) < 7:
            return None
        plus = not written.startswith("00")
        if not (_glued(text, end) and not plus) and _dialable(digits if plus else digits[2:], strict=not plus):
            return start, end
        shorter = re.search(r"[ .()/\-‐-―−]+[0-9]+$", written)
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
    if _mentions(before, _PHONE_STEMS) and _SAYS_PHONE.search(before):
        return True
    separated = not written.isdigit()
    if not (_written_as_phone(written, separated) or _after_a_verb(written, separated, before)):
        return False
    if _SAYS_OTHERWISE.search(before) or _OF_AN_IDENTIFIER.search(before):
        return False
    return not _AMOUNT_BEHIND.match(behind)


def _after_a_verb(written: str, separated: bool, before: str) -> bool:
    return (separated or len(written) >= 10) and _MAY_SAY_PHONE.search(before) is not None


def _mentions(text: str, stems: Iterable[str]) -> bool:
    """Is any of these in it? Ten times cheaper than the pattern that would look for whole words."""
    lowered = text.lower()
    return any(stem in lowered for stem in stems)


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


#: In this order: what contains other kinds comes first.
_FINDERS: tuple[tuple[str, Finder], ...] = (
    ("[secret]", _private_keys),
    ("[secret]", _tokens),
    ("[secret]", _url_credentials),
    ("[secret]", _query_secrets),
    ("[secret]", _authorization),
    ("[secret]", _assignments),
    ("[e-mail]", _e_mails),
    ("[IBAN]", _ibans),
    ("[card]", _cards),
    ("[phone]", _phones),
)
