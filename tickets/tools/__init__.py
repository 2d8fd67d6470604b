"""The tools of this domain: where a contract meets a table. The only package that joins receipts and tickets.

To add a tool: one schema file in `contracts/`, one module here with the function that makes the change, one line in
`TOOLS`, a migration that widens the constraint `receipt_tool_allowed`. `manage.py new_tool` begins it.
"""

from __future__ import annotations

from tickets.tools.check_contact_email import CHECK_CONTACT_EMAIL
from tickets.tools.close_ticket import CLOSE_TICKET
from tickets.tools.deliver_email import DELIVER_EMAIL
from tickets.tools.email_requester import EMAIL_REQUESTER
from tickets.tools.file_followup import FILE_FOLLOWUP, FILE_FOLLOWUP_2

TOOLS = (
    FILE_FOLLOWUP,
    FILE_FOLLOWUP_2,
    CHECK_CONTACT_EMAIL,
    CLOSE_TICKET,
    EMAIL_REQUESTER,
    DELIVER_EMAIL,
)

__all__ = [
    "CHECK_CONTACT_EMAIL",
    "CLOSE_TICKET",
    "DELIVER_EMAIL",
    "EMAIL_REQUESTER",
    "FILE_FOLLOWUP",
    "FILE_FOLLOWUP_2",
    "TOOLS",
]
