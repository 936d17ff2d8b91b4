"""`/v1/events`: events in the format of the event log."""

from __future__ import annotations

from starlette.responses import Response

from nearcast.server.bodies import NDJSON, choice, media_type
from nearcast.server.bulk import take_lines, take_until_error
from nearcast.server.describe import IDEMPOTENCY_KEY, describe, parameter
from nearcast.server.routes import RequestContext, Routes

routes = Routes()
_ON_ERROR = parameter(
    "on_error",
    {"type": "string", "enum": ["go-on", "stop"]},
    "Whether what comes after a bad line is applied.",
)
_CLOCK = parameter(
    "clock",
    {"type": "string", "enum": ["server", "log"]},
    "Whether an event without a time has the server's, or that of the event before.",
)


@routes.add(
    "POST",
    "/v1/events",
    "publish",
    describe(
        "events",
        200,
        "What became of the lines; `seqs` has the number of each event, null if refused.",
        answer="NumberedBulk",
        lines="event of a log",
        parameters=(_ON_ERROR, _CLOCK, IDEMPOTENCY_KEY),
        problems=(507,),
    ),
)
async def take_events(context: RequestContext) -> Response:
    """Apply events of a log in order: subscribe, move, unsubscribe and publish.

    Needs the scopes `publish` and `subscribe`.
    """
    context.caller.require("subscribe")
    media_type(context.request, NDJSON)
    stamped = choice(context.request, "clock", ("server", "log")) == "server"
    if choice(context.request, "on_error", ("go-on", "stop")) == "stop":
        return await take_until_error(context, stamped=stamped)
    return await take_lines(context, None, numbered=True, stamped=stamped)
