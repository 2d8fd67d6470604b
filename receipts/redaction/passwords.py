"""Secrets that something beside them gives away: a URL, a header, a command's flag, the word "password"."""

from __future__ import annotations

import re
from collections.abc import Iterator

from receipts.redaction.reading import Span, mentions
from receipts.redaction.tokens import OUR_OWN, looks_random

_USERINFO = re.compile(r"://([^\s/?#\[\]<>\"]{1,512})@")


def url_credentials(text: str) -> Iterator[Span]:
    if "://" in text:
        for userinfo in _USERINFO.finditer(text):
            if ":" in userinfo[1]:
                yield userinfo.span(1)


_QUERY = re.compile(
    r"[?&;](?:(?P<sure>[a-z]{0,10}_?token|api_?key|client_secret|secret|password|passwd|pwd|pass|jwt"
    r"|x-(?:amz|goog)-(?:signature|credential|security-token)|signature)"
    r"|sig|key|code|auth|session|sessionid|sid)=(?P<value>(?:[^&#;\s\"'<>\[\]]|;(?![\w -]{1,40}=)){4,})",
    re.IGNORECASE,
)


def query_secrets(text: str) -> Iterator[Span]:
    if "=" in text:
        for parameter in _QUERY.finditer(text):
            if parameter["sure"] or (len(parameter["value"]) >= 8 and looks_random(parameter["value"])):
                yield parameter.span("value")


_SCHEME = re.compile(r"(?<![A-Za-z])(?:bearer|basic|token)(?::? {1,3}|:)([A-Za-z0-9._~+/=-]{8,}+)", re.IGNORECASE)


def authorization(text: str) -> Iterator[Span]:
    if not mentions(text, ("bearer", "basic", "token")):
        return
    for header in _SCHEME.finditer(text):
        value = header[1].rstrip(".")
        if len(value) >= 12 and looks_random(value):
            yield header.start(1), header.start(1) + len(value)


_COOKIE_HEADER = re.compile(r"\b(?:set-)?cookie\"?: ?\"?([^\n]{1,4000})", re.IGNORECASE)
_COOKIE = re.compile(r"=\"?([^;,\s\"'=\[\]]{12,})")


def cookies(text: str) -> Iterator[Span]:
    if mentions(text, ("cookie",)):
        for header in _COOKIE_HEADER.finditer(text):
            for cookie in _COOKIE.finditer(text, *header.span(1)):
                if looks_random(cookie[1]):
                    yield cookie.span(1)


#: Programs that take a password as a flag, and the flags; what follows has to look like one.
_PROGRAM = re.compile(
    r"\b(?:curl|mysql\w{0,9}|mariadb[\w-]{0,9}|sshpass|redis-cli|mongo\w{0,9}|(?:docker|podman|helm|gh auth) login)\s"
)
_FLAG = re.compile(
    r"\s(?:(?:-u|--(?:proxy-)?user) ?=?[\"']?[^\s:\"'\[\]]{0,80}:|-[pa] ?[\"']?"
    r"|--(?:auth-)?(?:token|api-?key|secret)[ =][\"']?)(?P<value>[^\s\"'\[\]]{4,200})"
)
#: How far behind its program a flag is looked for, so that many programs cost no more than one.
_COMMAND_LENGTH = 300


def command_flags(text: str) -> Iterator[Span]:
    if " -" not in text:
        return
    done = 0
    for program in _PROGRAM.finditer(text):
        at, stop = max(done, program.end() - 1), program.end() + _COMMAND_LENGTH
        for flag in _FLAG.finditer(text, at, stop):
            if looks_random(flag["value"]) and "\n" not in text[program.end() : flag.start("value")]:
                yield flag.span("value")
                done = flag.end()


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
SECRET_FIELD = re.compile(rf"(?:{_PASSWORD}|{_KEY})$", re.IGNORECASE)
_IS = r"(?:\s{0,3}(?P<op_%s>=>|:=|={1,3}|:)|\s(?:is|was|ist|lautet|est|es|é)\b:?|是|为|は|는|은)\s{0,3}"
#: Chinese, Japanese and Korean: hardly a password's, and written right behind one.
_NO_SPACES = r"\u3001-\u9fff\uac00-\ud7af"
_ASSIGNMENT = re.compile(
    # "password for ben@example.com: …", "password - …", even "password hunter2"; a key needs an assignment.
    rf"(?:(?P<password>{_PASSWORD})[\"'\]]?(?:\s(?:for|für|pour|para|per|of)\s[^\s:=]{{1,60}})?"
    rf"(?:{_IS % 'password'}|(?P<space>\s(?:[-–]\s)?))|(?:{_KEY})[\"'\]]?{_IS % 'key'})"
    r"(?:\"(?P<double>[^\"\n]{1,400})\"|'(?P<single>[^'\n]{1,400})'"
    # A separator belongs to the value unless the next assignment, a space or such a script follows it.
    rf"|(?P<bare>(?:[^\s\"'<>,;&。、「」]"
    rf"|[,;&](?!\s|$|[\w-]{{1,40}}[=:]|(?<=;)[\w -]{{1,40}}=|[{_NO_SPACES}])){{3,400}}))",
    re.IGNORECASE,
)
_CJK = re.compile(rf"[{_NO_SPACES}]")
#: One of these is part of every name above: what `mentions` looks for first.
_STEMS = (  # noqa: SIM905 (one line of words)
    "pass pwd pw kennwort contrase senha wachtwoord lösenord hasło парол パスワード 密码 密碼 비밀번호 "
    "key secret token authoriz session credential"
).split()
_PLACEHOLDER = re.compile(
    r"none|null|nil|undefined|true|false|yes|no|required|missing|invalid|expired|changed|reset|unset|empty"
    r"|optional|string|str|hidden|redacted|x+|\*+|•+|\.+|[\w.]+\(.*|[$<{%\[].*|--.*|https?://.*",
    re.IGNORECASE | re.DOTALL,
)


def assignments(text: str) -> Iterator[Span]:
    if not mentions(text, _STEMS):
        return
    for found in _ASSIGNMENT.finditer(text):
        group = next(name for name in ("double", "single", "bare") if found[name] is not None)
        sure = "=" in (found["op_password"] or found["op_key"] or "")
        value = found[group]
        if group == "bare":
            value = (value if sure else _CJK.split(value, maxsplit=1)[0]).rstrip(".,;:)]}")
        if len(value) < 4 or _PLACEHOLDER.fullmatch(value) or OUR_OWN.fullmatch(value):
            continue
        if found["space"] and found["password"].lower() == "pass":
            continue  # the verb: "pass v2beta1 instead"
        said_so = found["password"] and (sure or group != "bare")
        if said_so or looks_random(value):
            yield found.start(group), found.start(group) + len(value)
