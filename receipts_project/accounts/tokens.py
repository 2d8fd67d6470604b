"""API tokens: knox's storage (digests, expiry), read in one query."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication as KnoxTokenAuthentication
from knox.crypto import hash_token
from knox.models import AuthToken
from rest_framework.exceptions import AuthenticationFailed

from receipts_project.accounts.backends import GRANTED


class TokenAuthentication(KnoxTokenAuthentication):  # type: ignore[misc]
    """`Authorization: Token …`.

    knox reads and sweeps all tokens of a person on every request; a press needs this token, its person and their
    permissions, so one query brings the three.
    """

    def authenticate_credentials(self, token: bytes) -> tuple[Any, Any]:
        """Raises: AuthenticationFailed for an unknown, expired or disabled token; all with the same words."""
        try:
            digest = hash_token(token.decode("ascii"))
        except (UnicodeDecodeError, ValueError, TypeError):
            raise AuthenticationFailed from None
        found = (
            AuthToken.objects.select_related("user")
            .filter(digest=digest)
            .extra(select={"granted": f"ARRAY({GRANTED.format(user='knox_authtoken.user_id')})"})
            .first()
        )
        if found is None or not found.user.is_active or (found.expiry and found.expiry <= timezone.now()):
            raise AuthenticationFailed
        found.user.granted = set(found.granted)
        return found.user, found


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[misc]
    """How the OpenAPI schema describes it."""

    target_class = "receipts_project.accounts.tokens.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`Token …`, from `manage.py issue_token`",
        }
