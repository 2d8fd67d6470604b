"""Secrets that say what they are: private keys, and tokens with their issuer's prefix."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

from receipts.redaction.reading import Span

_PEM_BEGIN = re.compile(r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_END = re.compile(r"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_PEM_BODY = re.compile(r"(?:\s|\\[nr])*(?:[A-Za-z-]{2,20}: [^\n]{0,120}\n\s*+)*[A-Za-z0-9+/=]{16}")


def private_keys(text: str) -> Iterator[Span]:
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
    r"(?<![0-9A-Za-z_])(?=[A-Za-z0-9_./+=-]{12})(?:"  # shorter than 12 is none of them: spares most words the rest
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
    r"|AGE-SECRET-KEY-1[A-Z0-9]{50,}|key-[0-9a-z]{32}(?![0-9A-Za-z])|sq0[a-z]{3}-[A-Za-z0-9_-]{22,}"
    r"|gl(?:sa|c)_[A-Za-z0-9_+/=]{32,}|gsk_[A-Za-z0-9]{40,}|xai-[A-Za-z0-9]{60,}|r8_[A-Za-z0-9]{30,}"  # Grafana, models
    r"|nvapi-[A-Za-z0-9_-]{50,}|pplx-[A-Za-z0-9]{40,}|sbp_[a-f0-9]{40}|PMAK-[a-f0-9]{24}-[a-f0-9]{34}"
    r"|rubygems_[a-f0-9]{40,}|sntry[su]_[A-Za-z0-9+/=_]{40,}|NRAK-[A-Z0-9]{27}|dp\.[a-z]{2,5}\.[A-Za-z0-9]{30,}"
    r"|tskey-[a-z]{2,10}-[A-Za-z0-9-]{20,}|figd_[A-Za-z0-9_-]{30,}|pul-[a-f0-9]{40}|ATCTT3[A-Za-z0-9_=-]{30,}"
    r"|pat[A-Za-z0-9]{14}\.[a-f0-9]{64}|secret_[A-Za-z0-9]{40,}|1//0[A-Za-z0-9_-]{40,}"  # Airtable, Notion, Google
    r"|eyJ[A-Za-z0-9_-]{8,}+(?:\.[A-Za-z0-9_-]*+){1,4}"  # JWT and JWE
    r")"
)


#: Telegram's, in a URL glued to the word "bot".
_BOT = re.compile(r"(?<![0-9])[0-9]{8,10}:[A-Za-z0-9_-]{34,35}(?![A-Za-z0-9_-])")


def bot_tokens(text: str) -> Iterator[Span]:
    if ":A" in text:
        for token in _BOT.finditer(text):
            yield token.span()


def tokens(text: str) -> Iterator[Span]:
    for token in _TOKEN.finditer(text):
        if token["loose"] is None or looks_random(token["loose"][3:]):
            yield token.start(), token.start() + len(token[0].rstrip(".-"))


#: Names of our own things, dates and versions may stand where a secret would.
OUR_OWN = re.compile(r"(?:TCK|FUP)-[\w-]+|\d{4}-\d\d-\d\d.*|v?\d+(?:\.\d+)+", re.DOTALL)


def looks_random(value: str) -> bool:
    """No word of a language: six characters or more with letters and digits among them, and no name of ours."""
    has_digit = any(char.isdigit() for char in value)
    has_letter = any(char.isalpha() and char < "\u3001" for char in value)  # "8文字以上" is a rule
    if len(value) >= 20 and not has_digit:
        # Base64 of a few bytes can do without digits; a capital inside gives it away.
        return any(left.islower() and right.isupper() for left, right in itertools.pairwise(value))
    return len(value) >= 6 and has_digit and has_letter and not OUR_OWN.fullmatch(value)
