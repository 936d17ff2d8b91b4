"""`/v1/map`: requests that only the live map makes.

A map cannot draw a million outlines. It asks for the number of subscriptions in view and their
density, and for the few that an update has just reached.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from starlette.responses import Response

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast.events.values import check_id
from nearcast.geo import WORLD, Box
from nearcast.server.bodies import JSON, box_parameter, json_response
from nearcast.server.describe import BBOX, describe, parameter
from nearcast.server.live import place_of
from nearcast.server.routes import RequestContext, Routes
from nearcast.server.schemas import Schema, ref
from nearcast.server.shapes import subscription_to_json
from nearcast.server.tenants import Tenant

routes = Routes()

COLUMNS = 48
"""About how many cells lie side by side in a box."""
MOST_IDS = 100
_FINEST = 24  # cells of two metres
_SMALL_GRID = 1 << 20
_FRESH_S = 2.0  # a map that is dragged asks often
_FRESH_S_PER_MILLION = 10.0  # reading a million boxes takes the writer about 40 ms


class _CachedBoxes:
    """The boxes of a tenant's subscriptions, read again when they are too old."""

    def __init__(self) -> None:
        self.boxes: Floats = np.empty((0, 4))
        self.until = -1.0
        self.lock = asyncio.Lock()

    async def get(self, tenant: Tenant) -> Floats:
        async with self.lock:
            if monotonic() >= self.until:
                self.boxes = await tenant.backend.ask(lambda engine: engine.boxes())
                million = len(self.boxes) / 1e6
                self.until = monotonic() + _FRESH_S + million * _FRESH_S_PER_MILLION
        return self.boxes


_kept: WeakKeyDictionary[Tenant, _CachedBoxes] = WeakKeyDictionary()


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
    `[longitude, latitude, count]`, the middle of the subscriptions in a cell of `size` degrees.
    It may be a few seconds old.
    """
    context.caller.pay()
    box = box_parameter(context.request) or WORLD
    boxes = await _kept.setdefault(context.tenant, _CachedBoxes()).get(context.tenant)
    return json_response(await asyncio.to_thread(summary, boxes, box))


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
    ids = _ids(context)
    found = await context.tenant.backend.ask(lambda engine: [engine.get(id) for id in ids])
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
    ids = _ids(context)
    found = await context.tenant.backend.ask(lambda engine: [engine.message(id) for id in ids])
    known = [{"id": each.id, **place_of(each)} for each in found if each is not None]
    return json_response({"messages": known})


def _ids(context: RequestContext) -> list[str]:
    context.caller.pay()
    ids = [check_id(id) for id in context.request.query_params.getlist("id")]
    if len(ids) > MOST_IDS:
        raise InvalidValue("id", f"{len(ids)} of them", f"at most {MOST_IDS}")
    return ids


def summary(boxes: Floats, view: Box) -> dict[str, Any]:
    """Count the boxes that meet a view, in all and by the cells of their centres.

    Cells are fixed to the world, so that they stay in place when the map is dragged.

    >>> summary(np.array([[1.0, 1.0, 3.0, 3.0], [50.0, 50.0, 51.0, 51.0]]), Box(0, 0, 10, 10))
    {'count': 1, 'cells': [[2.0, 2.0, 1]], 'size': 0.17578125}
    """
    west, south, east, north = boxes.T
    meets = (north >= view.south) & (south <= view.north)
    if view.west <= view.east:
        width = view.east - view.west
        meets &= (east >= view.west) & (west <= view.east)
    else:
        width = view.east - view.west + 360.0
        meets &= (east >= view.west) | (west <= view.east)
    size = 360.0 / 2 ** min(_FINEST, max(0, round(np.log2(360.0 * COLUMNS / max(width, 1e-9)))))
    seen = boxes[meets]
    lons, lats = (seen[:, 0] + seen[:, 2]) / 2, (seen[:, 1] + seen[:, 3]) / 2
    columns, rows = _whole((lons + 180.0) / size), _whole((lats + 90.0) / size)
    height = int(rows.max(initial=0)) + 1
    key = columns * height + rows
    if int(key.max(initial=0)) < _SMALL_GRID:  # counting is faster than sorting, if it fits
        everywhere = np.bincount(key)
        taken = np.flatnonzero(everywhere)
        counts = everywhere[taken]
        middle_lons = np.bincount(key, lons)[taken] / counts
        middle_lats = np.bincount(key, lats)[taken] / counts
    else:
        _, cell, counts = np.unique(key, return_inverse=True, return_counts=True)
        middle_lons = np.bincount(cell, lons, len(counts)) / counts
        middle_lats = np.bincount(cell, lats, len(counts)) / counts
    cells = [
        [round(lon, 5), round(lat, 5), count]
        for lon, lat, count in zip(
            middle_lons.tolist(), middle_lats.tolist(), counts.tolist(), strict=True
        )
    ]
    return {"count": len(seen), "cells": cells, "size": size}


def _whole(values: Floats) -> npt.NDArray[np.int64]:
    """Round down to cell numbers, counted from the first used cell so that they stay small."""
    cells: npt.NDArray[np.int64] = np.floor(values).astype(np.int64)
    cells -= cells.min(initial=1 << 32)
    return cells
