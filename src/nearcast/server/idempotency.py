"""Responses to requests that change something, stored under their idempotency keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256

import msgspec
from starlette.responses import Response

from nearcast.engine.outcome import EventOutcome
from nearcast.errors import InvalidValue, NearcastError
from nearcast.events import Event
from nearcast.server.bodies import JSON
from nearcast.server.problems import Problem
from nearcast.server.routes import RequestContext

_LONGEST_KEY = 255


class SavedResponse(msgspec.Struct, array_like=True):
    """A successful response: its status, its body, and the `Location` of what was created."""

    status: int
    body: bytes
    location: str | None = None
    request: bytes = b""  # a hash of the request body

    def response(self) -> Response:
        """The HTTP response."""
        headers = None if self.location is None else {"Location": self.location}
        return Response(self.body, self.status, headers=headers, media_type=JSON)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SavedResponse).decode
Respond = Callable[[Sequence[EventOutcome]], SavedResponse]


async def act(
    context: RequestContext,
    body: bytes,
    events: Sequence[Event],
    respond: Respond,
    *,
    stop: bool = False,
    stamped: bool = True,
    cost: int | None = None,
) -> Response:
    """Apply events and respond; a repeated idempotency key gets the stored response.

    `respond` raises the error of a refused event. Such a request changed nothing and is not
    stored.
    """
    key, size = context.request.headers.get("idempotency-key"), len(body)
    if key is None:
        backend = context.tenant.backend
        outcomes = await backend.apply(events, stop=stop, stamped=stamped, cost=cost, size=size)
        return respond(outcomes).response()
    if not (0 < len(key) <= _LONGEST_KEY and key.isprintable()):
        raise InvalidValue("Idempotency-Key", key, f"1 to {_LONGEST_KEY} printable characters")
    fingerprint = sha256(body).digest()

    def remember(outcomes: Sequence[EventOutcome]) -> bytes | None:
        try:
            answer = respond(outcomes)
        except NearcastError:
            return None
        answer.request = fingerprint
        return _encode(answer)

    path = context.request.scope["path"]
    found = await context.tenant.backend.apply_once(
        f"{path} {key}", events, remember, stop=stop, stamped=stamped, cost=cost, size=size
    )
    if not isinstance(found, bytes):
        return respond(found).response()
    kept = _decode(found)
    if kept.request != fingerprint:
        raise Problem(
            422,
            "idempotency-key-reused",
            "Idempotency-Key: it was used for another request; take a new one for each",
            field="Idempotency-Key",
        )
    return kept.response()
