"""A receipt, its replays and theirs: read from the children, never written on the original."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from receipts.admin import show
from receipts.models import Receipt

#: Receipts of one lineage that are shown: each of them took an operator's reason.
SHOWN = 200


@dataclass(kw_only=True)
class Node:
    """One receipt of the tree."""

    receipt: Receipt
    here: bool
    """The page's own."""
    replays: list[Node] = field(default_factory=list)

    @property
    def badge(self) -> SafeString | str:
        return show.status(self.receipt)

    @property
    def link(self) -> SafeString | str:
        return show.link(Receipt, self.receipt.pk, self.receipt.number)

    @property
    def at(self) -> str:
        return show.moment(self.receipt.created_at)


def tree(receipt: Receipt) -> SafeString | str:
    """The whole lineage, from its first receipt down."""
    nodes = {row.pk: Node(receipt=row, here=row.pk == receipt.pk) for row in members(receipt)}
    roots: list[Node] = []
    for node in nodes.values():
        parent = nodes.get(node.receipt.replay_of_id) if node.receipt.replay_of_id else None
        (parent.replays if parent else roots).append(node)
    return render_to_string("admin/receipts/_lineage.html", {"nodes": roots})


def members(receipt: Receipt) -> Iterable[Receipt]:
    rows = Receipt.objects.filter(root_id=receipt.root_id).select_related("user", "on_behalf_of")
    return rows.order_by("created_at", "id")[:SHOWN]


def replayed_as(receipt: Receipt) -> SafeString | str:
    """“Replayed as R-… by …, because …”, for each replay of this very receipt, the newest first."""
    replays = Receipt.objects.filter(replay_of=receipt).select_related("user").order_by("-replay_no")[:SHOWN]
    lines = [(replayed(row),) for row in replays]
    return format_html_join("", '<p class="replayed">{}</p>', lines) if lines else show.EMPTY


def replayed(replay: Receipt) -> SafeString:
    """One such line, with the status that the replay has now."""
    return format_html(
        "Replayed as {} {} by {}, {}, because “{}”",
        show.link(Receipt, replay.pk, replay.number),
        show.status(replay),
        replay.user.username,
        show.moment(replay.created_at),
        show.visible(replay.replay_reason or ""),
    )
