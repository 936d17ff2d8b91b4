"""Authentication of requests, with the scopes and rate limits of their keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from nearcast.pacing import TokenBucket
from nearcast.server.config import Limits
from nearcast.server.keys import DEFAULT, SCOPES, KeyStore
from nearcast.server.problems import Problem
from nearcast.server.quotas import QuotaRegistry, TenantQuotas

ANYONE = "anyone"  # the scope of what needs no key
_RELOAD_S = 1.0


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller; `bucket` is None where the key has no rate limit.

    `quotas` are those of its tenant. `token` is the key it came with, if any.
    """

    name: str
    tenant: str
    scopes: frozenset[str]
    bucket: TokenBucket | None
    body_bytes: int
    quotas: TenantQuotas
    token: str | None = field(default=None, repr=False)

    def may(self, scope: str) -> bool:
        """Whether this caller has a scope; `admin` includes the others."""
        return scope == ANYONE or scope in self.scopes or "admin" in self.scopes

    def require(self, scope: str) -> None:
        """Raise a problem if this caller lacks a scope."""
        if not self.may(scope):
            has = ", ".join(sorted(self.scopes))
            raise Problem(403, "wrong-scope", f"this needs the scope {scope!r}; your key has {has}")

    def require_default(self) -> None:
        """Raise a problem if this caller belongs to another tenant than `default`."""
        if self.tenant != DEFAULT:
            raise Problem(403, "wrong-tenant", "this is for admins of the tenant 'default'")

    def pay(self, events: int = 1) -> None:
        """Count events against the rates of the key and of its tenant, or refuse them."""
        shared = self.quotas.bucket
        wait = 0.0 if self.bucket is None else self.bucket.wait(events)
        if wait > 0:
            raise Problem(
                429,
                "too-many-requests",
                f"your key is past its rate; try again in {wait:.1f} s",
                headers={"Retry-After": str(int(wait) + 1)},
            )
        wait = 0.0 if shared is None else shared.wait(events)
        if wait > 0:
            raise self.quotas.refuse("events", wait)
        self._spend(events)

    async def pace(self, events: int) -> None:
        """Count events, whatever the rates, and wait until they are kept to again."""
        self._spend(events)
        buckets = (self.bucket, self.quotas.bucket)
        await asyncio.sleep(max(0.0 if each is None else each.debt() for each in buckets))

    def _spend(self, events: int) -> None:
        for bucket in (self.bucket, self.quotas.bucket):
            if bucket is not None:
                bucket.spend(events)


class Authenticator:
    """Finds the caller of a request by its key; an open server needs no key."""

    def __init__(
        self,
        keys: KeyStore | None,
        *,
        is_open: bool,
        limits: Limits,
        quotas: QuotaRegistry,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._keys = keys
        self._open = is_open
        self._limits = limits
        self._quotas = quotas
        self._clock = clock
        self._checked = clock()
        most, default = limits.body_bytes, quotas.of(DEFAULT)
        self._local = Caller("local", DEFAULT, frozenset(SCOPES), None, most, default)
        self._anonymous = Caller("anonymous", DEFAULT, frozenset(), None, most, default)
        self._buckets: dict[tuple[str, float], TokenBucket] = {}
        self._streams: dict[object, tuple[Caller, Callable[[], None]]] = {}

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

    def confirm(self, caller: Caller) -> None:
        """Raise a problem if the key of a caller was removed or changed since it was admitted."""
        if caller.token is not None:
            now = self._holder(caller.token)
            if (now.tenant, now.scopes) != (caller.tenant, caller.scopes):
                raise _unknown_key()

    @contextmanager
    def watching(self, caller: Caller, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` if the key of a caller stops working while the block runs."""
        stream = object()
        self._streams[stream] = (caller, end)
        try:
            yield
        finally:
            self._streams.pop(stream, None)

    def end_revoked(self) -> None:
        """End the streams whose keys no longer work; called now and then."""
        checked: dict[Caller, bool] = {}  # thousands of streams may have one key
        for stream, (caller, end) in list(self._streams.items()):
            if caller not in checked:
                checked[caller] = self._is_valid(caller)
            if not checked[caller]:
                self._streams.pop(stream, None)
                end()

    def _is_valid(self, caller: Caller) -> bool:
        try:
            self.confirm(caller)
        except Problem:
            return False
        return True

    def _holder(self, token: str) -> Caller:
        now = self._clock()
        if self._keys is not None and now - self._checked > _RELOAD_S:
            self._checked = now
            self._keys.refresh()
        key = None if self._keys is None else self._keys.find(token)
        if key is None:
            raise _unknown_key()
        bucket = None
        if key.rate is not None:
            bucket = self._buckets.get((key.name, key.rate))
            if bucket is None:
                bucket = self._buckets[key.name, key.rate] = TokenBucket(key.rate, self._clock)
        most = self._limits.body_bytes if key.body_bytes is None else key.body_bytes
        quotas = self._quotas.of(key.tenant)
        return Caller(key.name, key.tenant, key.scopes, bucket, most, quotas, token)


def _unknown_key() -> Problem:
    return Problem(
        401,
        "unknown-key",
        "this key is not known here, or no longer; ask for a new one",
        headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
    )


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


def check_origin(
    connection: HTTPConnection,
    hosts: frozenset[str],
    origins: frozenset[str],
    *,
    is_open: bool,
) -> None:
    """Refuse requests that a web page of others makes with the rights of the person who reads it.

    On a server that asks for no key, every page in a browser of this machine could use the API.
    An unknown `Host` means DNS rebinding: the name of a foreign page leads here. A foreign
    `Origin`, or a request across sites that changes something, comes from another page. With
    keys only WebSockets are checked: a page cannot send a key that it does not have.
    """
    if is_open:
        host = connection.headers.get("host", "")
        if _name(host) not in hosts:
            raise Problem(
                421,
                "wrong-host",
                f"host: {host!r} is not a name of this server; start it with --allow-host NAME",
            )
    if (is_open or connection.scope["type"] == "websocket") and _foreign(connection, origins):
        raise Problem(
            403,
            "foreign-origin",
            "origin: web pages of others may not do this; start the server with --allow-origin",
        )


def _name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _foreign(connection: HTTPConnection, origins: frozenset[str]) -> bool:
    """Whether a request comes from a web page of another origin that was not allowed."""
    headers = connection.headers
    origin = headers.get("origin")
    if origin is not None:
        return origin not in origins and origin.partition("://")[2] != headers.get("host", "")
    if connection.scope.get("method") in _SAFE:
        return False  # a link or a picture: it changes nothing, and the page cannot read it
    return headers.get("sec-fetch-site", "none") not in ("none", "same-origin")


_SAFE = ("GET", "HEAD", "OPTIONS")
