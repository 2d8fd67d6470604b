"""The two verbs on a receipt's page. Replay: a new receipt, after a dry run. Retry: the same receipt, next attempt."""

from __future__ import annotations

import logging
from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from receipts import errors, flow, ledger
from receipts.admin import lineage, show, verdicts
from receipts.admin.refusals import refuse
from receipts.answers import see_other
from receipts.contracts import Effect, registry
from receipts.differences import differences
from receipts.errors import ContractGone, InvalidRequest, ReceiptsError
from receipts.explanations import sentence_case
from receipts.lifecycle import Status
from receipts.models import Receipt
from receipts.permissions import REPLAY, RETRY
from receipts.replay import REASON_MAX, Mode, Verdict, replay, verdict

log = logging.getLogger(__name__)

#: Refusals that another receipt explains: somebody was first, or it was done long ago. That receipt is shown instead.
_OTHERS_WON = (errors.InFlight, errors.AppliedInLineage, errors.StaleReplayNo)


def replay_view(request: HttpRequest, receipt_id: UUID, *, media: Any) -> HttpResponse:
    """GET: the dry run, which writes nothing. POST: the deed, then on to the new receipt."""
    receipt = _find(receipt_id)
    if not request.user.has_perm(REPLAY):
        return refuse(request, "replay receipts", back=_address(receipt.pk), receipt=receipt)
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponseNotAllowed(["GET", "HEAD", "POST"])
    contract = request.POST.get("contract") if request.method == "POST" else request.GET.get("contract")
    if request.method == "POST":
        try:
            return _replay(request, receipt, contract)
        except ReceiptsError as error:
            if isinstance(error, _OTHERS_WON) and error.receipt_id and error.receipt_id != str(receipt.pk):
                return _to_the_winner(request, receipt, error)
            return _page(request, receipt, contract, media, error)
    return _page(request, receipt, contract, media)


def _replay(request: HttpRequest, receipt: Receipt, contract: str | None) -> HttpResponse:
    """Raises: what the engine refuses, before any row."""
    number = request.POST.get("expected_replay_no", "")
    if not (number.isascii() and number.isdigit() and len(number) <= 9):
        raise InvalidRequest(fields={"expected_replay_no": "is not the number of the page: open it again"})
    filing = replay(
        user=request.user,
        receipt=receipt,
        reason=request.POST.get("reason", ""),
        mode=_mode(request.POST.get("mode")),
        contract=contract or None,
        expected_no=int(number),
    )
    new = _waited(filing)
    said = format_html("{} was replayed as {}. {}", receipt.number, new.number, show.what_happened(new))
    messages.add_message(request, _level(new), said)
    return _see(new.pk)


def _mode(value: str | None) -> Mode | None:
    if not value:
        return None
    if value not in list(Mode):
        raise InvalidRequest(fields={"mode": "is not one of the two"})
    return Mode(value)


def _to_the_winner(request: HttpRequest, receipt: Receipt, error: ReceiptsError) -> HttpResponse:
    """The browser shows only the second click's answer, so that leads to what the first one opened."""
    said = format_html("{} was not replayed by you now. {}", receipt.number, error.detail)
    messages.warning(request, format_html("{} {}", said, verdicts.about(error.receipt_id)))
    return _see(error.receipt_id)


def retry_view(request: HttpRequest, receipt_id: UUID) -> HttpResponse:
    """POST: the same receipt, next attempt; then back to its page, which says what came of it."""
    receipt = _find(receipt_id)
    if not request.user.has_perm(RETRY):
        return refuse(request, "retry others' receipts", back=_address(receipt.pk), receipt=receipt)
    if request.method != "POST":
        return HttpResponseNotAllowed(["POST"])
    try:
        filing = flow.retry(user=request.user, receipt=receipt)
    except ReceiptsError as error:
        said = format_html("{} was not tried again. {}", receipt.number, sentence_case(error.detail))
        messages.error(request, format_html("{} {}", said, verdicts.about(error.receipt_id)))
        return _see(receipt.pk)
    if filing.deduplicated:
        messages.warning(request, f"{receipt.number} is settled for good: nothing was tried again.")
        return _see(receipt.pk)
    row = _waited(filing)
    messages.add_message(
        request, _level(row), f"{row.number} was tried again, attempt {row.attempt}. {show.what_happened(row)}"
    )
    return _see(receipt.pk)


def next_attempt(user: Any, receipt: Receipt) -> int | None:
    """The attempt that a retry would be, where this person may retry it and no other receipt speaks for it."""
    if not receipt.may_run_again or not user.has_perm(RETRY):
        return None
    superseded = receipt.effect != Effect.READ and ledger.live_in_lineage(receipt.root_id, but=receipt.pk)
    return None if superseded else receipt.attempt + 1


def _waited(filing: flow.Filing) -> Receipt:
    try:
        return flow.wait(filing)
    except Exception:  # whatever broke the wait, the row knows more than we do
        log.exception("waiting for receipt %s broke", filing.receipt.pk)
        return Receipt.objects.get(pk=filing.receipt.pk)


def _level(receipt: Receipt) -> int:
    """Success is said of an applied row alone."""
    return {Status.APPLIED: messages.SUCCESS, Status.PENDING: messages.INFO}.get(
        Status(receipt.status), messages.WARNING
    )


def _find(receipt_id: UUID) -> Receipt:
    found = Receipt.objects.select_related("user", "on_behalf_of").filter(pk=receipt_id).first()
    if found is None:
        raise Http404
    return found


def _address(receipt_id: Any) -> str:
    return reverse("admin:receipts_receipt_change", args=[receipt_id])


def _see(receipt_id: Any) -> HttpResponse:
    """303: a reload never posts again."""
    return see_other(_address(receipt_id))


# ── the dry run's page ───────────────────────────────────────────────────────────────────────────────────────────


def _page(
    request: HttpRequest, receipt: Receipt, contract: str | None, media: Any, error: ReceiptsError | None = None
) -> HttpResponse:
    chosen = contract or receipt.contract
    found = verdict(receipt, contract=chosen)
    ways = _ways(receipt, chosen, _given_mode(request) or found.mode)
    refused = found.refusal is not None and all(way["refusal"] for way in ways)
    context = {
        **admin.site.each_context(request),
        "title": f"Replay {receipt.number} as a new receipt",
        "media": media,
        "receipt": receipt,
        "status": show.status(receipt),
        "what_happened": show.what_happened(receipt),
        "pressed_at": show.moment(receipt.created_at),
        "replayed": _replayed(receipt),
        "contracts": _contracts(receipt, chosen),
        "contract": chosen,
        "newer": chosen != receipt.contract,
        "beneficiary": (receipt.on_behalf_of or receipt.user).username,
        "replay_no": found.replay_no,
        "ways": [] if refused else ways,
        "refusal": _refusal(found) if refused else None,
        "reason": request.POST.get("reason", ""),
        "reason_max": REASON_MAX,
        "error": error,
    }
    status = error.http_status if error else 200
    return TemplateResponse(request, "admin/receipts/replay.html", context, status=status)


def _given_mode(request: HttpRequest) -> Mode | None:
    given = request.POST.get("mode")
    return Mode(given) if given in list(Mode) else None


def _ways(receipt: Receipt, contract: str, preferred: Mode | None) -> list[dict[str, Any]]:
    """Both modes, each with its own dry run; a derived tool's arguments leave no choice."""
    found = [verdict(receipt, mode=mode, contract=contract) for mode in Mode]
    possible = [way.mode for way in found if way.refusal is None]
    chosen = preferred if preferred in possible else next(iter(possible), None)
    return [
        {
            "mode": str(way.mode),
            "label": verdicts.label(way.mode, way.tool),
            "words": verdicts.way(way),
            "refusal": way.refusal,
            "chosen": way.mode == chosen,
        }
        for way in found
    ]


def _refusal(found: Verdict) -> dict[str, Any]:
    refusal = found.refusal
    assert refusal is not None  # noqa: S101 - for the type checker
    other = refusal.receipt_id if refusal.receipt_id != str(found.receipt.pk) else None
    return {
        "title": refusal.title,
        "words": verdicts.words(refusal.code, refusal.reason),
        "next_step": refusal.next_step,
        "link": verdicts.about(other),
        "code": refusal.code,
        "reason": refusal.reason,
    }


def _replayed(receipt: Receipt) -> SafeString | str:
    said = lineage.replayed_as(receipt)
    return "" if said == show.EMPTY else said


def _contracts(receipt: Receipt, chosen: str) -> list[dict[str, Any]]:
    """The versions that are held here, the receipt's own first, each with what differs from that."""
    held = sorted((tool for tool in registry if tool.name == receipt.tool_name), key=lambda tool: tool.version)
    own = next((tool for tool in held if tool.contract == receipt.contract), None)
    return [
        {
            "name": tool.contract,
            "pinned": tool is own,
            "chosen": tool.contract == chosen,
            "differences": differences(own, tool) if own else [sentence_case(ContractGone.default_detail)],
        }
        for tool in sorted(held, key=lambda tool: (tool is not own, tool.version))
    ]
