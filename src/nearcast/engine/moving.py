"""The fast path of `move_table`: many moves at once.

Moves of different subscriptions do not depend on each other. Subscriptions of one row, a plain
box or a circle, are moved together, others one by one. If anything is not valid, it changes
nothing and returns None, and the caller goes row by row.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.active import ActiveChanges
from nearcast.arrays.types import Floats, Int32s
from nearcast.engine.active import Placement
from nearcast.engine.bulk import (
    ambiguous,
    ids_of,
    named_updates,
    note,
    numbers_of,
    plain_boxes,
    regions_of,
    times_of,
    used,
)
from nearcast.engine.changes import EngineChanges
from nearcast.engine.indexed import Indexed
from nearcast.events.columns import UPDATE_SCHEMA, updates_table
from nearcast.events.fields import UPDATE_OPS
from nearcast.geo import Box, Circle, Region
from nearcast.geo.circles import circle_columns

Truths = npt.NDArray[np.bool_]


def move_columns(core: Indexed, table: pa.Table, changes: EngineChanges) -> pa.Table | None:
    """Move subscriptions to plain boxes, or to circles."""
    if ambiguous(table) or used(table, "point") or core.active.has_split or core.time_ranks:
        return None
    ids, now = ids_of(table, repeated=True), times_of(table, core)
    if ids is None or now is None:
        return None
    owners = core.boolean.owners_of(ids)
    if owners is None:
        return None
    if not len(owners):
        return UPDATE_SCHEMA.empty_table()
    radii = None
    boxes = plain_boxes(table)
    if boxes is None:
        given = _circles(table)
        if given is None:
            return None
        points, radii = given
        boxes, limits, whole = circle_columns(points, radii)
        circles = np.column_stack([points, limits])
    rows, fits = core.boolean.one_row(owners, radii is not None)
    if radii is not None:
        fits &= whole
    # The moves of one subscription depend on each other, so all of them take the same path.
    fits = ~np.isin(owners, owners[~fits]) if not fits.all() else fits
    parts = []
    for start, stop in _without_repeats(owners, fits):
        some = np.arange(start, stop)[fits[start:stop]].astype(np.int32)
        shapes = None if radii is None else circles[some]
        placement = Placement(rows[some], boxes[some], shapes, True)
        parts.append(core.active.moved(placement, some, now))
        core.boolean.shift(placement)
        if radii is not None:
            core.boolean.keep_radii(owners[some], radii[some])
    found = ActiveChanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    answer = named_updates(core, found, ids)
    if not fits.all():
        slow = _one_by_one(core, ids, boxes, None if radii is None else (points, radii), now, ~fits)
        answer = pa.concat_tables([answer, slow])
        answer = answer.sort_by([("event", "ascending"), ("message", "ascending")])
    core.pass_time(float(now[-1]), len(ids))
    changes.moved += ids
    note(core, changes, now, answer)
    return answer


def _circles(table: pa.Table) -> tuple[Floats, Floats] | None:
    """The centres and radii of the regions, if all are valid circles."""
    column = regions_of(table, "Circle", "center", "radius")
    if column is None:
        return None
    points = numbers_of(pa.chunked_array([column.field("center")]), 2)
    radius = column.field("radius")
    if points is None or radius.null_count or not pa.types.is_floating(radius.type):
        return None
    radii: Floats = radius.to_numpy(zero_copy_only=False).astype(np.float64)
    if not (np.abs(points) <= (180.0, 90.0)).all() or not np.isfinite(radii).all():
        return None
    return (points, radii) if (radii >= 0).all() else None


def _without_repeats(owners: Int32s, fits: Truths) -> list[tuple[int, int]]:
    """Cut the rows into parts in which each subscription occurs at most once."""
    if len(np.unique(owners)) == len(owners):
        return [(0, len(owners))]
    parts, start = [], 0
    seen: set[int] = set()
    for row, (owner, fit) in enumerate(zip(owners.tolist(), fits.tolist(), strict=True)):
        if fit and owner in seen:
            parts.append((start, row))
            start = row
            seen.clear()
        seen.add(owner)
    return [*parts, (start, len(owners))]


def _one_by_one(
    core: Indexed,
    ids: list[str],
    boxes: Floats,
    circles: tuple[Floats, Floats] | None,
    now: Floats,
    which: Truths,
) -> pa.Table:
    """Move some subscriptions one by one, each at its own time."""
    events, ops, subscriptions, messages = [], [], [], []
    for row in np.flatnonzero(which).tolist():
        region: Region
        if circles is None:
            region = Box(*boxes[row].tolist())
        else:
            lon, lat = circles[0][row].tolist()
            region = Circle((lon, lat), float(circles[1][row]))
        for update in core.move_at(ids[row], region, float(now[row])):
            events.append(row)
            ops.append(UPDATE_OPS.index(update.op))
            subscriptions.append(update.subscription)
            messages.append(update.message)
    return updates_table(events, np.array(ops, np.int8), subscriptions, messages)
