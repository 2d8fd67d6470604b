"""What a bulk replay is said to be: counts of what has happened, never of what was selected."""

from __future__ import annotations

from receipts.admin import show, verdicts
from receipts.bulk_replays import Tally
from receipts.models import BulkReplay, BulkReplayItem, ItemState
from receipts.replay import Mode


def many(count: int, one: str = "receipt") -> str:
    """“1 receipt”, “1,200 receipts”"""
    return f"{count:,} {one}{'' if count == 1 else 's'}"


def standing(bulk: BulkReplay) -> str:
    """Where it is, by its row."""
    stopper = bulk.stop_requested_by
    stopped = f"stopped by {stopper.username}, {show.moment(bulk.stop_requested_at)}" if stopper else ""
    if bulk.finished_at:
        return f"Ended, {stopped}." if stopped else "Ended."
    if stopped:
        return f"{stopped[:1].upper()}{stopped[1:]}. What had begun goes on to its end."
    return "A worker carries it out." if bulk.started_at else "Waits for a worker."


def happened(tally: Tally) -> str:
    """“12 replayed: 10 filed, 2 failed. 3 refused. 5 left out by the plan.”"""
    parts = [
        (tally.applied, "applied"),
        (tally.failed, "failed"),
        (tally.retrying, "failed and tried again by the system"),
        (tally.pending, "being worked on"),
    ]
    became = ", ".join(f"{count:,} {word}" for count, word in parts if count)
    sentences = [f"{tally.replayed:,} replayed{f': {became}' if became else ''}."]
    rest = [
        (tally.waiting, "not begun"),
        (tally.refused, "refused at their turn"),
        (tally.stopped, "stopped before their turn"),
        (tally.excluded, "left out by the plan"),
    ]
    sentences += [f"{count:,} {word}." for count, word in rest if count]
    return " ".join(sentences)


def tabs(tally: Tally, chosen: str) -> list[dict[str, object]]:
    """The items by state, with how many there are."""
    counts = {
        "": tally.chosen + tally.excluded,
        ItemState.REPLAYED: tally.replayed,
        ItemState.REFUSED: tally.refused,
        ItemState.PLANNED: tally.waiting,
        ItemState.STOPPED: tally.stopped,
        ItemState.EXCLUDED: tally.excluded,
    }
    return [
        {
            "value": str(state),
            "label": ItemState(state).label if state else "all",
            "count": count,
            "here": state == chosen,
        }
        for state, count in counts.items()
        if count or not state
    ]


def ordered(words: dict[str, str]) -> dict[str, str]:
    """What was selected, first how and last when; the database keeps no order."""
    return dict(sorted(words.items(), key=lambda pair: (pair[0] == "as of", pair[0] != "selected", pair[0])))


def verdict(word: str) -> str:
    """What the plan said of an item."""
    return verdicts.label(Mode(word), None) if word in list(Mode) else verdicts.title(word)


def said(item: BulkReplayItem) -> str:
    """What became of an item, in a sentence."""
    if item.new_receipt is not None:
        return show.what_happened(item.new_receipt)
    if item.refusal_code is not None:
        return verdicts.words(item.refusal_code, item.refusal_reason)
    return ""
