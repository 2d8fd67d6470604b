from django.apps import AppConfig


class TicketsConfig(AppConfig):
    name = "tickets"
    verbose_name = "Tickets"

    def ready(self) -> None:
        from receipts import contracts, retention, workflows
        from tickets import notes
        from tickets.tools import TOOLS
        from tickets.workflows import WORKFLOWS

        for tool in TOOLS:
            contracts.registry.register(tool)
        for workflow in WORKFLOWS:
            workflows.registry.register(workflow)
        retention.expires("notes draft", notes.purge)
