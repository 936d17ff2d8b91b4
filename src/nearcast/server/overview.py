"""`/v1/map`: requests that only the live map makes.

A map cannot draw a million outlines. It asks for the number of subscriptions in view and their
density, and for the few that an update has just reached.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from weakref import WeakKeyDictionary

from starlette.responses import Response

from nearcast.errors import InvalidValue
from nearcast.events.values import check_id
from nearcast.geo import WORLD, Box
from nearcast.server.bodies import JSON, box_parameter, encode, json_response
from nearcast.server.density import Density
from nearcast.server.describe import BBOX, describe, parameter
from nearcast.server.live import place_of
from nearcast.server.messages import has_ended
from nearcast.server.routes import RequestContext, Routes
from nearcast.server.schemas import Schema, ref
from nearcast.server.shapes import subscription_to_json
from nearcast.server.subscriptions import living
from nearcast.server.tenants import Tenant

routes = Routes()

MOST_IDS = 100
_FRESH_S = 2.0  # a map that is dragged asks often
_FRESH_S_PER_MILLION = 10.0  # reading a million boxes takes the writer about 10 ms
_ANSWERS = 64


class _CachedDensity:
    """The density of a tenant's subscriptions, read again when it is too old.

    The writer only copies boxes; everything else is done in other threads. Maps that show the same
    view, such as all that have just been opened, get the same answer.
    """

    def __init__(self) -> None:
        self._density: Density | None = None
        self._until = -1.0
        self._answers: dict[Box, bytes] = {}
        self._lock = asyncio.Lock()

    async def answer(self, tenant: Tenant, view: Box) -> Response:
        async with self._lock:
            if self._density is None or monotonic() >= self._until:
                boxes = await tenant.backend.ask(lambda engine: engine.boxes())
                self._density = await asyncio.to_thread(Density, boxes)
                self._answers.clear()
                self._until = monotonic() + _FRESH_S + len(boxes) / 1e6 * _FRESH_S_PER_MILLION
            density, answers = self._density, self._answers
            if view not in answers:
                if len(answers) >= _ANSWERS:
                    del answers[next(iter(answers))]
                answers[view] = encode(await asyncio.to_thread(density.summary, view))
            return Response(answers[view], media_type=JSON)


_kept: WeakKeyDictionary[Tenant, _CachedDensity] = WeakKeyDictionary()


_IDS = parameter(
    "id",
    {
        "type": "array",
        "items": {"type": "string", "minLength": 1, "maxLength": 255},
        "maxItems": MOST_IDS,
    },
    "Which ones; may be repeated.",
)


def _object(**properties: Schema) -> Schema:
    required = list(properties)
    return {JSON: {"schema": {"type": "object", "properties": properties, "required": required}}}


@routes.add(
    "GET",
    "/v1/map/overview",
    "subscribe",
    describe(
        "map",
        200,
        "How many, and where they are dense.",
        content=_object(
            count={"type": "integer", "minimum": 0},
            cells={"type": "array", "items": {"type": "array", "items": {"type": "number"}}},
            size={"type": "number"},
        ),
        parameters=(BBOX,),
    ),
)
async def overview(context: RequestContext) -> Response:
    """Count the subscriptions that meet a box, in all and by cells.

    `count` is the number whose bounding box meets `bbox`; `cells` is a list of
    `[longitude, latitude, count]`, the middle of the subscriptions in a cell of `size` degrees;
    cells are counted from -180 and -90.
    It may be a few seconds old.
    """
    context.caller.pay()
    box = box_parameter(context.request) or WORLD
    kept = _kept.setdefault(context.tenant, _CachedDensity())
    return await kept.answer(context.tenant, box)


@routes.add(
    "GET",
    "/v1/map/subscriptions",
    "subscribe",
    describe(
        "map",
        200,
        "The known ones.",
        content=_object(subscriptions={"type": "array", "items": ref("Subscription")}),
        parameters=(_IDS,),
    ),
)
async def some_subscriptions(context: RequestContext) -> Response:
    """Show the subscriptions with these ids (`id`, repeated); unknown ones are left out."""
    ids, now = _ids(context), context.state.config.clock()
    found = await context.tenant.backend.ask(lambda engine: [living(engine, id, now) for id in ids])
    known = [subscription_to_json(each) for each in found if each is not None]
    return json_response({"subscriptions": known})


@routes.add(
    "GET",
    "/v1/map/messages",
    "subscribe",
    describe(
        "map",
        200,
        "The ones that are still kept.",
        content=_object(messages={"type": "array", "items": ref("NewMessage")}),
        parameters=(_IDS,),
    ),
)
async def some_messages(context: RequestContext) -> Response:
    """Show the messages with these ids that are active or in the window."""
    ids, now = _ids(context), context.state.config.clock()
    found = await context.tenant.backend.ask(lambda engine: [engine.message(id) for id in ids])
    there = [each for each in found if each is not None and not has_ended(each, now)]
    known = [{"id": each.id, **place_of(each)} for each in there]
    return json_response({"messages": known})


@routes.add(
    "GET",
    "/v1/map/pipeline",
    "subscribe",
    describe(
        "map",
        200,
        "How far it is, or null.",
        content=_object(pipeline={"type": ["object", "null"], "additionalProperties": True}),
    ),
)
async def pipeline(context: RequestContext) -> Response:
    """Show how far the pipeline on Spark is, with its workers and its plan, if there is one.

    `state` is `starting`, `behind` or `level`; `behind_events` and `behind_s` say how far it is
    behind the server. `batch` is the last that was committed, `plan` the one it used, and `workers`
    what each had to do in it and holds.
    """
    context.caller.pay()
    progress = context.tenant.progress
    found = None if progress is None else await asyncio.to_thread(progress.read)
    return json_response({"pipeline": found})


def _ids(context: RequestContext) -> list[str]:
    context.caller.pay()
    ids = [check_id(id) for id in context.request.query_params.getlist("id")]
    if len(ids) > MOST_IDS:
        raise InvalidValue("id", f"{len(ids)} of them", f"at most {MOST_IDS}")
    return ids
