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
from nearcast.engine.bodies import found as found_body
from nearcast.engine.bulk import bodies_of_added, decided, named_updates, note
from nearcast.engine.changes import EngineChanges
from nearcast.engine.indexed import Indexed
from nearcast.engine.order import FINE
from nearcast.events import LateBody
from nearcast.events.columns import updates_table
from nearcast.events.fields import UPDATE_OPS
from nearcast.events.reader import MOVE, CheckedEvents
from nearcast.geo.circles import circle_columns

Truths = npt.NDArray[np.bool_]


def move_columns(core: Indexed, given: CheckedEvents, changes: EngineChanges) -> pa.Table | None:
    """Move subscriptions to plain boxes, or to circles."""
    if not given.are_all(MOVE) or core.active.has_odd or core.time_ranks:
        return None
    boxes, circles, radii = given.boxes, None, None
    if not (boxes[:, 0] <= boxes[:, 2]).all():
        if np.isnan(given.circles).any():
            return None
        points, radii = given.circles[:, :2].copy(), given.circles[:, 2].copy()
        boxes, limits, whole = circle_columns(points, radii)
        circles = np.column_stack([points, limits])
    ids = given.ids.to_pylist()
    order = decided(core, MOVE, ids, given.at)
    if (order["verdict"] != FINE).any():
        return None
    now, owners = order["time"].copy(), order["ends"].copy()
    if core.ends_by(float(now[-1])) or core.boolean.asks_more_of(ids):
        return None
    if order["id"][-1] + 1 < len(ids):  # some are moved several times
        owners = core.boolean.owners_of(ids)
    rows, fits = core.boolean.one_row(owners, radii is not None)
    if radii is not None:
        fits &= whole
    # The moves of one subscription depend on each other, so all of them take the same path.
    fits = ~np.isin(owners, owners[~fits]) if not fits.all() else fits
    parts = []
    for start, stop in _without_repeats(owners, fits):
        some = np.arange(start, stop)[fits[start:stop]].astype(np.int32)
        shapes = None if circles is None else circles[some]
        placement = Placement(rows[some], boxes[some], shapes, True)
        parts.append(core.active.moved(placement, some, now))
        core.boolean.shift(placement)
        core.boolean.have_regions(owners[some])
        if radii is not None:
            core.boolean.keep_radii(owners[some], radii[some])
    found = ActiveChanges(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    answer = core.asked_for(named_updates(core, found, ids))
    bodies = bodies_of_added(core, changes, answer)
    if not fits.all():
        slow, others = _one_by_one(core, ids, given, now, ~fits)
        bodies.others |= {(changes.seq + 1 + event, id): body for event, id, body in others}
        answer = pa.concat_tables([answer, slow])
        answer = answer.sort_by([("event", "ascending"), ("message", "ascending")])
    core.pass_time(float(now[-1]), len(ids))
    changes.moved += ids
    note(core, changes, now, answer, bodies)
    return answer


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
    core: Indexed, ids: list[str], given: CheckedEvents, now: Floats, which: Truths
) -> tuple[pa.Table, list[tuple[int, str, LateBody]]]:
    """Move some subscriptions one by one, each at its own time; also the bodies they gain."""
    events, ops, subscriptions, messages = [], [], [], []
    bodies: list[tuple[int, str, LateBody]] = []
    for row in np.flatnonzero(which).tolist():
        for update in core.move_at(ids[row], given.region(row), float(now[row])):
            events.append(row)
            ops.append(UPDATE_OPS.index(update.op))
            subscriptions.append(update.subscription)
            messages.append(update.message)
            if update.op == "add" and (body := found_body(core, update.message)) is not None:
                bodies.append((row, update.message, body))
    return updates_table(events, np.array(ops, np.int8), subscriptions, messages), bodies
