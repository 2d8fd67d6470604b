from django.apps import AppConfig


class TicketsConfig(AppConfig):
    name = "tickets"
    verbose_name = "Tickets"

    def ready(self) -> None:
        from receipts.contracts import registry
        from tickets.tools import TOOLS

        for tool in TOOLS:
            registry.register(tool)
