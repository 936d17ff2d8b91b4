"""`/v1/messages` and `/v1/match`: messages are published, shown, retracted, or only tried."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from nearcast.engine import Engine
from nearcast.engine.outcome import EventOutcome
from nearcast.events import LateBody, Message, Publish, Reached, Retract, message_from_json
from nearcast.events.ids import new_id
from nearcast.server.backend import accepted, stamp
from nearcast.server.bodies import (
    JSON,
    NDJSON,
    encode,
    json_body,
    json_object,
    json_response,
    media_type,
    size_of,
    whole_body,
)
from nearcast.server.bulk import take_lines
from nearcast.server.checks import check_fields
from nearcast.server.describe import IDEMPOTENCY_KEY, MESSAGE_ID, describe
from nearcast.server.idempotency import SavedResponse, act
from nearcast.server.problems import Problem
from nearcast.server.routes import RequestContext, Routes
from nearcast.server.schemas import ref

routes = Routes()


def read_publish(fields: dict[str, Any], context: RequestContext) -> Publish:
    """Build the event from the fields of a body."""
    check_fields(fields, context.state.config)
    if fields.get("id") is None:
        fields["id"] = new_id("m")
    return Publish(message_from_json(fields))


@routes.add(
    "POST",
    "/v1/messages",
    "publish",
    describe(
        "messages",
        200,
        "The id and the number of updates; of lines, what became of them.",
        content={JSON: {"schema": {"oneOf": [ref("Published"), ref("Bulk")]}}},
        body="NewMessage",
        lines="NewMessage",
        parameters=(IDEMPOTENCY_KEY,),
        problems=(409, 507),
    ),
)
async def publish(context: RequestContext) -> Response:
    """Publish a message.

    One with the same id that is active or in the window is replaced. Send many at once as lines of
    JSON.
    """
    if media_type(context.request, JSON, NDJSON) == NDJSON:
        return await take_lines(context, "publish")
    body = await whole_body(context.request, context.caller.body_bytes)
    context.caller.pay()
    event = read_publish(json_object(body), context)

    def respond(outcomes: Sequence[EventOutcome]) -> SavedResponse:
        updates = len(accepted(outcomes[0]).updates)
        return SavedResponse(200, encode({"id": event.message.id, "updates": updates}))

    return await act(context, body, [event], respond)


@routes.add(
    "GET",
    "/v1/messages/{id}",
    "subscribe",
    describe(
        "messages",
        200,
        "The message.",
        answer="Message",
        parameters=(MESSAGE_ID,),
        problems=(404,),
    ),
)
async def show_message(context: RequestContext) -> Response:
    """Show a message that is active, in the window, or in the log of updates."""
    context.caller.pay()
    id, now = context.path_id(), context.state.config.clock()
    backend = context.tenant.backend
    message: Message | None = await backend.ask(lambda engine: engine.message(id))
    body: LateBody | None
    if message is not None and not has_ended(message, now):
        body = LateBody(message, message.at or 0.0)
    else:
        body = await asyncio.to_thread(backend.log.body, id)
    if body is None:
        raise Problem(
            404,
            "unknown-message",
            f"there is no message {id!r}: it is neither active nor in the window, and no update "
            "of the log is about it",
        )
    return json_response({"id": id} | body.fields)


def has_ended(message: Message, now: float) -> bool:
    """Whether it has ended by the clock; the engine learns of that with its next event."""
    return message.ttl > 0 and (message.at or 0.0) + message.ttl <= now


@routes.add(
    "DELETE",
    "/v1/messages/{id}",
    "publish",
    describe(
        "messages",
        200,
        "It has ended; how many updates that caused.",
        answer="Published",
        parameters=(MESSAGE_ID,),
        problems=(404, 507),
    ),
)
async def retract(context: RequestContext) -> Response:
    """Retract a message that is active or in the window, before its time."""
    context.caller.pay()
    id = context.path_id()
    outcome = accepted((await context.tenant.backend.apply([Retract(id)]))[0])
    return json_response({"id": id, "updates": len(outcome.updates)})


@routes.add(
    "POST",
    "/v1/match",
    "subscribe",
    describe(
        "messages",
        200,
        "Those that it would reach, with the scores of those that rank.",
        answer="Matches",
        body="NewMessage",
        problems=(409,),
    ),
)
async def match(context: RequestContext) -> Response:
    """Try a message: show which subscriptions it would reach now.

    Nothing is stored, and no update is sent.
    """
    fields = await json_body(context.request, context.caller.body_bytes)
    context.caller.pay()
    event, clock = read_publish(fields, context), context.state.config.clock()

    def read(engine: Engine) -> list[Reached]:
        stamp([[event]], engine.now, clock)
        return engine.match(event.message)

    size = size_of(context.request)
    reached: list[Reached] = await context.tenant.backend.ask(read, size=size)
    return json_response({"matches": [_reached(each) for each in reached]})


def _reached(each: Reached) -> dict[str, Any]:
    fields: dict[str, Any] = {"subscription": each.subscription}
    return fields if each.score is None else fields | {"score": each.score}
