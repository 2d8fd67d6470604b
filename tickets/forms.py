"""What people type: filters in the URL, and notes.

Notes are judged by the flow, which is also what the API's callers meet; the form only carries them.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, UsernameField
from django.db.models import Q

from tickets.board import NOBODY, US
from tickets.models import Member, Ticket

ANY = ("", "Any")


class BoardFilter(forms.Form):
    """The board's filters. A value that is not on offer counts as none: old links must not break."""

    q = forms.CharField(required=False, max_length=200, label="Search")
    status = forms.ChoiceField(required=False, choices=[("", "All"), *Ticket.Status.choices])
    priority = forms.ChoiceField(required=False, choices=[ANY, *Ticket.Priority.choices])
    assignee = forms.ChoiceField(required=False, choices=())
    waiting = forms.ChoiceField(required=False, choices=[ANY, (US, "On us")], label="Waiting")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        members = Member.objects.order_by("name").values_list("handle", "name")
        self.fields["assignee"].choices = [ANY, (NOBODY, "Nobody yet"), *members]  # type: ignore[attr-defined]
        self.fields["q"].widget = forms.TextInput(
            attrs={"type": "search", "placeholder": "Ticket, subject or requester", "autocomplete": "off"}
        )

    def chosen(self) -> dict[str, str]:
        """Field → value, the empty text for none."""
        self.is_valid()
        return {name: self.cleaned_data.get(name, "") for name in self.fields}

    def in_words(self, name: str, value: str) -> str:
        """`Priority: High`, for what has been chosen."""
        field = self.fields[name]
        choices: Any = field.choices if isinstance(field, forms.ChoiceField) else [(value, f"“{value}”")]
        shown = dict(choices)[value]
        return f"{field.label or name.capitalize()}: {shown}"


class PlaceForm(forms.Form):
    """Where a ticket goes on the board, and to whom. `seen` is where it was when somebody decided so."""

    status = forms.ChoiceField(choices=Ticket.Status.choices)
    assignee = forms.CharField(required=False, max_length=64)
    seen = forms.CharField(max_length=80)

    def clean_assignee(self) -> str:
        """A member who is active, or the one who has it; empty for nobody."""
        handle = str(self.cleaned_data["assignee"])
        if handle and not Member.objects.filter(pk=handle).filter(Q(active=True) | Q(pk=self._had)).exists():
            raise forms.ValidationError("is no member of support")
        return handle

    @property
    def _had(self) -> str:
        return str(self.data.get("seen", "")).partition("/")[2]


class SignInForm(AuthenticationForm):
    """Django's, but a name that nobody can have is refused before it is tried: what counts failures cannot store it.

    Django sets the length on the field after the field has made its validators, so only the HTML would know it.
    """

    username = UsernameField(max_length=150)
