"""The provider seam: a model fills a frozen contract's arguments, or a named error says why not.

`fill()` is the way in. Nothing here knows Django, the ledger or a tool's effect, so swapping providers
touches no mutation code. The parts, in the order in which a fill meets them: `provider` (whom), `prompt`
(what is sent), `client` (the wire out), `upstream` (errors by status), `answer` with `sse` and `strictjson`
(the wire in), `gates` (from a complete answer to arguments), `filling` (order and budget). `given` judges
arguments that no model wrote.
"""

from receipts.fill.client import Client
from receipts.fill.facts import Facts, Filled
from receipts.fill.filling import fill
from receipts.fill.given import judge_given
from receipts.fill.limits import Limits
from receipts.fill.prompt import measure_prompt
from receipts.fill.provider import Provider
from receipts.fill.text import sanitise

__all__ = ["Client", "Facts", "Filled", "Limits", "Provider", "fill", "judge_given", "measure_prompt", "sanitise"]
