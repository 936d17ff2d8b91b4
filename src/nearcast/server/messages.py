"""`/v1/messages`: publishing of messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from nearcast.engine.outcome import EventOutcome
from nearcast.events import Publish, message_from_json
from nearcast.events.ids import new_id
from nearcast.server.backend import accepted
from nearcast.server.bodies import JSON, NDJSON, encode, json_object, media_type, whole_body
from nearcast.server.bulk import take_lines
from nearcast.server.checks import check_fields
from nearcast.server.describe import IDEMPOTENCY_KEY, describe
from nearcast.server.idempotency import SavedResponse, act
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

    Send many at once as lines of JSON.
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
