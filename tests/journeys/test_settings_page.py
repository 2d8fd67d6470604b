"""docs/providers.md: what it tells people to set exists, and each block makes a provider that can be called."""

from __future__ import annotations

import json
import re
import shlex
from urllib.parse import urlsplit

import pytest

from receipts.fill import Provider
from receipts.fill.provider import LADDER
from tests.flow.web import ROOT

PAGE = (ROOT / "docs" / "providers.md").read_text()
SETTINGS = (ROOT / "receipts_project" / "settings.py").read_text()
BLOCKS = [
    dict(word.split("=", 1) for word in shlex.split(block)) for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
]
PROVIDERS = [block for block in BLOCKS if "COMPLETIONS_URL" in block]
PLACEHOLDER_KEY = "key"  # the page writes an ellipsis, which no header can carry


def read_by_settings() -> set[str]:
    return set(re.findall(r'environment\.\w+\(\s*"([A-Z_]+)"', SETTINGS))


def test_every_name_is_read_by_the_settings() -> None:
    named = {name for block in BLOCKS for name in block} | set(re.findall(r"\bCOMPLETIONS_[A-Z_]+", PAGE))
    assert "COMPLETIONS_URL" in named
    assert named <= read_by_settings()


def test_no_provider_setting_is_left_out() -> None:
    known = {name for name in read_by_settings() if name.startswith("COMPLETIONS_")}
    assert known == set(re.findall(r"^\| `(COMPLETIONS_[A-Z_]+)`", PAGE, re.MULTILINE))


def test_the_ladder_is_the_codes() -> None:
    assert tuple(re.findall(r"^\| `([a-z_]+)` \| .*$", PAGE, re.MULTILINE)) == LADDER


@pytest.mark.parametrize("block", PROVIDERS, ids=lambda block: urlsplit(block["COMPLETIONS_URL"]).netloc)
def test_a_block_makes_a_provider(block: dict[str, str]) -> None:
    provider = Provider(
        url=block["COMPLETIONS_URL"],
        api_key=PLACEHOLDER_KEY if "COMPLETIONS_API_KEY" in block else "",
        auth=block.get("COMPLETIONS_AUTH", "auto"),
        mode=block.get("COMPLETIONS_MODE", "auto"),
    )
    assert provider.problem is None
    assert urlsplit(provider.url).path.endswith("/chat/completions")
    assert len(provider.auth_headers()) == ("COMPLETIONS_API_KEY" in block)


def test_extra_is_a_json_object() -> None:
    extras = [json.loads(block["COMPLETIONS_EXTRA"]) for block in BLOCKS if "COMPLETIONS_EXTRA" in block]
    assert extras
    assert all(isinstance(extra, dict) for extra in extras)
