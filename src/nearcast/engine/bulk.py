"""The fast paths of `publish_table`, `subscribe_table` and `apply_all`, on whole columns.

Each handles only what needs no look at single rows: new subscriptions of plain words and plain
boxes, messages at points. For anything else it changes nothing and returns None, and the caller
goes row by row, which also reports errors.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast._jit import kernel
from nearcast.active import ActiveChanges, MessageTerms
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.types import Floats, Int32s
from nearcast.engine.active import ActiveColumns
from nearcast.engine.changes import Boxes, EngineChanges, PublishedColumns
from nearcast.engine.indexed import Indexed, IndexedSubscriptions
from nearcast.engine.ranked_updates import ranked_updates
from nearcast.engine.terms import TextBatch
from nearcast.engine.window import Columns
from nearcast.events.columns import UPDATE_SCHEMA, updates_table
from nearcast.events.fields import ADD
from nearcast.events.values import LARGEST_K, LONGEST_ID
from nearcast.geo import WORLD
from nearcast.index import Matches

_MAYBE_SYNTAX = r"[()]|AND|OR|NOT"
_FEW = 2000  # messages that are not worth a second thread


def subscribe_columns(core: Indexed, table: pa.Table, changes: EngineChanges) -> pa.Table | None:
    """Add new subscriptions of plain words and plain boxes, or top-k ones."""
    if ambiguous(table):
        return None
    if used(table, "top", "point"):
        return _subscribe_ranked(core, table, changes)
    if core.active.has_split or core.time_ranks:
        return None
    ids, queries = ids_of(table), _strings(table, "query")
    boxes = plain_boxes(table)
    now = times_of(table, core)
    if ids is None or queries is None or boxes is None or now is None:
        return None
    if core.knows_any(ids):
        return None
    added = put_boxes(core.boolean, ids, queries, boxes)
    if added is None:
        return None
    wanted, rows = added
    if not len(rows):
        return UPDATE_SCHEMA.empty_table()
    found = core.active.wanted_by_rows(rows, np.arange(len(rows), dtype=np.int32), now)
    updates = named_updates(core, found, ids)
    core.pass_time(float(now[-1]), len(rows))
    changes.boxes.append(Boxes(ids, wanted, boxes))
    note(core, changes, now, updates)
    return updates


def note(core: Indexed, changes: EngineChanges, now: Floats, updates: pa.Table) -> None:
    """Record events at these times, with all their updates."""
    changes.add_table(changes.seq + 1, now, updates)
    changes.seq += len(now)
    changes.now = core.now


def put_boxes(
    population: IndexedSubscriptions, ids: list[str], queries: pa.StringArray, boxes: Floats
) -> tuple[list[str], Int32s] | None:
    """Add new subscriptions of plain words and one plain box; return their queries and rows."""
    if pc.any(pc.match_substring_regex(queries, _MAYBE_SYNTAX)).as_py():
        return None
    texts = population.terms.read(queries, intern=True)
    if (np.diff(texts.starts) == 0).any():
        return None  # only stop words: the slow path reports the error
    wanted: list[str] = queries.to_pylist()
    return wanted, population.put_boxes(ids, wanted, texts, boxes)


def named_updates(core: Indexed, found: ActiveChanges, ids: list[str]) -> pa.Table:
    """Put what happened to subscriptions, of which event i is about `ids[i]`, into columns."""
    some, place = np.unique(found.slots, return_inverse=True)
    names = pa.array(core.active.names(some), pa.string())
    rank = np.empty(len(some), np.int64)
    rank[pc.sort_indices(names).to_numpy()] = np.arange(len(some))
    order = np.lexsort((rank[place], found.events))
    events = found.events[order]
    subscriptions = pa.array(ids, pa.string()).take(pa.array(events))
    return updates_table(
        events, found.ops[order], subscriptions, names.take(pa.array(place[order]))
    )


def _subscribe_ranked(core: Indexed, table: pa.Table, changes: EngineChanges) -> pa.Table | None:
    """Add new top-k subscriptions, at a time when nothing expires."""
    ids, queries, points = ids_of(table), _strings(table, "query"), _points(table)
    tops, now = _tops(table), times_of(table, core)
    if ids is None or queries is None or points is None or tops is None or now is None:
        return None
    if used(table, "region") or core.knows_any(ids) or not _inside(core, points):
        return None
    if core.settings.window.count is None and not (now == core.now).all():
        return None
    if pc.any(pc.match_substring_regex(queries, _MAYBE_SYNTAX)).as_py():
        return None
    first = core.ranked.put_columns(ids, queries, points, *tops)
    if first is None:
        return None
    if len(now):
        core.advance(float(now[-1]))
    updates = ranked_updates(core.ranked, first)
    core.ranked.changes()
    changes.subscriptions.update((id, core.subscription(id)) for id in ids)
    note(core, changes, now, updates)
    return updates


def publish_columns(core: Indexed, table: pa.Table, changes: EngineChanges) -> pa.Table | None:
    """Match messages at points against a population with an index."""
    if ambiguous(table) or not core.takes_columns or used(table, "region"):
        return None
    ids, texts, points = ids_of(table), _strings(table, "text"), _points(table)
    now, ttl = times_of(table, core), _lives(table)
    if ids is None or texts is None or points is None or now is None or ttl is None:
        return None
    if core.uses_any(ids):
        return None
    lives = ttl if ttl.any() else None
    return publish_messages(core, PublishedColumns(0, ids, texts, points, now, lives), changes)


def publish_messages(
    core: Indexed, messages: PublishedColumns, changes: EngineChanges
) -> pa.Table | None:
    """Match messages at points, with times that grow and ids that are not in use."""
    _, ids, texts, points, now, ttl = messages
    if not _inside(core, points):
        return None
    if not len(ids):
        return UPDATE_SCHEMA.empty_table()
    population = core.boolean
    threads = (os.cpu_count() or 1) if len(ids) >= _FEW else 1
    boxes = np.hstack([points, points])
    batch = None if ttl is None else _keep(core, messages, boxes, ttl)
    if batch is None:
        batch = population.terms.read(texts)
    matches = population.match(batch, boxes, threads)
    analyser = core.settings.analyser
    moved = core.pass_through(Columns(ids, texts, points, now.tolist(), analyser, ttl))
    core.pass_time(float(now[-1]), len(ids))
    updates = _updates(population, matches, pa.array(ids, pa.string()))
    if moved is not None:
        ranked = ranked_updates(core.ranked, moved)
        core.ranked.changes()  # nothing more: all that expired had left before the last message
        updates = _together(updates, ranked)
    changes.messages.append(messages._replace(seq=changes.seq + 1))
    note(core, changes, now, updates)
    return updates


def _keep(
    core: Indexed, messages: PublishedColumns, boxes: Floats, ttl: Floats
) -> TextBatch | None:
    """Store the active messages; return the terms of all messages if all are active."""
    _, ids, texts, _, now, _ = messages
    which = np.flatnonzero(now + ttl > now)
    if not len(which):
        return None
    kept = texts.take(pa.array(which))
    batch = core.boolean.terms.read(kept, lend=True)
    arrivals = ActiveColumns(
        [ids[row] for row in which.tolist()], kept.to_pylist(), MessageTerms(*batch),
        boxes[which], now[which], ttl[which], core.numbers_ahead(which),
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
    _sort_within(matches.messages, ranks)
    return updates_table(
        matches.messages, ADD, names.take(pa.array(ranks)), ids.take(pa.array(matches.messages))
    )


@kernel
def _sort_within(messages: Int32s, ranks: Int32s) -> None:
    """Sort the ranks of each message."""
    start = 0
    for stop in range(1, len(messages) + 1):
        if stop == len(messages) or messages[stop] != messages[start]:
            sort(ranks, start, stop)
            start = stop


def used(table: pa.Table, *names: str) -> bool:
    """Whether any of these columns holds anything."""
    return any(name in table.column_names and table[name].null_count < len(table) for name in names)


def ambiguous(table: pa.Table) -> bool:
    """Whether several columns have the same name."""
    return bool(len(set(table.column_names)) < table.num_columns)


def _lives(table: pa.Table) -> Floats | None:
    """The `ttl` of each message, if all are valid."""
    if not used(table, "ttl"):
        return np.zeros(len(table))
    column = table["ttl"]
    if not _is_number(column.type):
        return None
    ttl: Floats = pc.fill_null(column, 0).to_numpy().astype(np.float64)
    return ttl if np.isfinite(ttl).all() and (ttl >= 0).all() else None


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_floating(kind) or pa.types.is_integer(kind))


def is_string(kind: pa.DataType) -> bool:
    """Whether a column of this type holds strings."""
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _strings(table: pa.Table, name: str) -> pa.StringArray | None:
    """A column of strings as one array, if it has no nulls and is UTF-8 as it says."""
    if name not in table.column_names:
        return None
    column = table[name]
    if column.null_count or not is_string(column.type):
        return None
    if column.num_chunks > 1:
        column = column.cast(pa.large_string())  # together they may exceed what 32 bits count
    strings = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        return None
    return strings


def ids_of(table: pa.Table, *, repeated: bool = False) -> list[str] | None:
    """The ids, if all are valid and, unless they may be repeated, no two the same."""
    column = _strings(table, "id")
    if column is None:
        return None
    sizes = pc.binary_length(column)
    if len(column) and not (pc.min(sizes).as_py() >= 1 and pc.max(sizes).as_py() <= LONGEST_ID):
        return None
    ids: list[str] = column.to_pylist()
    return ids if repeated or len(set(ids)) == len(ids) else None


def numbers_of(column: pa.ChunkedArray, width: int) -> Floats | None:
    """A column of lists of `width` numbers as an array."""
    kind = column.type
    if not (
        pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    ):
        return None
    if column.null_count or not pa.types.is_floating(kind.value_type):
        return None
    parts: list[npt.NDArray[np.float64]] = []
    for chunk in column.chunks:
        values = chunk.flatten()
        if values.null_count or len(values) != width * len(chunk):
            return None
        if len(chunk) and not pc.all(pc.equal(pc.list_value_length(chunk), width)).as_py():
            return None
        parts.append(values.to_numpy(zero_copy_only=False).reshape(-1, width).astype(np.float64))
    return np.vstack(parts) if parts else np.empty((0, width))


def _points(table: pa.Table) -> Floats | None:
    points = numbers_of(table["point"], 2) if "point" in table.column_names else None
    if points is None or not (np.abs(points) <= (180.0, 90.0)).all():
        return None
    return points


def regions_of(table: pa.Table, kind: str, *wanted: str) -> pa.StructArray | None:
    """The regions, if all are of one kind and the struct has what that needs."""
    if "region" not in table.column_names or not pa.types.is_struct(table["region"].type):
        return None
    column = table["region"].combine_chunks()
    fields = [field.name for field in column.type]
    if column.null_count or any(fields.count(name) != 1 for name in ("type", *wanted)):
        return None
    if not is_string(column.field("type").type):
        return None
    same = pc.fill_null(pc.equal(column.field("type"), kind), False)
    return column if pc.all(same, min_count=0).as_py() else None


def _tops(table: pa.Table) -> tuple[Floats, Int32s] | None:
    """The alphas and ks of top-k subscriptions."""
    if "top" not in table.column_names or not pa.types.is_struct(table["top"].type):
        return None
    column = table["top"].combine_chunks()
    if column.null_count or sorted(field.name for field in column.type) != ["alpha", "k"]:
        return None
    alpha, k = column.field("alpha"), column.field("k")
    if alpha.null_count or k.null_count:
        return None
    if not pa.types.is_floating(alpha.type) or not pa.types.is_integer(k.type):
        return None
    alphas, ks = alpha.to_numpy().astype(np.float64), k.to_numpy().astype(np.int64)
    valid = (alphas >= 0).all() and (alphas <= 1).all() and (ks >= 1).all()
    return (alphas, ks.astype(np.int32)) if valid and (ks <= LARGEST_K).all() else None


def plain_boxes(table: pa.Table) -> Floats | None:
    """The regions, if all are boxes that do not cross the antimeridian."""
    column = regions_of(table, "Box", "bbox")
    if column is None:
        return None
    boxes = numbers_of(pa.chunked_array([column.field("bbox")]), 4)
    if boxes is None or not (np.abs(boxes) <= (180.0, 90.0, 180.0, 90.0)).all():
        return None
    plain = (boxes[:, 0] <= boxes[:, 2]) & (boxes[:, 1] <= boxes[:, 3])
    return boxes if plain.all() else None


def times_of(table: pa.Table, core: Indexed) -> Floats | None:
    """The time of each row, if none is before another."""
    start = 0.0 if core.now is None else core.now
    if not used(table, "at"):
        return np.full(len(table), start)
    column = table["at"]
    if column.null_count or not _is_number(column.type):
        return None
    at: Floats = column.to_numpy().astype(np.float64)
    grows = np.isfinite(at).all() and (np.diff(at) >= 0).all()
    return at if grows and (core.now is None or at[0] >= core.now) else None


def _inside(core: Indexed, points: Floats) -> bool:
    box = core.settings.space
    if box == WORLD:
        return True
    low, high = np.array([box.west, box.south]), np.array([box.east, box.north])
    return bool(((points >= low) & (points <= high)).all())
