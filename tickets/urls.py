"""The leads' pages."""

urlpatterns: list = []
