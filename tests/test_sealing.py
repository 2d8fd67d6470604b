"""Sealed inputs: what goes in comes back under any key still held, and nothing else ever opens."""

from __future__ import annotations

import base64
import io
import math
from typing import Any

import pytest
from cryptography.fernet import Fernet
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from receipts import ledger, rotation, sealing
from receipts.errors import ArgMismatch
from receipts.models import AuditEvent, Receipt, SealedInput
from receipts.sealing import NotSealable, Sealer, Unsealable
from receipts_project.accounts.models import User
from tests import factories
from tests.factories import alice, desk

__all__ = ["alice", "desk"]

OLD, NEW, OTHER = (Fernet.generate_key().decode() for _ in range(3))
PLAIN = {"notes": "Anna (anna@example.com) kann sich nicht anmelden", "arguments": {"assignee": "ada"}}

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


class TestSealer:
    @given(st.dictionaries(st.text(), JSON_VALUES, max_size=4))
    def test_gives_back_what_was_sealed(self, plain: dict[str, object]):
        assert Sealer([NEW]).unseal(Sealer([NEW]).seal(plain)) == plain

    def test_shows_nothing_of_the_input(self):
        token = Sealer([NEW]).seal(PLAIN)
        assert b"anna" not in base64.urlsafe_b64decode(token)
        assert token != Sealer([NEW]).seal(PLAIN)
        assert NEW not in repr(vars(Sealer([NEW])))

    def test_takes_the_memoryview_of_the_database_driver(self):
        sealer = Sealer([NEW])
        assert sealer.unseal(memoryview(sealer.seal(PLAIN))) == PLAIN

    def test_seals_with_the_first_key_and_opens_with_all(self):
        assert Sealer([NEW, OLD]).unseal(Sealer([OLD]).seal(PLAIN)) == PLAIN
        assert Sealer([NEW]).unseal(Sealer([NEW, OLD]).seal(PLAIN)) == PLAIN

    def test_keeps_a_lone_surrogate(self):
        assert Sealer([NEW]).unseal(Sealer([NEW]).seal({"notes": "\ud800"})) == {"notes": "\ud800"}

    def test_writes_canonical_json(self):
        sealer = Sealer([NEW])
        tokens = [sealer.seal({"b": 1, "a": "ü"}), sealer.seal({"a": "ü", "b": 1})]
        assert {Fernet(NEW).decrypt(token) for token in tokens} == {b'{"a":"\\u00fc","b":1}'}

    def test_refuses_what_json_cannot_hold(self):
        endless: dict[str, object] = {}
        endless["self"] = endless
        deep: object = []
        for _ in range(100_000):
            deep = [deep]
        for plain in ({"n": math.nan}, {"b": b"x"}, {1: "x"}, {"a": [{None: 1}]}, {"d": deep}, endless, ["x"], None):
            with pytest.raises(NotSealable) as refusal:
                Sealer([NEW]).seal(plain)  # type: ignore[arg-type]
            assert str(refusal.value) == NotSealable.sentence


class TestUnsealable:
    def test_without_its_key(self):
        with pytest.raises(Unsealable, match="cannot be opened"):
            Sealer([OTHER]).unseal(Sealer([OLD]).seal(PLAIN))

    @pytest.mark.parametrize("token", [b"", b"not a token", b"\xff\x00", "é".encode(), b"gAAAAA=="])
    def test_for_what_never_was_a_token(self, token: bytes):
        for use in (Sealer([NEW]).unseal, Sealer([NEW]).rotate):
            with pytest.raises(Unsealable):
                use(token)

    @given(st.data())
    def test_after_any_change(self, data: st.DataObject):
        raw = bytearray(base64.urlsafe_b64decode(Sealer([NEW]).seal(PLAIN)))
        raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
        with pytest.raises(Unsealable):
            Sealer([NEW]).unseal(base64.urlsafe_b64encode(raw))

    @pytest.mark.parametrize("inside", [b"[]", b"1", b"not json", b"\xff", b"[" * 100_000])
    def test_when_another_program_sealed_something_else(self, inside: bytes):
        with pytest.raises(Unsealable):
            Sealer([NEW]).unseal(Fernet(NEW).encrypt(inside))

    def test_quotes_neither_key_nor_input(self):
        with pytest.raises(Unsealable) as refusal:
            Sealer([NEW]).unseal(Fernet(NEW).encrypt(b"anna@example.com"))
        assert str(refusal.value) == Unsealable.sentence
        assert refusal.value.__cause__ is None
        assert refusal.value.__suppress_context__


class TestRotate:
    def test_lets_the_old_key_go(self):
        rotated = Sealer([NEW, OLD]).rotate(Sealer([OLD]).seal(PLAIN))
        assert Sealer([NEW]).unseal(rotated) == PLAIN
        with pytest.raises(Unsealable):
            Sealer([OLD]).unseal(rotated)

    def test_keeps_the_time_of_sealing(self):
        token = Sealer([OLD]).seal(PLAIN)
        rotated = Sealer([NEW, OLD]).rotate(token)
        assert Fernet(NEW).extract_timestamp(rotated) == Fernet(OLD).extract_timestamp(token)


class TestKeys:
    @pytest.mark.parametrize("keys", [[], (), "", pytest.param(NEW, id="text")])
    def test_needs_a_list_of_at_least_one(self, keys):
        with pytest.raises(ValueError, match="at least one key"):
            Sealer(keys)

    @pytest.mark.parametrize("bad", ["", "short", "ü" * 43 + "=", "!" * 44])
    def test_names_the_place_of_a_bad_key_and_not_the_key(self, bad: str):
        with pytest.raises(ValueError, match="Key 2 for sealed inputs") as refusal:
            Sealer([NEW, bad])
        assert not bad or bad not in str(refusal.value)

    def test_come_from_the_settings_and_are_read_once(self, settings):
        settings.SEALED_INPUT_KEYS = [OLD]
        token = sealing.sealer().seal(PLAIN)
        assert sealing.sealer() is sealing.sealer()
        settings.SEALED_INPUT_KEYS = [NEW, OLD]
        assert sealing.sealer().unseal(token) == PLAIN
        settings.SEALED_INPUT_KEYS = [NEW]
        with pytest.raises(Unsealable):
            sealing.sealer().unseal(token)


class TestRotation:
    """`manage.py rotate_sealed_inputs`, on rows."""

    @pytest.fixture
    def sealed(self, alice: User, settings: Any) -> list[Receipt]:
        """Three inputs under the old key; the settings name a newer one before it."""
        receipts = [factories.failed(alice, ArgMismatch(), sealed=Sealer([OLD]).seal(PLAIN)) for _ in range(3)]
        settings.SEALED_INPUT_KEYS = [NEW, OLD]
        return receipts

    def rotate(self) -> str:
        out = io.StringIO()
        call_command("rotate_sealed_inputs", stdout=out)
        return out.getvalue()

    def test_seals_everything_under_the_first_key_with_its_event(self, sealed: list[Receipt]):
        assert "3 sealed anew, 0 were" in self.rotate()
        for row in SealedInput.objects.all():
            assert Sealer([NEW]).unseal(row.token) == PLAIN
        event = AuditEvent.objects.get(verb="rotate")
        assert (event.detail, event.actor) == ({"sealed_inputs": 3}, None)

    def test_goes_on_where_it_was_stopped(self, sealed: list[Receipt], monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(rotation, "BATCH", 1)
        next(rotation.rotate_all())
        assert "2 sealed anew, 1 were" in self.rotate() + self.rotate()
        assert "0 sealed anew, 3 were" in self.rotate()
        assert AuditEvent.objects.filter(verb="rotate").count() == 3

    def test_names_what_no_key_opens_and_fails(self, sealed: list[Receipt]):
        SealedInput.objects.filter(receipt=sealed[1]).update(token=Sealer([OTHER]).seal(PLAIN))
        with pytest.raises(CommandError, match=str(sealed[1].pk)):
            self.rotate()
        assert Sealer([NEW]).unseal(SealedInput.objects.get(receipt=sealed[2]).token) == PLAIN

    def test_leaves_a_row_that_somebody_sealed_meanwhile(self, sealed: list[Receipt]):
        first = sealed[0].pk
        before = bytes(SealedInput.objects.get(receipt=first).token)
        SealedInput.objects.filter(receipt=first).update(token=Sealer([OLD]).seal({"notes": "newer"}))
        assert ledger.reseal({first: (before, Sealer([NEW]).seal(PLAIN))}) == 0
        assert Sealer([OLD]).unseal(SealedInput.objects.get(receipt=first).token) == {"notes": "newer"}
        assert not AuditEvent.objects.filter(verb="rotate").exists()
