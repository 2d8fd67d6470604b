from django.apps import AppConfig


class ReceiptsConfig(AppConfig):
    name = "receipts"
    verbose_name = "Receipts"

    def ready(self) -> None:
        from receipts import checks, jobs, retention  # noqa: F401 - `checks` registers the start-up checks

        retention.expires("ended job", jobs.purge_ended)
