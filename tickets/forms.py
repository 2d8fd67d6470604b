"""What people type: filters in the URL, and notes.

Notes are judged by the flow, which is also what the API's callers meet; the form only carries them.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm, UsernameField

from tickets.board import NOBODY
from tickets.models import Member, Ticket

ANY = ("", "Any")


class BoardFilter(forms.Form):
    """The board's filters. A value that is not on offer counts as none: old links must not break."""

    q = forms.CharField(required=False, max_length=200, label="Search")
    status = forms.ChoiceField(required=False, choices=[("", "All"), *Ticket.Status.choices])
    priority = forms.ChoiceField(required=False, choices=[ANY, *Ticket.Priority.choices])
    assignee = forms.ChoiceField(required=False, choices=())

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


class SignInForm(AuthenticationForm):
    """Django's, but a name that nobody can have is refused before it is tried: what counts failures cannot store it.

    Django sets the length on the field after the field has made its validators, so only the HTML would know it.
    """

    username = UsernameField(max_length=150)
