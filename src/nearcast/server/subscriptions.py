"""`/v1/subscriptions`: subscriptions and their current results."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from nearcast.engine import Engine
from nearcast.engine.directory import PagePart
from nearcast.engine.outcome import EventOutcome
from nearcast.errors import InvalidValue
from nearcast.events import Move, Subscribe, Subscription, Unsubscribe, event_from_json
from nearcast.events.bodies import body_of
from nearcast.events.fields import MOVE, SUBSCRIBE, fields_of
from nearcast.events.ids import new_id
from nearcast.events.values import check_id
from nearcast.geo import Box
from nearcast.server.backend import accepted
from nearcast.server.bodies import (
    JSON,
    NDJSON,
    box_parameter,
    encode,
    json_body,
    json_object,
    json_response,
    media_type,
    size_of,
    wants_lines,
    whole_body,
    whole_number,
)
from nearcast.server.bulk import take_lines
from nearcast.server.checks import check_fields
from nearcast.server.describe import (
    BBOX,
    ID,
    IDEMPOTENCY_KEY,
    describe,
    limit,
    lines_of,
    parameter,
)
from nearcast.server.idempotency import Respond, SavedResponse, act
from nearcast.server.problems import Problem
from nearcast.server.routes import RequestContext, Routes
from nearcast.server.shapes import subscription_to_json
from nearcast.server.sse import SseResponse

routes = Routes()
AFTER_ID = parameter(
    "after", {"type": "string"}, "Only ids after this one, such as `next` of the page before."
)
_NOT_MOVED = {field.name for field in fields_of(SUBSCRIBE)} - {
    field.name for field in fields_of(MOVE)
}


def read_subscribe(fields: dict[str, Any], context: RequestContext) -> Subscribe:
    """Build the event from the fields of a body."""
    check_fields(fields, context.state.config)
    if fields.get("id") is None:
        fields["id"] = new_id("s")
    event = event_from_json(fields | {"op": "subscribe"})
    assert isinstance(event, Subscribe)  # noqa: S101 - by its op
    return event


@routes.add(
    "POST",
    "/v1/subscriptions",
    "subscribe",
    describe(
        "subscriptions",
        201,
        "The subscription, and how many updates it caused.",
        answer="ChangedSubscription",
        also={200: ("What became of the lines.", "Bulk")},
        body="NewSubscription",
        lines="NewSubscription",
        parameters=(IDEMPOTENCY_KEY,),
        problems=(409, 507),
    ),
)
async def subscribe(context: RequestContext) -> Response:
    """Subscribe.

    With an id in use the subscription is replaced. Send many at once as lines of JSON.
    """
    if media_type(context.request, JSON, NDJSON) == NDJSON:
        return await take_lines(context, "subscribe")
    body = await whole_body(context.request, context.caller.body_bytes)
    context.caller.pay()
    event = read_subscribe(json_object(body), context)
    return await act(context, body, [event], _made(event, 201))


def _made(event: Subscribe, status: int) -> Respond:
    def respond(outcomes: Sequence[EventOutcome]) -> SavedResponse:
        updates = len(accepted(outcomes[0]).updates)
        fields = subscription_to_json(event.subscription) | {"updates": updates}
        where = f"/v1/subscriptions/{quoted(event.subscription.id)}"
        return SavedResponse(status, encode(fields), where)

    return respond


def quoted(id: str) -> str:
    """An id as a part of a path."""
    return quote(id, safe="")


@routes.add(
    "GET",
    "/v1/subscriptions",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "A page, or all of them as lines.",
        answer="Page",
        content=lines_of("Subscription"),
        parameters=(limit(1000), AFTER_ID, BBOX),
    ),
)
async def list_subscriptions(context: RequestContext) -> Response:
    """List subscriptions in the order of their ids, a page at a time.

    As `application/x-ndjson` all of them come in one answer, a line each.
    """
    context.caller.pay()
    box = box_parameter(context.request)
    most = whole_number(context.request, "limit", 100, 1, context.limits.page)
    given = context.request.query_params.get("after")
    after = check_id(given, "after") if given else None  # the first page is after nothing
    if wants_lines(context.request):
        pieces = _all_lines(context, after, box)
        return SseResponse(pieces, context.state.config.stalled_s, media_type=NDJSON)
    found = await _page(context, after, most + 1, box)
    page, more = found[:most], len(found) > most
    answer: dict[str, Any] = {"subscriptions": [subscription_to_json(each) for each in page]}
    answer["next"] = page[-1].id if more else None
    return json_response(answer)


async def _page(
    context: RequestContext, after: str | None, most: int, box: Box | None
) -> list[Subscription]:
    """A page, read in parts: the writer turns to others in between."""
    found: list[Subscription] = []
    part = PagePart([], after, False)
    while not part.is_last and len(found) < most:
        left, now = most - len(found), _now(context)
        read = partial(_living_part, after=part.after, limit=left, bbox=box, now=now)
        part = await context.tenant.backend.ask(read)
        found += part.found
    return found


async def _all_lines(
    context: RequestContext, after: str | None, box: Box | None
) -> AsyncGenerator[bytes, None]:
    most = context.limits.page
    while True:
        page = await _page(context, after, most, box)
        yield b"".join(encode(subscription_to_json(each)) + b"\n" for each in page)
        if len(page) < most:
            return
        after = page[-1].id


def _now(context: RequestContext) -> float:
    return context.state.config.clock()


def living(engine: Engine, id: str, now: float) -> Subscription | None:
    """A subscription that has not ended by the clock; the engine learns of the time by events."""
    return engine.get(id) if engine.lives(id, now) else None


def _living_part(
    engine: Engine, after: str | None, limit: int, bbox: Box | None, now: float
) -> PagePart:
    """A part of a page, without subscriptions that have ended by the clock."""
    part = engine.page_part(after, limit, bbox)
    return part._replace(found=[each for each in part.found if engine.lives(each.id, now)])


async def _found(context: RequestContext) -> Subscription:
    id = context.path_id()
    found = await context.tenant.backend.ask(partial(living, id=id, now=_now(context)))
    if found is None:
        raise Problem(404, "unknown-subscription", f"there is no subscription {id!r}")
    return found


@routes.add(
    "GET",
    "/v1/subscriptions/{id}/results",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "The messages.",
        answer="Results",
        parameters=(ID,),
        problems=(404,),
    ),
)
async def show_results(context: RequestContext) -> Response:
    """Show the current results of a subscription: active messages, or the k best."""
    context.caller.pay()
    id = context.path_id()
    await _found(context)
    now = context.state.config.clock()

    def read(engine: Any) -> list[dict[str, Any]]:
        return results_of(engine, id, now)

    return json_response({"results": await context.tenant.backend.ask(read)})


def results_of(engine: Any, id: str, now: float) -> list[dict[str, Any]]:
    """The results with their messages, without active messages that have ended by `now`.

    The engine only learns of the time with its next event, so it may still hold them.
    """
    ranked = engine.get(id).top is not None
    results = []
    for result in engine.results(id):
        fields: dict[str, Any] = {"message": result.message}
        if result.score is not None:
            fields["score"] = result.score
        message = engine.message(result.message)
        if message is not None:
            ends = (message.at or 0.0) + message.ttl
            if ends <= now and (message.ttl or not ranked):
                continue
            fields |= body_of(message, message.at or 0.0)
        results.append(fields)
    return results


@routes.add(
    "GET",
    "/v1/subscriptions/{id}",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "The subscription.",
        answer="Subscription",
        parameters=(ID,),
        problems=(404,),
    ),
)
async def show_subscription(context: RequestContext) -> Response:
    """Show one subscription."""
    context.caller.pay()
    return json_response(subscription_to_json(await _found(context)))


@routes.add(
    "PUT",
    "/v1/subscriptions/{id}",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "It was replaced.",
        answer="ChangedSubscription",
        also={201: ("It was made.", "ChangedSubscription")},
        body="NewSubscription",
        parameters=(ID,),
        problems=(409, 507),
    ),
)
async def put_subscription(context: RequestContext) -> Response:
    """Create or replace a subscription; repeating the request changes nothing."""
    fields = await json_body(context.request, context.caller.body_bytes)
    context.caller.pay()
    id = context.path_id()
    if fields.get("id") not in (None, id):
        raise InvalidValue("id", fields["id"], f"{id!r} as in the path, or none")
    event = read_subscribe(fields | {"id": id}, context)
    backend, size = context.tenant.backend, size_of(context.request)
    there = await backend.ask(partial(living, id=id, now=_now(context)), size=size)
    respond = _made(event, 201 if there is None else 200)
    return respond(await backend.apply([event], size=size)).response()


@routes.add(
    "PATCH",
    "/v1/subscriptions/{id}",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "It was moved.",
        answer="ChangedSubscription",
        body="Move",
        parameters=(ID,),
        problems=(404, 409, 507),
    ),
)
async def move_subscription(context: RequestContext) -> Response:
    """Move a subscription to another region, or a top-k one to another point, or both.

    With `ttl` it ends that many seconds from now; otherwise its end stays as it is.
    """
    fields = await json_body(context.request, context.caller.body_bytes)
    context.caller.pay()
    id = context.path_id()
    check_fields(fields, context.state.config)
    for name in sorted(_NOT_MOVED):
        if fields.get(name) is not None:
            expected = "region, point and ttl only; PUT changes the rest"
            raise InvalidValue(name, fields[name], expected)
    event = event_from_json(fields | {"op": "move", "id": id})
    assert isinstance(event, Move)  # noqa: S101 - by its op
    size = size_of(context.request)
    outcome = accepted((await context.tenant.backend.apply([event], size=size))[0])
    found = await context.tenant.backend.ask(lambda engine: engine.get(id))
    if found is None:  # it was moved, and has been ended since
        known = {name: fields[name] for name in ("region", "point") if fields.get(name)}
    else:
        known = subscription_to_json(found)
    return json_response(known | {"id": id, "updates": len(outcome.updates)})


@routes.add(
    "DELETE",
    "/v1/subscriptions/{id}",
    "subscribe",
    describe("subscriptions", 204, "It is gone.", parameters=(ID,), problems=(404, 507)),
)
async def unsubscribe(context: RequestContext) -> Response:
    """End a subscription."""
    context.caller.pay()
    accepted((await context.tenant.backend.apply([Unsubscribe(context.path_id())]))[0])
    return Response(status_code=204)
