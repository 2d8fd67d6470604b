"""The queue's jobs, to look at: their library's page offers retry, cancel and abort to whoever may look.

What a receipt is owed, its own page and the sweep decide; a job that is taken away by hand would leave it waiting.
"""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from procrastinate.contrib.django.admin import ProcrastinateJobAdmin
from procrastinate.contrib.django.models import ProcrastinateJob

from receipts.admin.readonly import CappedPaginator, ReadOnly

admin.site.unregister(ProcrastinateJob)


@admin.register(ProcrastinateJob)
class JobAdmin(ReadOnly, ProcrastinateJobAdmin):
    actions: Any = None
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
