"""The leads' pages. Each view makes at most one call into the flow; queries live in `board` and `story`."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.core.serializers.json import DjangoJSONEncoder
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from receipts import attempts, errors, flow
from receipts.answers import see_other
from receipts.api import show_receipts, visible_receipts
from receipts.explanations import sentence_case
from receipts.models import Receipt
from receipts.pages import Keyset
from receipts.permissions import FILE, RETRY
from receipts.presses import NOTES_MAX
from receipts.problems import problem
from tickets import board as boards
from tickets import by_hand, words
from tickets import notes as notes_kept
from tickets.authorship import fields_of
from tickets.conversation import conversation
from tickets.done import done_on
from tickets.models import Ticket
from tickets.press_forms import BY_TOOL, MAIN, PRESSES, TYPED, ByHand, Form, Press
from tickets.receipt_list import SPANS, Narrowing
from tickets.sign_in import sign_in_first, take_notes
from tickets.story import latest_press, tell

log = logging.getLogger(__name__)

#: Refusals after which the key of the form can never be used for this press: the form gets a new one.
KEY_IS_SPENT = (
    errors.IdempotencyKeyReused,
    errors.IdempotencyKeyRequired,
    errors.IdempotencyKeyInvalid,
    errors.Superseded,
)

#: Receipts of a ticket that its page lists.
PRESSES_SHOWN = 8


def new_key() -> str:
    """An idempotency key for one press of one form: 128 random bits, URL-safe."""
    return secrets.token_urlsafe(16)


# ── ticket and press ─────────────────────────────────────────────────────────────────────────────────────────────


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def ticket(request: HttpRequest, ticket_id: str) -> HttpResponse:
    """The ticket; a POST is the press of a browser without script."""
    if request.method == "POST":
        return press(request, ticket_id, MAIN)
    return show_ticket(request, ticket_id)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def other_press(request: HttpRequest, ticket_id: str, what: str) -> HttpResponse:
    """The other buttons of the page; a reload of what they answered leads back to it."""
    if request.method == "POST":
        return press(request, ticket_id, PRESSES[what])
    return redirect("ticket", ticket_id)


@login_required
def show_ticket(request: HttpRequest, ticket_id: str) -> HttpResponse:
    waited = take_notes(request, ticket_id)
    notes = _notes_of(request, request.GET.get("notes_of", ""))
    notes |= {what: text for what, text in waited.notes.items() if text}
    wanted = request.GET.get("by_hand", "")
    typed: dict[str, dict[str, str]] = {wanted: {}} if wanted in PRESSES else {}
    return _ticket_page(request, ticket_id, notes=notes, typed=typed | waited.typed)


def notes_back(
    request: HttpRequest, ticket_id: str, what: str, refusal: errors.ReceiptsError | notes_kept.ChangedElsewhere
) -> HttpResponse:
    """The page again with notes that could not be saved, and beside them those that are."""
    given = {what: request.POST.get("notes", "")}
    if isinstance(refusal, notes_kept.ChangedElsewhere):
        response = _ticket_page(request, ticket_id, notes=given)
        response.status_code = 409
        return response
    refused = Refused(press=PRESSES[what], key=new_key(), refusal=refusal, seen=seen_version(request))
    return _ticket_page(request, ticket_id, notes=given, refused=refused)


def seen_version(request: HttpRequest) -> int:
    """Of the kept notes, as a form says it; 0 where it says nothing sensible."""
    seen = request.POST.get("notes_version", "")
    return int(seen) if seen.isascii() and seen.isdecimal() and len(seen) < 19 else 0


def press(request: HttpRequest, ticket_id: str, pressed: Press) -> HttpResponse:
    """File through the form: wait for the row, then go to its page. A refusal gives the form back with the notes.

    A ledger out of reach ends in `failures.unreachable`, which gives them back too.
    """
    if not request.user.is_authenticated:
        return sign_in_first(request, ticket_id, pressed.what)
    notes = request.POST.get("notes", "")

    def give_back(key: str, refusal: errors.ReceiptsError) -> HttpResponse:
        refused = Refused(press=pressed, key=key, refusal=refusal, seen=seen_version(request))
        return _ticket_page(request, ticket_id, notes={pressed.what: notes}, refused=refused)

    return _file(request, ticket_id, pressed, {"notes": notes} if pressed.label else {}, give_back)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def press_by_hand(request: HttpRequest, ticket_id: str, what: str) -> HttpResponse:
    """The same with the arguments themselves. What the contract refuses comes back beside its field, and no receipt
    is opened for it."""
    if request.method != "POST":
        return redirect("ticket", ticket_id)
    pressed = PRESSES[what]
    if not request.user.is_authenticated:
        return sign_in_first(request, ticket_id, what)
    typed = by_hand.read(pressed, request.POST)
    given = by_hand.arguments(pressed, typed)

    def give_back(key: str, refusal: errors.ReceiptsError) -> HttpResponse:
        refused = Refused(press=pressed, key=key, refusal=refusal, typed=typed)
        return _ticket_page(request, ticket_id, notes={}, refused=refused)

    try:
        wrong = by_hand.wrong(pressed, ticket_id, given)
    except errors.NotFound:
        raise Http404 from None
    if wrong and request.user.has_perm(FILE):
        return give_back(request.POST.get("idempotency_key") or new_key(), by_hand.refusal(wrong))
    return _file(request, ticket_id, pressed, {"arguments": given}, give_back)


@require_POST
@never_cache
def check_by_hand(request: HttpRequest, ticket_id: str, what: str) -> HttpResponse:
    """For the page's script, before it presses: what the fields come to, and what is wrong with them. Files nothing."""
    if not request.user.is_authenticated:
        return problem(errors.NotAuthenticated())
    if not request.user.has_perm(FILE):
        return problem(errors.PermissionDenied())
    given = by_hand.arguments(PRESSES[what], by_hand.read(PRESSES[what], request.POST))
    try:
        return JsonResponse({"arguments": given, "fields": by_hand.wrong(PRESSES[what], ticket_id, given)})
    except errors.NotFound as refusal:
        return problem(refusal)


def _file(
    request: HttpRequest,
    ticket_id: str,
    pressed: Press,
    body: dict[str, Any],
    give_back: Callable[[str, errors.ReceiptsError], HttpResponse],
) -> HttpResponse:
    """`give_back`: the form again, with a key and with what was refused."""
    key = request.POST.get("idempotency_key")
    try:
        filing = flow.file(tool=pressed.tool, user=request.user, subject=ticket_id, key=key, body=lambda: body)
    except errors.IdempotencyInFlight as refusal:
        # the second of two clicks: the browser shows only its answer, so that must lead to the first one's row
        return see_other("receipt", refusal.receipt_id) if refusal.receipt_id else see_other("receipts")
    except errors.PermissionDenied:
        raise PermissionDenied from None
    except errors.NotFound:
        raise Http404 from None
    except errors.DatabaseUnavailable:
        raise
    except errors.ReceiptsError as refusal:
        return give_back(new_key() if isinstance(refusal, KEY_IS_SPENT) else key or "", refusal)
    return _to_receipt(request, filing)


@dataclass(frozen=True, kw_only=True)
class Refused:
    """A press that opened no receipt: its form comes back, with the key if that can still be used."""

    press: Press
    key: str
    refusal: errors.ReceiptsError
    seen: int = 0
    """The version of the kept notes that what was pressed grew from."""
    typed: dict[str, str] | None = None
    """Of a press by hand: what stood in its fields."""


def _to_receipt(request: HttpRequest, filing: flow.Filing) -> HttpResponse:
    """303 to the receipt's page once the attempt has ended; the page tells from the row how it ended."""
    try:
        receipt = flow.wait(filing)
    except Exception:  # whatever broke the wait, the row knows more than we do
        log.exception("waiting for receipt %s broke", filing.receipt.pk)
        receipt = filing.receipt
    if filing.deduplicated:
        messages.info(request, words.same_press(receipt))
    return see_other("receipt", receipt.pk)


def _ticket_page(
    request: HttpRequest,
    ticket_id: str,
    *,
    notes: dict[str, str],
    refused: Refused | None = None,
    typed: dict[str, dict[str, str]] | None = None,
) -> HttpResponse:
    """`notes`: what stands in the forms, by the press that they are for; `typed`: in those for filing by hand."""
    typed = typed or {}
    shown = get_object_or_404(Ticket.objects.select_related("assignee"), pk=ticket_id)
    visible = visible_receipts(request.user)
    presses = list(visible.filter(subject=ticket_id).order_by("-created_at", "-id")[:PRESSES_SHOWN])
    now = timezone.now()
    kept = notes_kept.kept_on(ticket_id, request.user) if request.user.has_perm(FILE) else {}
    context = {
        "ticket": shown,
        "conversation": conversation(shown),
        "done": done_on(shown, visible, now),
        "presses": presses,
        "mine": latest_press(next((found for found in presses if found.user_id == request.user.pk), None), now),
        "forms": {
            press.what: replace(
                _form(press, shown, notes, kept, refused),
                by_hand=_by_hand(press, typed.get(press.what), refused) if press.label else None,
            )
            for press in PRESSES.values()
        },
        "notes_max": NOTES_MAX,
        "budget": settings.FILL_BUDGET_SECONDS,
        "panel": _panel_config(request, ticket_id, kept),
        "now": now,
    }
    refusal = refused.refusal if refused else None
    response = render(request, "ticket.html", context, status=refusal.http_status if refusal else 200)
    if refusal and refusal.retry_after:
        response["Retry-After"] = str(refusal.retry_after)
    return response


def _form(
    press: Press, shown: Ticket, notes: dict[str, str], kept: dict[str, notes_kept.Kept], refused: Refused | None
) -> Form:
    saved = kept.get(press.what, notes_kept.Kept())
    given = notes.get(press.what, saved.text)
    refused = refused if refused and refused.press is press and refused.typed is None else None
    grown = refused is not None and refused.seen == saved.version
    return Form(
        press=press,
        ticket=shown,
        key=refused.key if refused else new_key(),
        notes=given,
        seen=saved.version,
        saved_at=saved.saved_at if given == saved.text else None,
        others=saved.text if given != saved.text and not grown else "",
        refusal=refused.refusal if refused else None,
    )


def _by_hand(press: Press, typed: dict[str, str] | None, refused: Refused | None) -> ByHand:
    """`typed`: what stands in it from before, None where nothing does."""
    if refused is None or refused.press is not press or refused.typed is None:
        fields = by_hand.fields(press, typed or {}, {})
        return ByHand(key=new_key(), fields=fields, opened=typed is not None)
    fields = by_hand.fields(press, refused.typed, refused.refusal.fields)
    return ByHand(key=refused.key, fields=fields, opened=True, refusal=refused.refusal)


def _panel_config(request: HttpRequest, ticket_id: str, kept: dict[str, notes_kept.Kept]) -> dict[str, Any]:
    """What the side panel's script needs to know; the words included, so that it has none of its own."""
    return {
        "ticket": ticket_id,
        "person": str(request.user.pk),
        "budgetSeconds": settings.FILL_BUDGET_SECONDS,
        "notesMax": NOTES_MAX,
        "kept": {press.what: kept.get(press.what, notes_kept.Kept()).as_json() for press in TYPED},
        "tools": {press.what: press.tool for press in PRESSES.values()},
        "written": [press.tool for press in TYPED],
        "words": words.tables(ticket_id),
    }


def _notes_of(request: HttpRequest, receipt_id: str) -> dict[str, str]:
    """The notes of one's own failed receipt, to change them and press anew. Nothing when they are not kept."""
    try:
        mine = Receipt.objects.filter(user_id=str(request.user.pk), pk=UUID(receipt_id)).first()
        pressed = BY_TOOL.get(mine.tool_name) if mine else None
        return {pressed.what: str(attempts.unsealed(mine).get("notes", ""))} if mine and pressed else {}
    except (ValueError, errors.ReceiptsError):
        return {}


# ── receipts ─────────────────────────────────────────────────────────────────────────────────────────────────────


@require_safe
@never_cache
@login_required
def receipts(request: HttpRequest) -> HttpResponse:
    """My receipts; with `view_receipt`, everybody's. Narrowed by the URL."""
    now, narrowing = timezone.now(), Narrowing.asked(request.GET)
    visible = narrowing.of(visible_receipts(request.user), request.user, now)
    page = boards.page_of(visible, request, Keyset(), boards.PAGE_SIZE)
    titles = dict(Ticket.objects.filter(pk__in={receipt.subject for receipt in page.rows}).values_list("pk", "subject"))
    context = {
        "section": "receipts",
        "narrowing": narrowing,
        "spans": [(name, words) for name, (words, _span) in SPANS.items()],
        "tabs": narrowing.tabs(request.GET),
        "chips": narrowing.chips(request.GET),
        "page": page,
        "rows": [(receipt, titles.get(receipt.subject, "")) for receipt in page.rows],
        "now": now,
    }
    return render(request, "receipts.html", context)


@require_safe
@never_cache
@login_required
def receipt(request: HttpRequest, receipt_id: UUID) -> HttpResponse:
    """Why did this happen."""
    found = _find_receipt(request, receipt_id)
    owner = found.user_id == request.user.pk
    story = tell(found, timezone.now())
    context = {
        "story": story,
        "fields": fields_of(story),
        "json": json.dumps(show_receipts([found])[0], indent=2, ensure_ascii=False, cls=DjangoJSONEncoder),
        "ticket": Ticket.objects.filter(pk=found.subject).first(),
        "owner": owner,
        "may_retry": request.user.has_perm(FILE if owner else RETRY),
        "address": request.build_absolute_uri(request.path),
        "said": words.of_tool(found.tool_name).on(found.subject, found.result_ref),
        "press_again": BY_TOOL.get(found.tool_name),
    }
    return render(request, "receipt.html", context)


@require_POST
@never_cache
@login_required
def retry(request: HttpRequest, receipt_id: UUID) -> HttpResponse:
    """Continue the same receipt, next attempt; then back to its page."""
    found = _find_receipt(request, receipt_id)
    try:
        filing = flow.retry(user=request.user, receipt=found)
    except errors.PermissionDenied:
        raise PermissionDenied from None
    except errors.IdempotencyInFlight:
        return see_other("receipt", found.pk)
    except errors.ReceiptsError as refusal:
        messages.error(request, f"{sentence_case(refusal.detail)} {refusal.next_step}")
        return see_other("receipt", found.pk)
    return _to_receipt(request, filing)


@require_POST
@never_cache
@login_required
def cancel(request: HttpRequest, receipt_id: UUID) -> HttpResponse:
    """Settle a press before it is filed; then back to its page, which says what became of it."""
    found = _find_receipt(request, receipt_id)
    try:
        flow.cancel(user=request.user, receipt=found)
    except errors.PermissionDenied:
        raise PermissionDenied from None
    except errors.ReceiptsError as refusal:
        messages.warning(request, f"{sentence_case(refusal.detail)} {refusal.next_step}")
    return see_other("receipt", found.pk)


def _find_receipt(request: HttpRequest, receipt_id: UUID) -> Receipt:
    """Raises: Http404 alike for a receipt that is not there and for one that this person may not see."""
    return get_object_or_404(visible_receipts(request.user), pk=receipt_id)
