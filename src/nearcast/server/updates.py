"""`/v1/updates` and `/v1/live`: streams of updates."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable

from starlette.requests import HTTPConnection
from starlette.responses import Response

from nearcast.errors import InvalidValue
from nearcast.events.bodies import EVERYTHING_INCLUDED, Include, read_include
from nearcast.events.values import check_id
from nearcast.geo import Box
from nearcast.server.bodies import NDJSON, box_parameter, checked_number, wants_lines, whole_number
from nearcast.server.config import Limits
from nearcast.server.describe import (
    AFTER,
    BBOX,
    INCLUDE,
    LAST_EVENT_ID,
    SUBSCRIPTIONS,
    describe,
    limit,
    lines_of,
)
from nearcast.server.feed import UpdateFeed, read_some
from nearcast.server.live import live_events
from nearcast.server.routes import RequestContext, Routes
from nearcast.server.sse import SseResponse
from nearcast.server.wire import line_encoder, sse_encoder, sse_gap, sse_place

routes = Routes()
EVENTS = "text/event-stream"
_LARGEST_ID = (1 << 63) - 1


def wanted(connection: HTTPConnection, limits: Limits) -> list[str] | None:
    """The subscriptions that a listener names, or None for all."""
    names = connection.query_params.getlist("subscription")
    if len(names) > limits.listened:
        raise InvalidValue("subscription", f"{len(names)} of them", f"at most {limits.listened}")
    return [check_id(name, "subscription") for name in names] or None


def resume_after(connection: HTTPConnection) -> int | None:
    """The id to resume after: browsers send it as a header when they reconnect."""
    given = connection.headers.get("last-event-id") or connection.query_params.get("after")
    if given is None:
        return None
    expected = "the id of an update, or 0 for all that are kept"
    return checked_number("after", given, 0, _LARGEST_ID, expected)


def included(connection: HTTPConnection) -> Include:
    """What updates carry besides: everything, unless `include` names some of it."""
    given = connection.query_params.get("include")
    return EVERYTHING_INCLUDED if given is None else read_include(given, "include")


@routes.add(
    "GET",
    "/v1/updates",
    "subscribe",
    describe(
        "updates",
        200,
        "A stream without end; as lines, a page of what is kept.",
        content={EVENTS: {"schema": {"type": "string"}}, **lines_of("update")},
        parameters=(SUBSCRIPTIONS, AFTER, LAST_EVENT_ID, INCLUDE, limit(10_000)),
    ),
)
async def listen(context: RequestContext) -> Response:
    """Listen to updates as Server-Sent Events.

    An interrupted stream is resumed with `Last-Event-ID`. An event `gap` says which updates are
    no longer kept. An update that adds or changes a message has it as its `body`, and every update
    has the `meta` of its subscription; `include=` leaves them out.
    """
    context.caller.pay()
    context.tenant.backend.commits.check_settled()
    subscriptions = wanted(context.request, context.limits)
    after, include = resume_after(context.request), included(context.request)
    if wants_lines(context.request):
        return await _lines(context, subscriptions, after or 0, include)
    context.state.check_room(context.tenant)
    feed = UpdateFeed(context.tenant.hub, subscriptions, after, sse_encoder(include), sse_gap)
    pieces = _events(context, feed)
    return SseResponse(pieces, context.state.config.stalled_s)


async def _events(context: RequestContext, feed: UpdateFeed) -> AsyncGenerator[bytes, None]:
    keep_alive_s = context.state.config.keep_alive_s
    try:
        with context.state.authenticator.watching(context.caller, feed.listener.close):
            yield b"retry: 1000\n" + sse_place(feed.place)
            while (found := await feed.next(keep_alive_s)) is not None:
                yield b"".join([data for _, data in found]) or sse_place(feed.place)
    finally:
        feed.close()


async def _lines(
    context: RequestContext, subscriptions: list[str] | None, after: int, include: Include
) -> Response:
    """A page of the log, for clients that poll instead of listening."""
    most = whole_number(context.request, "limit", context.limits.page, 1, 10 * context.limits.page)
    log, last, seq = context.tenant.hub.log, context.tenant.hub.last, context.tenant.seq
    names = None if subscriptions is None else frozenset(subscriptions)
    entries, complete, first = await asyncio.to_thread(read_some, log, after, last, most, names)
    if context.state.may_be_behind():
        complete = max(complete, after)  # which was heard at the other server of the pair
    headers = {
        "Nearcast-First": str(first),  # the first update that is still kept
        "Nearcast-Next": str(complete),  # go on after this one
        "Nearcast-Last": str(last),  # there are none after this one yet
        "Nearcast-Seq": str(seq),  # up to that one they are the updates of all events up to this
    }
    body = b"".join(map(line_encoder(include), entries))
    return Response(body, headers=headers, media_type=NDJSON)


@routes.add(
    "GET",
    "/v1/live",
    "subscribe",
    describe(
        "updates",
        200,
        "A stream without end.",
        content={EVENTS: {"schema": {"type": "string"}}},
        parameters=(BBOX, SUBSCRIPTIONS),
    ),
)
async def look(context: RequestContext) -> Response:
    """Stream the messages, updates and changed subscriptions of a part of the map.

    A busy map is sampled; an event `sampled` says how many events were left out. Updates of the
    named subscriptions are all sent, whether they happen in the box or not.
    """
    context.caller.pay()
    box = box_parameter(context.request)
    names = wanted(context.request, context.limits) or ()
    context.state.check_room(context.tenant)
    return SseResponse(_live(context, box, names), context.state.config.stalled_s)


async def _live(
    context: RequestContext, box: Box | None, names: Iterable[str]
) -> AsyncGenerator[bytes, None]:
    live, state = context.tenant.live, context.state
    listener = live.join(box, names)
    with state.authenticator.watching(context.caller, listener.close):
        async for piece in live_events(live, listener, state.config.keep_alive_s):
            yield piece
