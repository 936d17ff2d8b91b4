"""Problem details (RFC 9457), the bodies of all error responses."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from starlette.responses import Response

from nearcast.errors import (
    InvalidValue,
    KindError,
    MissingField,
    NearcastError,
    PastTimeError,
    QueryError,
    SourceError,
    StateError,
    StoreError,
    UnknownIdError,
    UnknownMessageError,
)

MEDIA_TYPE = "application/problem+json"
_encode = msgspec.json.Encoder().encode


class Problem(Exception):  # noqa: N818 - RFC 9457 calls it a problem
    """An error response; `kind` names it for programs, `more` has further members."""

    def __init__(
        self,
        status: int,
        kind: str,
        detail: str,
        *,
        headers: Mapping[str, str] | None = None,
        **more: object,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more

    def as_json(self) -> dict[str, Any]:
        """The members of the problem document."""
        return {
            "type": f"urn:nearcast:problem:{self.kind}",
            "title": self.kind.replace("-", " ").capitalize(),
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }

    def response(self) -> Response:
        """The HTTP response."""
        return Response(
            _encode(self.as_json()), self.status, headers=self.headers, media_type=MEDIA_TYPE
        )


class QuotaError(NearcastError):
    """Something that was refused because its tenant would be above a quota."""

    def __init__(
        self, detail: str, status: int, quota: str, limit: float, retry_after_s: float | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.quota = quota
        self.limit = limit
        self.retry_after_s = retry_after_s

    def problem(self) -> Problem:
        """The error response: it says which quota, and its limit."""
        wait = self.retry_after_s
        return Problem(
            self.status,
            "quota-exceeded",
            str(self),
            headers=None if wait is None else {"Retry-After": str(int(wait) + 1)},
            quota=self.quota,
            limit=self.limit,
        )


_KINDS: tuple[tuple[type[NearcastError], int, str], ...] = (
    (QueryError, 422, "invalid-query"),
    (MissingField, 422, "missing-field"),
    (InvalidValue, 422, "invalid-value"),
    (UnknownMessageError, 404, "unknown-message"),
    (UnknownIdError, 404, "unknown-subscription"),
    (KindError, 409, "other-kind"),
    (PastTimeError, 409, "past-time"),
    (StateError, 409, "conflict"),
    (SourceError, 507, "storage"),
    (StoreError, 507, "storage"),
    (NearcastError, 503, "unavailable"),
)


def problem_of(error: NearcastError) -> Problem:
    """Translate an error of the package into a problem."""
    if isinstance(error, QuotaError):
        return error.problem()
    status, kind = next((status, kind) for cls, status, kind in _KINDS if isinstance(error, cls))
    more: dict[str, Any] = {}
    if isinstance(error, QueryError):
        more = {"field": error.field, "position": error.position}
    elif isinstance(error, InvalidValue):
        more = {"field": error.field}
    return Problem(status, kind, str(error), **more)


def plain_problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> Problem:
    """A problem whose kind is the phrase of its status."""
    name = HTTPStatus(status).phrase.lower().replace(" ", "-").replace("'", "")
    return Problem(status, name, detail, headers=headers)
