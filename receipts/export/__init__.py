"""What leaves the ledger as files: a list of receipts as CSV or JSONL, a run as a folder or an archive."""

from receipts.export.bundle import AlreadyThere, Exporter, as_file, chosen_runs, write_archive, write_folder
from receipts.export.checking import check
from receipts.export.formats import FORMATS, Format
from receipts.export.listing import ReceiptExport

__all__ = [
    "FORMATS", "AlreadyThere", "Exporter", "Format", "ReceiptExport", "as_file", "check", "chosen_runs",
    "write_archive", "write_folder",
]  # fmt: skip
