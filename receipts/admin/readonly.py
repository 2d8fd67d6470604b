"""What all pages of the console share: nothing can be changed, and no page counts a whole table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.contrib.admin.utils import flatten_fieldsets
from django.core.paginator import Paginator
from django.http import HttpRequest
from django.utils.functional import cached_property

if TYPE_CHECKING:  # generic for the type checker only
    _ModelAdmin = admin.ModelAdmin[Any]
    _TabularInline = admin.TabularInline[Any, Any]
    _Paginator = Paginator[Any]
else:
    _ModelAdmin, _TabularInline, _Paginator = admin.ModelAdmin, admin.TabularInline, Paginator

#: Rows that are counted at most; one more than is shown, so that the page can say "1,000+".
COUNTED = 1_001


class CappedPaginator(_Paginator):
    """Counts up to `COUNTED` rows: COUNT(*) over ten million takes half a second, twice a page, and nobody reads on
    past the first thousand. It bounds OFFSET as well."""

    @cached_property
    def count(self) -> int:
        rows: Any = self.object_list
        return int(rows.order_by().values("pk")[:COUNTED].count())


class ReadOnly:
    """No add, no change, no delete, no actions. History is never edited, and the admin does not offer to."""

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class ReadOnlyAdmin(ReadOnly, _ModelAdmin):
    """Base of the ledger's pages."""

    actions: Sequence[str] | None = None
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    list_per_page = 50
    list_max_show_all = 50
    view_on_site = False

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Everything that is shown, methods included."""
        return flatten_fieldsets(self.fieldsets or ())

    class Media:
        css = {"all": ["receipts/admin.css"]}


class ReadOnlyInline(ReadOnly, _TabularInline):
    """Base of the rows below a page."""

    extra = 0
    can_delete = False
    show_change_link = True
