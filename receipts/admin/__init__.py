"""The audit console: the ledger in Django's admin, read-only for everyone, superusers included."""

from django.contrib import admin

from receipts.admin import attempts, bulk, circuits, events, jobs, receipts, runs, sealed

__all__ = ["attempts", "bulk", "circuits", "events", "jobs", "receipts", "runs", "sealed"]

admin.site.site_header = "Receipts · audit console"
admin.site.site_title = "Receipts"
admin.site.index_title = "Ledger and people"

# the list of models beside every page takes a fifth of a laptop's width, and a list of receipts needs it
admin.site.enable_nav_sidebar = False
