"""API tokens: knox's storage (digests, expiry), read in one query."""

from __future__ import annotations

from typing import Any

from django.db import DEFAULT_DB_ALIAS
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from knox.auth import TokenAuthentication as KnoxTokenAuthentication
from knox.crypto import hash_token
from knox.models import AuthToken
from rest_framework.exceptions import AuthenticationFailed

from receipts.statements import fetch_row
from receipts_project.accounts.backends import GRANTED
from receipts_project.accounts.models import User

_USER_FIELDS = list(User._meta.concrete_fields)
_USER_ATTNAMES = [field.attname for field in _USER_FIELDS]
_KNOWN = f"""
SELECT ARRAY({GRANTED.format(user="u.id")}), t.token_key, t.created, t.expiry,
       {", ".join(f'u."{field.column}"' for field in _USER_FIELDS)}
FROM knox_authtoken t JOIN users u ON u.id = t.user_id
WHERE t.digest = %(digest)s AND u.is_active AND (t.expiry IS NULL OR t.expiry > clock_timestamp())
"""  # noqa: S608 - column names from the model


class TokenAuthentication(KnoxTokenAuthentication):  # type: ignore[misc]
    """`Authorization: Token …`.

    knox reads and sweeps all tokens of a person on every request; a press needs this token, its person and their
    permissions, so one query brings the three.
    """

    def authenticate_credentials(self, token: bytes) -> tuple[User, AuthToken]:
        """Raises: AuthenticationFailed for an unknown, expired or disabled token; all with the same words."""
        try:
            digest = hash_token(token.decode("ascii"))
        except (UnicodeDecodeError, ValueError, TypeError):
            raise AuthenticationFailed from None
        row = fetch_row(_KNOWN, {"digest": digest})
        if row is None:
            raise AuthenticationFailed
        granted, token_key, created, expiry, *person = row
        user = User.from_db(DEFAULT_DB_ALIAS, _USER_ATTNAMES, person)
        if not user.is_superuser:
            user.granted = set(granted)
        return user, AuthToken(digest=digest, token_key=token_key, user=user, created=created, expiry=expiry)


class TokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
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
