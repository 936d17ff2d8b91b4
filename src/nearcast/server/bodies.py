"""Reading and checking of request bodies and query parameters, within their limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from nearcast.errors import InvalidValue
from nearcast.events.sized import decode_sized
from nearcast.geo import Box
from nearcast.server.problems import Problem

JSON = "application/json"
NDJSON = "application/x-ndjson"
_SIZE = "nearcast.body_size"
encode = msgspec.json.Encoder().encode


def has_body(request: Request) -> bool:
    """Whether something follows the headers of a request."""
    headers = request.headers
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


def media_type(request: Request, *allowed: str) -> str:
    """Return the media type of a body, or raise a problem if it is not allowed."""
    given = request.headers.get("content-type", "")
    name = given.partition(";")[0].strip().lower()
    if name not in allowed:
        raise Problem(
            415,
            "unsupported-media-type",
            f"content-type: {given!r} given; expected {' or '.join(allowed)}",
        )
    return name


async def whole_body(request: Request, most: int) -> bytes:
    """Read a whole body of at most `most` bytes."""
    length = request.headers.get("content-length", "0")
    if not length.isdigit() or len(length) > 19 or int(length) > most:
        raise too_large(most)
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most:
            raise too_large(most)
    request.scope[_SIZE] = len(body)
    return bytes(body)


def size_of(request: Request) -> int:
    """How many bytes the body has that was read of a request as a whole."""
    return int(request.scope.get(_SIZE, 0))


def too_large(most: int) -> Problem:
    """The problem of a body that is too large."""
    return Problem(
        413, "body-too-large", f"the body is larger than {most:,} bytes; send several", limit=most
    )


def json_object(data: bytes) -> dict[str, Any]:
    """Decode a JSON object, or raise a problem that says what is wrong with it."""
    try:
        value = decode_sized(data)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, "malformed-json", f"the body is not JSON: {reason}") from None
    if not isinstance(value, dict):
        raise Problem(422, "invalid-value", "the body is not a JSON object", field="body")
    return value


async def json_body(request: Request, most: int) -> dict[str, Any]:
    """Read a body that is one JSON object."""
    media_type(request, JSON)
    return json_object(await whole_body(request, most))


def json_response(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Answer with JSON."""
    return Response(encode(value), status, headers=headers, media_type=JSON)


def wants_lines(request: Request) -> bool:
    """Whether the client asks for one JSON value a line."""
    return NDJSON in request.headers.get("accept", "")


def whole_number(request: Request, name: str, default: int, low: int, high: int) -> int:
    """Read a whole number from the query string."""
    given = request.query_params.get(name)
    expected = f"a whole number from {low} to {high}"
    return default if given is None else checked_number(name, given, low, high, expected)


def checked_number(name: str, given: str, low: int, high: int, expected: str) -> int:
    """Read a whole number of at most 19 digits: longer ones do not fit anywhere."""
    if not (given.isascii() and given.isdigit() and len(given) <= 19 and low <= int(given) <= high):
        raise InvalidValue(name, given[:100], expected)
    return int(given)


def choice(request: Request, name: str, known: tuple[str, ...]) -> str:
    """Read one of the known words from the query string; the first is the default."""
    given = request.query_params.get(name, known[0])
    if given not in known:
        raise InvalidValue(name, given, f"one of {', '.join(known)}")
    return given


def box_parameter(request: Request) -> Box | None:
    """Read `bbox=W,S,E,N` from the query string."""
    given = request.query_params.get("bbox")
    if given is None:
        return None
    try:
        edges = [float(part) for part in given.split(",")]
    except ValueError:
        edges = []
    if len(edges) != 4:
        raise InvalidValue("bbox", given, "W,S,E,N in degrees")
    return Box(*edges)
