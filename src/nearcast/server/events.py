"""`/v1/events`: a part of an event log, as it is."""

from __future__ import annotations

from starlette.responses import Response

from nearcast.server.bodies import NDJSON, media_type
from nearcast.server.bulk import stop_wanted, take_lines, take_until_error
from nearcast.server.describe import IDEMPOTENCY_KEY, describe, parameter
from nearcast.server.routes import Routes, Visit

routes = Routes()
_ON_ERROR = parameter(
    "on_error",
    {"type": "string", "enum": ["go-on", "stop"]},
    "Whether what comes after a bad line is applied.",
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
        parameters=(_ON_ERROR, IDEMPOTENCY_KEY),
        problems=(507,),
    ),
)
async def take_events(visit: Visit) -> Response:
    """Apply events of a log in order: subscribe, move, unsubscribe and publish.

    Needs the scopes `publish` and `subscribe`. An event without a time has the server's.
    """
    visit.caller.require("subscribe")
    media_type(visit.request, NDJSON)
    if stop_wanted(visit):
        return await take_until_error(visit)
    return await take_lines(visit, None, numbered=True)
