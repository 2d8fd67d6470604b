"""Circuits: which provider does not answer, since when, and when one attempt tries again."""

from __future__ import annotations

from django.contrib import admin

from receipts.admin import show
from receipts.admin.readonly import ReadOnlyAdmin
from receipts.models import Circuit


@admin.register(Circuit)
class CircuitAdmin(ReadOnlyAdmin):
    list_display = ("provider", "state", "failures", "what_happened", "since", "until", "probe", "last_failure")
    ordering = ("provider",)
    sortable_by = ()
    fieldsets = ((None, {"fields": list_display}),)

    def state(self, circuit: Circuit) -> str:
        return "open: what nobody watches waits" if circuit.open_since else "closed: failures are counted"

    @admin.display(description="what happened last")
    def what_happened(self, circuit: Circuit) -> str:
        return show.sentence(circuit.last_reason, circuit.last_reason)

    @admin.display(description="open since")
    def since(self, circuit: Circuit) -> str:
        return show.moment(circuit.open_since)

    @admin.display(description="one may try at")
    def until(self, circuit: Circuit) -> str:
        return show.moment(circuit.open_until)

    @admin.display(description="one is trying, until at most")
    def probe(self, circuit: Circuit) -> str:
        return show.moment(circuit.probe_until)

    def last_failure(self, circuit: Circuit) -> str:
        return show.moment(circuit.last_failure_at)
