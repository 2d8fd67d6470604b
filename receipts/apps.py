from django.apps import AppConfig


class ReceiptsConfig(AppConfig):
    name = "receipts"
    verbose_name = "Receipts"

    def ready(self) -> None:
        from receipts import checks  # noqa: F401 - registers the start-up checks
