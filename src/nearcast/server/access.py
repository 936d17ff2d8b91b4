"""Authentication of requests, with the scopes and rate limits of their keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from nearcast.pacing import TokenBucket
from nearcast.server.config import Limits
from nearcast.server.keys import SCOPES, KeyStore
from nearcast.server.problems import Problem

ANYONE = "anyone"  # the scope of what needs no key
_RELOAD_S = 1.0


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller; `bucket` is None where the key has no rate limit."""

    name: str
    tenant: str
    scopes: frozenset[str]
    bucket: TokenBucket | None
    body_bytes: int

    def may(self, scope: str) -> bool:
        """Whether this caller has a scope; `admin` includes the others."""
        return scope == ANYONE or scope in self.scopes or "admin" in self.scopes

    def require(self, scope: str) -> None:
        """Raise a problem if this caller lacks a scope."""
        if not self.may(scope):
            has = ", ".join(sorted(self.scopes))
            raise Problem(403, "wrong-scope", f"this needs the scope {scope!r}; your key has {has}")

    def pay(self, events: int = 1) -> None:
        """Count events against the rate limit of the key, or refuse them."""
        if self.bucket is None:
            return
        wait = self.bucket.take(events)
        if wait > 0:
            raise Problem(
                429,
                "too-many-requests",
                f"your key is past its rate; try again in {wait:.1f} s",
                headers={"Retry-After": str(int(wait) + 1)},
            )


class Authenticator:
    """Finds the caller of a request by its key; an open server needs no key."""

    def __init__(
        self,
        keys: KeyStore | None,
        *,
        is_open: bool,
        limits: Limits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._open = is_open
        self._limits = limits
        self._clock = clock
        self._checked = clock()
        self._local = Caller("local", "default", frozenset(SCOPES), None, limits.body_bytes)
        self._anonymous = Caller("anonymous", "default", frozenset(), None, limits.body_bytes)
        self._buckets: dict[tuple[str, float], TokenBucket] = {}

    def admit(self, connection: HTTPConnection, scope: str) -> Caller:
        """Return the caller of a request, or raise a problem if it may not use `scope`."""
        token = _token(connection)
        if token is None:
            if self._open:
                return self._local
            if scope == ANYONE:
                return self._anonymous
            raise Problem(
                401,
                "key-required",
                "no key given; send it as 'Authorization: Bearer KEY'",
                headers={"WWW-Authenticate": "Bearer"},
            )
        caller = self._holder(token)
        caller.require(scope)
        return caller

    def _holder(self, token: str) -> Caller:
        now = self._clock()
        if self._keys is not None and now - self._checked > _RELOAD_S:
            self._checked = now
            self._keys.refresh()
        key = None if self._keys is None else self._keys.find(token)
        if key is None:
            raise Problem(
                401,
                "unknown-key",
                "this key is not known here, or no longer; ask for a new one",
                headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
            )
        bucket = None
        if key.rate is not None:
            bucket = self._buckets.get((key.name, key.rate))
            if bucket is None:
                bucket = self._buckets[key.name, key.rate] = TokenBucket(key.rate, self._clock)
        most = self._limits.body_bytes if key.body_bytes is None else key.body_bytes
        return Caller(key.name, key.tenant, key.scopes, bucket, most)


def _token(connection: HTTPConnection) -> str | None:
    """The key of a request: from its header or, for streams, from the query string.

    Browsers cannot set headers on an EventSource or a WebSocket.
    """
    given = connection.headers.get("authorization")
    if given is not None:
        kind, _, token = given.partition(" ")
        if kind.lower() != "bearer" or not token:
            raise Problem(
                401,
                "unknown-key",
                "authorization: expected 'Bearer KEY'",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return token.strip()
    if connection.url.path in STREAMS:
        return connection.query_params.get("key")
    return None


STREAMS = ("/v1/updates", "/v1/updates/ws", "/v1/live")


def check_origin(connection: HTTPConnection, hosts: frozenset[str], *, is_open: bool) -> None:
    """Refuse an unknown `Host` on a server that asks for no key.

    It stops DNS rebinding: a foreign page whose name resolves to this machine sends that name.
    """
    host = connection.headers.get("host", "")
    if is_open and _name(host) not in hosts:
        raise Problem(
            421,
            "wrong-host",
            f"host: {host!r} is not a name of this server; start it with --allow-host NAME",
        )


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def foreign(headers: Mapping[str, str], origins: frozenset[str]) -> bool:
    """Whether a request comes from a web page of another origin that was not allowed."""
    origin = headers.get("origin")
    if origin is None or origin in origins:
        return False
    return origin.partition("://")[2] != headers.get("host", "")
