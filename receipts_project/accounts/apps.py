from django.apps import AppConfig
from django.db.models.signals import post_migrate


class AccountsConfig(AppConfig):
    name = "receipts_project.accounts"
    label = "accounts"
    verbose_name = "People"

    def ready(self) -> None:
        from receipts_project.accounts.roles import create_roles

        post_migrate.connect(create_roles, dispatch_uid="accounts.create_roles")
