"""What is kept of a sign-in that failed."""

from __future__ import annotations

from axes.models import AccessAttempt
from django.test import Client


def test_notes_that_came_along_are_not_kept(db: None) -> None:
    private = "Customer is still blocked."
    data = {"username": "maya", "password": "guessed", "notes": private, "kept_notes": private, "next": "/receipts"}
    Client().post(f"/login?next=/tickets/{private}", data)
    kept = AccessAttempt.objects.get()
    assert private not in f"{kept.post_data} {kept.get_data} {kept.path_info}"
    assert "guessed" not in kept.post_data


def test_one_language_varies_nothing(db: None) -> None:
    assert "Accept-Language" not in Client().get("/login").get("Vary", "")
