"""The fast paths of `publish_table`, `subscribe_table` and `apply_all`, on whole columns.

Each handles only what needs no look at single rows: new subscriptions, messages at points. For
anything else it changes nothing and returns None, and the caller goes row by row.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.active import ActiveChanges, MessageTerms
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.active import ActiveColumns
from nearcast.engine.bodies import earlier_bodies, metas_of
from nearcast.engine.changes import Boxes, EngineChanges, PublishedColumns
from nearcast.engine.column_bodies import ColumnBodies
from nearcast.engine.comparing import sort_within
from nearcast.engine.indexed import Indexed
from nearcast.engine.leaving import LeavingMessages
from nearcast.engine.loading import NewSubscriptions
from nearcast.engine.matching import BooleanSubscription
from nearcast.engine.naming import take_strings
from nearcast.engine.order import (
    FINE,
    NO_OWNER,
    REFUSED,
    Rows,
    decide,
    error_of,
    new_clock,
    new_rows,
    nothing_known,
)
from nearcast.engine.ranked_updates import ranked_updates
from nearcast.engine.subscriptions import IndexedSubscriptions
from nearcast.engine.terms import TextBatch
from nearcast.engine.window import Columns
from nearcast.errors import NearcastError
from nearcast.events import LateBody, Subscription
from nearcast.events.columns import UPDATE_SCHEMA, updates_table
from nearcast.events.fields import ADD
from nearcast.events.reader import RANGE, RANKED, SUBSCRIBE, CheckedEvents
from nearcast.geo.region_columns import ABSENT, BOX
from nearcast.index import Matches
from nearcast.text import EVERYTHING, parse_query
from nearcast.text.columns import buffers, may_have_syntax

FEW = 2000
"""Fewer messages than this are not worth a second thread."""
_NO_OWNERS: Int32s = np.empty(0, np.int32)


def decided(
    core: Indexed,
    kind: int,
    ids: list[str],
    at: Floats,
    ttl: Floats | None = None,
    flawed: npt.NDArray[np.bool_] | None = None,
    *,
    apart: bool = False,
) -> Rows:
    """Decide what events of one kind will do, without any effect; see `order`.

    With `apart` whatever has the same id does not matter.
    """
    rows, names = new_rows(kind, at, ttl), ids
    if not apart and len(set(ids)) < len(ids):
        numbers = {id: number for number, id in enumerate(dict.fromkeys(ids))}
        rows["id"], names = [numbers[id] for id in ids], list(numbers)
    if flawed is not None:
        rows["flawed"] = flawed
    known, clock = nothing_known(len(names)), new_clock(core.settings.window, core.now)
    if kind > RANGE:
        if core.boolean.has_any(names):
            known["owner"] = core.boolean.owners_of(names)
        if core.has_rankings:
            known["ranked"] = [id in core.ranked for id in names]
            known["owner"][known["ranked"]] = 0  # any number will do
    else:
        clock["first"] = clock["next"] = clock["base"] = core.ranked.next
        # Whatever is in the window still uses its id, however many have come since and ended.
        clock["count"] = 2**62
        if not apart and core.uses_any(names):
            for number, id in enumerate(names):
                known["until"][number] = core.active.end_of(id)
                if (latest := core.ranked.latest(id)) is not None:
                    known["number"][number], known["since"][number] = latest
    decide(rows, known, clock, np.empty(len(ids)), _NO_OWNERS)
    return rows


def refusal(core: Indexed, rows: Rows, messages: PublishedColumns, row: int) -> NearcastError:
    """The error for which a message is refused."""
    if rows["verdict"][row] != REFUSED:
        return error_of(rows[row], messages.ids[row])
    lon, lat = messages.points[row].tolist()
    try:
        core.settings.check_inside((lon, lat))
    except NearcastError as error:
        return error
    raise AssertionError("a message is flawed only if it is outside the space")


def subscribe_columns(
    core: Indexed, given: CheckedEvents, changes: EngineChanges
) -> pa.Table | None:
    """Add new subscriptions, all of them top-k ones or none."""
    kind = int(given.kinds[0])
    if not given.are_all(kind):
        return None
    if kind == RANKED:
        return _subscribe_ranked(core, given, changes)
    if kind != SUBSCRIBE:
        return None
    now = _times_of_new(core, given)
    ends = {row: one.ttl for row, one in given.attributes.items() if one.ttl is not None}
    if now is None or any(now[row] + ttl <= now[-1] for row, ttl in ends.items()):
        return None
    if core.active.has_odd or core.time_ranks:
        return None
    population, active = core.boolean, len(core.active) > 0
    new = NewSubscriptions(given.ids, given.queries, given.shapes)
    if active and not _is_plain(new):
        return None  # what they find among active messages depends on more than rows
    owners, left = population.put_columns(new)
    rest = np.flatnonzero(left).tolist()
    try:
        parsed = [interest_of(core, given, row) for row in rest]
    except NearcastError:
        population.drop_owners(owners[~left])
        return None  # the slow path reports the error, and what is before it takes effect
    for interest in parsed:
        population.put(interest)
    if rest:
        owners[rest] = population.owners_of([one.subscription.id for one in parsed])
    found = ActiveChanges(_NO_OWNERS, _NO_OWNERS, np.empty(0, np.int8))
    if active:
        places = population.owners.columns.row[owners]
        found = core.active.wanted_by_rows(places, np.arange(len(places), dtype=np.int32), now)
    for row, subscription in given.attributes.items():
        core.attributes.put(subscription, float(now[row]) + ends[row] if row in ends else None)
    updates = core.asked_for(named_updates(core, found, given.ids))
    bodies = bodies_of_added(core, changes, updates)
    core.pass_time(float(now[-1]), len(given))
    if (
        len(rest)
        or given.attributes
        or given.queries.null_count
        or not (given.shapes.kinds == BOX).all()
    ):
        changes.added.append(given.ids)
    else:
        changes.boxes.append(Boxes(given.ids, given.queries, given.boxes))
    note(core, changes, now, updates, bodies)
    return updates


def _times_of_new(core: Indexed, given: CheckedEvents) -> Floats | None:
    """The times of new subscriptions; None if one replaces another, ends one, or is too late."""
    rows = new_rows(SUBSCRIBE, given.at, None)
    clock = new_clock(core.settings.window, core.now)
    decide(rows, nothing_known(len(given)), clock, np.empty(len(given)), _NO_OWNERS)
    now: Floats = rows["time"].copy()
    if (rows["verdict"] != FINE).any() or core.ends_by(float(now[-1])):
        return None
    if not core.boolean.owners.are_new(buffers(given.ids)):
        return None
    if core.has_rankings and any(id in core.ranked for id in given.ids.to_pylist()):
        return None
    return now


def _is_plain(new: NewSubscriptions) -> bool:
    """Whether all are plain words in plain boxes, each one row that says all."""
    boxes = new.regions.boxes
    plain = bool((new.regions.kinds == BOX).all() and (boxes[:, 0] <= boxes[:, 2]).all())
    return plain and not new.queries.null_count and not may_have_syntax(new.queries).any()


def interest_of(core: Indexed, given: CheckedEvents, row: int) -> BooleanSubscription:
    """A subscription of a table, parsed."""
    query = given.queries[row].as_py()
    region = None if given.shapes.kinds[row] == ABSENT else given.region(row)
    parsed = EVERYTHING if query is None else parse_query(query, core.settings.analyser)
    return BooleanSubscription(Subscription(given.ids[row].as_py(), query, region), parsed)


def note(
    core: Indexed, changes: EngineChanges, now: Floats, updates: pa.Table, bodies: ColumnBodies
) -> None:
    """Record events at these times, with all their updates."""
    changes.add_table(changes.seq + 1, now, updates, bodies, metas_of(core, updates))
    changes.seq += len(now)
    changes.now = core.now


def bodies_of_added(core: Indexed, changes: EngineChanges, updates: pa.Table) -> ColumnBodies:
    """The bodies of active messages that subscriptions gain, before the time of the events."""
    added = updates.filter(pc.equal(updates["op"], "add"))
    events, ids = added["event"].to_pylist(), added["message"].to_pylist()
    return ColumnBodies(others=earlier_bodies(core, changes.seq + 1, events, ids))


def named_updates(core: Indexed, found: ActiveChanges, ids: list[str] | pa.StringArray) -> pa.Table:
    """Put what happened to subscriptions, of which event i is about `ids[i]`, into columns."""
    some, place = np.unique(found.slots, return_inverse=True)
    names = pa.array(core.active.names(some), pa.string())
    rank = np.empty(len(some), np.int64)
    rank[pc.sort_indices(names).to_numpy()] = np.arange(len(some))
    order = np.lexsort((rank[place], found.events))
    events = found.events[order]
    about = pa.array(ids, pa.string()) if isinstance(ids, list) else ids.cast(pa.string())
    subscriptions = about.take(pa.array(events))
    return updates_table(
        events, found.ops[order], subscriptions, names.take(pa.array(place[order]))
    )


def _subscribe_ranked(
    core: Indexed, given: CheckedEvents, changes: EngineChanges
) -> pa.Table | None:
    """Add new top-k subscriptions, at a time when nothing expires."""
    ids = given.ids.to_pylist()
    rows = decided(core, RANKED, ids, given.at, None, core.settings.outside(given.points))
    if (rows["verdict"] != FINE).any() or (rows["ends"] != NO_OWNER).any():
        return None
    now = rows["time"].copy()
    if core.ends_by(float(now[-1])):
        return None
    if core.settings.window.count is None and not (now == core.now).all():
        return None
    if may_have_syntax(given.queries).any():
        return None
    k, alpha = given.tops[:, 0].astype(np.int32), given.tops[:, 1].copy()
    first = core.ranked.put_columns(ids, given.queries, given.points, alpha, k)
    if first is None:
        return None
    core.advance(float(now[-1]))
    updates = ranked_updates(core.ranked, first)
    core.ranked.changes()
    changes.subscriptions.update((id, core.subscription(id)) for id in ids)
    note(core, changes, now, updates, bodies_of_added(core, changes, updates))
    return updates


def publish_messages(core: Indexed, messages: PublishedColumns, changes: EngineChanges) -> pa.Table:
    """Match messages at points that were decided to be in order, and replace none."""
    _, ids, texts, points, now, ttl, carried = messages
    if not len(ids):
        return UPDATE_SCHEMA.empty_table()
    population = core.boolean
    threads = (os.cpu_count() or 1) if len(ids) >= FEW else 1
    boxes = np.hstack([points, points])
    batch = None if ttl is None else keep_active(core, messages, boxes, ttl)
    if batch is None or not population.operands.is_plain:
        matches = population.match(population.read(texts, carried), boxes, threads)
    else:
        matches = population.match(batch, boxes, threads)
    analyser = core.settings.analyser
    leaving = core.ranked.leaving_soon(len(ids), float(now[-1]))
    moved = core.pass_through(
        Columns(ids, texts, points, now.tolist(), analyser, ttl, carried=carried)
    )
    core.pass_time(float(now[-1]), len(ids))
    updates = core.asked_for(_updates(population, matches, pa.array(ids, pa.string())))
    messages, others = messages._replace(seq=changes.seq + 1), {}
    if moved is not None:
        ranked = core.asked_for(ranked_updates(core.ranked, moved))
        others = _brought_up(core, messages, ranked, leaving)
        core.ranked.changes()  # nothing more: all that expired had left before the last message
        updates = _together(updates, ranked)
    changes.messages.append(messages)
    note(core, changes, now, updates, ColumnBodies(messages, events_in(updates), others))
    return updates


def events_in(updates: pa.Table) -> Int64s:
    """The events that have updates, which are in their order."""
    events = updates["event"].to_numpy()
    once: Int64s = events[np.flatnonzero(np.diff(events, prepend=-1))]
    return once


def _brought_up(
    core: Indexed, messages: PublishedColumns, ranked: pa.Table, leaving: LeavingMessages | None
) -> dict[tuple[int, str], LateBody]:
    """The bodies of messages that others brought up again by leaving the window."""
    own = pa.array(messages.ids, pa.string()).take(pa.array(ranked["event"].to_numpy()))
    again = pc.and_(pc.equal(ranked["op"], "add"), pc.not_equal(ranked["message"], own))
    some = ranked.filter(again)
    if not len(some):
        return {}
    rows: dict[str, list[int]] = {}
    for row, id in enumerate(messages.ids):
        rows.setdefault(id, []).append(row)
    left = {} if leaving is None else leaving.rows()
    bodies: dict[tuple[int, str], LateBody] = {}
    for event, id in zip(some["event"].to_pylist(), some["message"].to_pylist(), strict=True):
        before = [row for row in rows.get(id, ()) if row <= event]
        if before:
            message = messages.message(before[-1])
            bodies[messages.seq + event, id] = LateBody(message, message.at or 0.0)
        elif leaving is not None and id in left:
            bodies[messages.seq + event, id] = leaving.body(left[id])
        else:
            bodies |= earlier_bodies(core, messages.seq, [event], [id])
    return bodies


def bring_back(core: Indexed, messages: PublishedColumns, in_window: bool) -> None:
    """Add messages at points that were published before and have not ended, without updates."""
    _, ids, texts, points, now, ttl, carried = messages
    if ttl is not None:
        keep_active(core, messages, np.hstack([points, points]), ttl)
    if in_window:
        analyser, at = core.settings.analyser, now.tolist()
        core.pass_through(Columns(ids, texts, points, at, analyser, ttl, carried=carried))
    else:
        core.pass_by(len(ids))


def keep_active(
    core: Indexed,
    messages: PublishedColumns,
    boxes: Floats,
    ttl: Floats,
    latest: npt.NDArray[np.bool_] | None = None,
) -> TextBatch | None:
    """Store the active messages; return the terms of all messages if all are active.

    With `latest` only those among them that no other one replaces.
    """
    _, ids, texts, _, now, _, carried = messages
    lasts = now + ttl > now
    which = np.flatnonzero(lasts if latest is None else lasts & latest)
    if not len(which):
        return None
    kept = texts.take(pa.array(which))
    batch = core.boolean.terms.read(kept, lend=True)
    arrivals = ActiveColumns(
        [ids[row] for row in which.tolist()], kept.to_pylist(), MessageTerms(*batch),
        boxes[which], now[which], ttl[which], core.numbers_ahead(which),
        None if carried is None else carried.take(which),
    )  # fmt: skip
    core.active.add_columns(arrivals)
    return batch if len(which) == len(ids) else None


def _together(one: pa.Table, other: pa.Table) -> pa.Table:
    """Put the updates of both kinds of subscriptions in order."""
    if not len(one) or not len(other):
        return one if len(one) else other
    keys = [("event", "ascending"), ("subscription", "ascending"), ("message", "ascending")]
    return pa.concat_tables([one, other]).sort_by(keys)


def _updates(population: IndexedSubscriptions, matches: Matches, ids: pa.StringArray) -> pa.Table:
    """Name the pairs, in the order in which single calls would report them."""
    names, rank = population.names_in_order(matches.owners)
    ranks = rank[matches.owners]
    sort_within(matches.messages, ranks)
    messages = np.ascontiguousarray(matches.messages)
    return updates_table(messages, ADD, take_strings(names, ranks), take_strings(ids, messages))
