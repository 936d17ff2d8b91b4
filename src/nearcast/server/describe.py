"""Descriptions of routes for `/openapi.json`."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from nearcast.server.access import ANYONE
from nearcast.server.bodies import JSON, NDJSON
from nearcast.server.problems import MEDIA_TYPE
from nearcast.server.schemas import SCHEMAS, Schema, ref

_ALWAYS = (401, 403, 421, 429, 503)
_WITH_BODY = (400, 413, 415, 422)
_WORDS = {
    400: "The body is not JSON, or the request is not HTTP.",
    401: "No key, or an unknown one.",
    403: "The key does not have the scope, or the web page has another origin.",
    404: "Not found.",
    405: "The path does not support this method.",
    409: "The request conflicts with the current state.",
    413: "The body is too large.",
    415: "The body is of another media type.",
    421: "The Host header names another server.",
    422: "A value is not allowed; `field` names it.",
    429: "The key is over its rate limit; `Retry-After` says when to try again.",
    503: "Not ready yet; `Retry-After` says when to try again.",
    507: "The disk is full or cannot be written.",
}


def parameter(name: str, schema: Schema, text: str, *, where: str = "query") -> Schema:
    """A parameter of a route."""
    return {
        "name": name,
        "in": where,
        "required": where == "path",
        "schema": schema,
        "description": text,
    }


_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def needed(name: str, text: str) -> Schema:
    """An id that must be in the query string."""
    return parameter(name, _ID, text) | {"required": True}


ID = parameter("id", _ID, "The id of the subscription, percent-encoded.", where="path")
MESSAGE_ID = parameter("id", _ID, "The id of the message, percent-encoded.", where="path")
BBOX = parameter(
    "bbox", {"type": "string", "example": "151,-34,152,-33"}, "Only what meets W,S,E,N."
)
SUBSCRIPTIONS = parameter(
    "subscription",
    {"type": "array", "items": _ID},
    "Only updates of these subscriptions; may be repeated.",
)
AFTER = parameter(
    "after",
    {"type": "integer", "minimum": 0, "maximum": 2**63 - 1},
    "Go on after this update; 0 for all that are kept. Without it, from now on.",
)
INCLUDE = parameter(
    "include",
    {"type": "string", "example": "message,meta"},
    "What updates carry besides: `message`, `meta`, both (without it) or nothing (empty).",
)
LAST_EVENT_ID = parameter(
    "Last-Event-ID",
    {"type": "string", "pattern": "^[0-9]{1,18}$"},
    "The same, as browsers send it.",
    where="header",
)
IDEMPOTENCY_KEY = parameter(
    "Idempotency-Key",
    {"type": "string", "pattern": "^[!-~]{1,255}$"},
    "Sent again with the same key within a day, the request has no effect and the same answer.",
    where="header",
)


def limit(most: int) -> Schema:
    """The parameter for the size of a page."""
    return parameter(
        "limit", {"type": "integer", "minimum": 1, "maximum": most}, "How many at most."
    )


def lines_of(name: str) -> Schema:
    """Lines of JSON as a content."""
    return {NDJSON: {"schema": {"type": "string", "description": f"One {name} a line."}}}


def describe(
    tag: str,
    status: int,
    words: str,
    *,
    answer: str | None = None,
    also: dict[int, tuple[str, str]] | None = None,
    content: Schema | None = None,
    body: str | None = None,
    lines: str | None = None,
    parameters: tuple[Schema, ...] = (),
    problems: tuple[int, ...] = (),
) -> dict[str, Any]:
    """Describe an operation: its responses, its body and parameters, and its problems.

    `answer` and `body` name schemas; `also` has further successful responses; `lines` names the
    schema of a line, if the body may also be many lines of JSON.
    """
    responses: dict[str, Any] = {str(status): {"description": words}}
    contents: Schema = {JSON: {"schema": ref(answer)}} if answer else {}
    contents |= content or {}
    if contents:
        responses[str(status)]["content"] = contents
    for other, (text, schema) in (also or {}).items():
        responses[str(other)] = {"description": text, "content": {JSON: {"schema": ref(schema)}}}
    refusals = {*_ALWAYS, *problems, *(_WITH_BODY if body or lines else ())}
    if parameters:
        refusals.add(422)
    for refused in sorted(refusals):
        responses[str(refused)] = {
            "description": _WORDS[refused],
            "content": {MEDIA_TYPE: {"schema": ref("Problem")}},
        }
    operation: dict[str, Any] = {"tags": [tag], "responses": responses}
    if parameters:
        operation["parameters"] = list(parameters)
    if body or lines:
        taken: Schema = {JSON: {"schema": ref(body)}} if body else {}
        if lines:
            taken |= lines_of(lines)
        operation["requestBody"] = {"required": True, "content": taken}
    return operation


def document(app: FastAPI) -> dict[str, Any]:
    """The description of the whole API."""
    if app.openapi_schema is None:
        made = get_openapi(
            title="Nearcast",
            version=app.version,
            summary="Location-aware publish/subscribe.",
            description="Subscriptions, messages and updates. Bodies use the JSON of the event "
            "log, without `op`. Coordinates are longitude, then latitude, in degrees.",
            routes=app.routes,
        )
        components = made.setdefault("components", {})
        components["schemas"] = SCHEMAS
        components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        for path in made["paths"].values():
            for operation in path.values():
                scope = operation.get("x-scope")
                operation["security"] = [{"key": []}, {}] if scope != ANYONE else [{}]
        app.openapi_schema = made
    return app.openapi_schema
