"""All addresses: the API, the admin, health, and the leads' pages."""

from __future__ import annotations

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path, re_path
from drf_spectacular.views import SpectacularAPIView

from receipts.routes import route
from receipts_project import failures
from receipts_project.docs import docs
from receipts_project.health import livez, readyz

api: list[URLPattern | URLResolver] = [
    *route("schema", SpectacularAPIView.as_view(), "schema"),
    *route("docs", docs, "docs"),
    path("", include("tickets.api_urls")),
    path("", include("receipts.urls")),
]

urlpatterns: list[URLPattern | URLResolver] = [
    path("api/v1/", include(api)),
    re_path(r"^api(?:/|$)", failures.no_such_address),
    re_path(r"^admin/r/(.*)$", failures.no_such_page),  # "view on site": nothing here is on another site
    path("admin/", admin.site.urls),
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("", include("tickets.urls")),
]

handler400 = failures.bad_request
handler403 = failures.permission_denied
handler404 = failures.page_not_found
handler500 = failures.server_error
