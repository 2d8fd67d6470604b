"""What every page knows: the product's name, whether drafts are real, and which doors the reader's role opens."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest

PRODUCT = "Receipts"


def about(request: HttpRequest) -> dict[str, Any]:
    """Context processor. Error pages are rendered before anybody is known, hence the `getattr`."""
    user = getattr(request, "user", None)
    known = {"product": PRODUCT, "standin": settings.STANDIN_PROVIDER}
    if user is None or not user.is_authenticated:
        return known
    return known | {
        "signed_in": True,
        "may_file": user.has_perm("receipts.file_followup"),
        "sees_all_receipts": user.has_perm("receipts.view_receipt"),
        "sees_console": user.is_staff,
    }
