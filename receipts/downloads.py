"""Exports as answers of the API and of the console: attachments that nobody on the way keeps."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django.http import FileResponse, HttpResponse, StreamingHttpResponse

from receipts.export import Exporter, Format, ReceiptExport, as_file, write_archive
from receipts.models import Run


def streamed(export: ReceiptExport, form: Format) -> StreamingHttpResponse:
    """An export as a download. Without a length: whether it is whole, its last line tells."""
    name = f"receipts-{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}.{form.name}"
    response = StreamingHttpResponse(export, content_type=form.media_type)
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    response["X-Accel-Buffering"] = "no"
    return response


def archived(run: Run, user: Any) -> FileResponse:
    """A run's archive as a download."""
    archive = write_archive(run.pk, Exporter(by=user.get_username(), user_id=user.pk))
    response = FileResponse(archive, as_attachment=True, filename=f"run-{run.pk}.zip", content_type="application/zip")
    response["Cache-Control"] = "no-store"
    return response


def as_download(shown: dict[str, Any], name: str) -> HttpResponse:
    """JSON as a file of that name."""
    response = HttpResponse(as_file(shown), content_type="application/json")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "no-store"
    return response
