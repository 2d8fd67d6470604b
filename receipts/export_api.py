"""Exports over REST: the filtered list of receipts as a stream, a run as an archive."""

from __future__ import annotations

from django.http.response import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request

from receipts import permissions
from receipts.api import RUN_ID, visible_receipts, visible_runs
from receipts.downloads import archived, streamed
from receipts.errors import InvalidRequest, NotFound
from receipts.export import FORMATS, Format, ReceiptExport
from receipts.filters import ReceiptFilter
from receipts.models import Receipt, Run
from receipts.wire import Wire, parse_uuid, problems


class LinesRenderer(BaseRenderer):
    """Declares JSONL; the export itself writes it."""

    media_type, format, charset = "application/x-ndjson", "jsonl", None


class CsvRenderer(BaseRenderer):
    """Declares CSV."""

    media_type, format, charset = "text/csv", "csv", None


class ZipRenderer(BaseRenderer):
    """Declares archives."""

    media_type, format, charset = "application/zip", "zip", None


class ReceiptExportViews(Wire):
    """The list of receipts, all pages of it."""

    queryset = Receipt.objects.none()
    filterset_class = ReceiptFilter
    pagination_class = None
    renderer_classes = [LinesRenderer, CsvRenderer, JSONRenderer]
    http_method_names = ["get"]  # a HEAD would record an export that nobody read

    @extend_schema(
        operation_id="export_receipts",
        filters=True,
        parameters=[
            OpenApiParameter(
                "format",
                OpenApiTypes.STR,
                enum=sorted(FORMATS),
                description="default: what Accept asks for, else jsonl",
            )
        ],
        responses={
            (200, LinesRenderer.media_type): OpenApiResponse(
                OpenApiTypes.STR, description='a receipt a line; the last line is `{"export": {…, "complete": true}}`'
            ),
            (200, CsvRenderer.media_type): OpenApiResponse(
                OpenApiTypes.STR, description="with a header; the last row begins with `# export`"
            ),
            **problems(400, 403, 503),
        },
    )
    def export(self, request: Request) -> HttpResponseBase:
        """Exactly what the list holds under the same filters, newest first, as of one moment.

        Only the last line says that it is complete: a stream without it was cut. Needs `export_receipt`.
        """
        permissions.require(request.user, permissions.EXPORT)
        form = self._format(request)
        rows = self.filtered(visible_receipts(request.user), "format").order_by("-created_at", "-id")
        chosen = {name: str(value) for name, value in request.query_params.items() if name != "format"}
        return streamed(ReceiptExport(rows, form, user=request.user, chosen=chosen), form)

    @staticmethod
    def _format(request: Request) -> Format:
        accepted = "csv" if request.accepted_media_type == CsvRenderer.media_type else "jsonl"
        form = FORMATS.get(request.query_params.get("format", accepted))
        if form is None:
            raise InvalidRequest(fields={"format": f"is not one of {', '.join(sorted(FORMATS))}"})
        return form


class RunExportViews(Wire):
    """A run as a folder of files, packed."""

    queryset = Run.objects.none()
    pagination_class = None
    renderer_classes = [ZipRenderer, JSONRenderer]
    http_method_names = ["get"]

    @extend_schema(
        operation_id="export_run",
        parameters=[RUN_ID],
        filters=False,
        responses={
            (200, ZipRenderer.media_type): OpenApiResponse(OpenApiTypes.BINARY, description="as `manage.py export`"),
            **problems(403, 404),
        },
    )
    def export(self, request: Request, run_id: str) -> HttpResponseBase:
        """`manifest.json` and a JSON file for each run receipt, with those of the runs that it opened.

        The manifest holds the sha256 of every file, and `manage.py export --check` verifies them once unpacked. Needs
        `export_receipt`.
        """
        permissions.require(request.user, permissions.EXPORT)
        run = visible_runs(request.user).filter(pk=parse_uuid(run_id)).first()
        if run is None:
            raise NotFound
        return archived(run, request.user)
