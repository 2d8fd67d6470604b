"""Every error of the table on the wire, and every exception that could reach it."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from django.core import exceptions as django_errors
from django.db import InterfaceError, OperationalError
from django.http import Http404
from django.test import Client
from psycopg_pool import PoolTimeout
from rest_framework import exceptions as drf_errors

from receipts import errors
from receipts.errors import BY_CODE, REASONS
from receipts.problems import describe, error_for, exception_handler, problem


@pytest.mark.parametrize("code", BY_CODE)
def test_every_code_is_a_problem_with_its_status(code: str) -> None:
    error = BY_CODE[code]()
    body = describe(error)
    assert body["status"] == problem(error).status_code == error.http_status
    assert body["type"] == f"/api/v1/problems/{code}"
    assert (body["code"], body["detail"], body["title"]) == (code, error.default_detail, error.title)
    assert "reason" not in body
    assert "receipt_id" not in body


@pytest.mark.parametrize("reason", REASONS)
def test_a_reason_says_whose_turn_it_is(reason: str) -> None:
    body = describe(errors.FillFailed(reason=reason, receipt_id="r"))
    assert (body["reason"], body["reason_detail"]) == (reason, REASONS[reason].sentence)
    assert (body["owner"], body["next_step"]) == (REASONS[reason].owner, REASONS[reason].next_step)
    assert (body["detail"], body["receipt_id"]) == ("argument fill failed", "r")


def test_headers() -> None:
    throttled = problem(errors.Throttled(retry_after=7))
    assert throttled["Retry-After"] == "7"
    assert throttled["Cache-Control"] == "no-store"
    assert throttled["Content-Type"] == "application/problem+json"
    assert problem(errors.NotAuthenticated())["WWW-Authenticate"] == "Token"
    assert "Retry-After" not in problem(errors.NotFound())


def _wrapped(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("exception", "code"),
    [
        (drf_errors.NotAuthenticated(), "not_authenticated"),
        (drf_errors.AuthenticationFailed(), "not_authenticated"),
        (drf_errors.PermissionDenied(), "permission_denied"),
        (django_errors.PermissionDenied(), "permission_denied"),
        (Http404(), "not_found"),
        (drf_errors.NotFound(), "not_found"),
        (drf_errors.ParseError(), "invalid_request"),
        (drf_errors.ValidationError({"notes": ["x"]}), "invalid_request"),
        (drf_errors.Throttled(wait=3.2), "throttled"),
        (drf_errors.UnsupportedMediaType("text/csv"), "unsupported_media_type"),
        (drf_errors.NotAcceptable(), "not_acceptable"),
        (drf_errors.MethodNotAllowed("PUT"), "method_not_allowed"),
        (django_errors.RequestDataTooBig(), "invalid_request"),
        (django_errors.DisallowedHost(), "invalid_request"),
        (OperationalError(), "database_unavailable"),
        (InterfaceError(), "database_unavailable"),
        (PoolTimeout(), "database_unavailable"),
        (psycopg.OperationalError(), "database_unavailable"),
        (ZeroDivisionError(), "server_fault"),
        (errors.Superseded(receipt_id="r"), "superseded"),
    ],
)
def test_every_exception_has_a_name(exception: Exception, code: str) -> None:
    assert error_for(exception).code == code


def test_waits_are_rounded_up_and_outages_ask_for_a_second() -> None:
    assert error_for(drf_errors.Throttled(wait=3.2)).retry_after == 4
    assert error_for(PoolTimeout()).retry_after == 1


def test_a_fault_is_logged_and_its_text_stays_inside(caplog: pytest.LogCaptureFixture) -> None:
    response = exception_handler(ZeroDivisionError("secret"), {})
    assert response.status_code == 500
    assert b"secret" not in response.content
    assert "a view broke" in caplog.text


@pytest.mark.parametrize(
    ("detail", "fields"),
    [
        ({"notes": ["is blank"]}, {"notes": "is blank"}),
        ({"a": {"b": ["x", "y"]}}, {"a.b": "x y"}),
        ({"list": [{}, {"c": ["z"]}]}, {"list.1.c": "z"}),
        ({"non_field_errors": ["all of it"]}, {"body": "all of it"}),
        (["plain"], {"body": "plain"}),
    ],
)
def test_validation_errors_name_the_field(detail: Any, fields: dict[str, str]) -> None:
    assert error_for(drf_errors.ValidationError(detail)).fields == fields


class TestPages:
    @pytest.mark.parametrize("code", BY_CODE)
    def test_every_type_can_be_looked_up(self, code: str) -> None:
        response = Client(headers={"host": "localhost"}).get(f"/api/v1/problems/{code}")
        assert response.json()["problems"][0]["code"] == code

    def test_people_get_a_page(self) -> None:
        client = Client(headers={"host": "localhost", "accept": "text/html,*/*;q=0.8"})
        for address in ("/api/v1/problems", "/api/v1/problems/fill_failed"):
            assert "argument fill failed" in client.get(address).content.decode()

    def test_no_such_code(self) -> None:
        response = Client(headers={"host": "localhost"}).get("/api/v1/problems/nope")
        assert (response.status_code, response.json()["code"]) == (404, "not_found")
