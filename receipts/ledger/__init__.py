"""The only writer of receipts, attempts, runs and audit events.

Every write is one compare-and-set statement on (id, attempt, status): whoever comes late hits zero rows, and what
hangs on the write does not happen either. Each phase is as few statements as its rules allow, in SQL, because the
two commits are the price of every press. Lock order: run → receipt → ticket.

Deadlines use the database's clock (`clock_timestamp()`), so that two machines cannot disagree about one row.
"""

from receipts.ledger.events import Event, purge_sealed_inputs, record
from receipts.ledger.opening import Enqueue, Opening, begin, open_follow_on, open_receipt, reopen
from receipts.ledger.replaying import Lost, newest_replay, next_replay_no, open_replay
from receipts.ledger.rows import context, find, holds, last_attempt, live_in_lineage, overdue, overdue_ids, read
from receipts.ledger.runs import Count, Outdated, choose_anew, counts_of, finish_run, must_be_chosen, open_run, plan_run
from receipts.ledger.sealed import reseal
from receipts.ledger.settling import Decision, Fenced, abandon, apply, settle_failed

__all__ = [
    "Count", "Decision", "Enqueue", "Event", "Fenced", "Lost", "Opening", "Outdated", "abandon", "apply", "begin",
    "choose_anew", "context", "counts_of", "find", "finish_run", "holds", "last_attempt", "live_in_lineage",
    "must_be_chosen", "newest_replay", "next_replay_no", "open_follow_on", "open_receipt", "open_replay", "open_run",
    "overdue", "overdue_ids", "plan_run", "purge_sealed_inputs", "read", "record", "reopen", "reseal",
    "settle_failed",
]  # fmt: skip
