"""Whole columns at once: the fast paths of `publish_table` and `subscribe_table`.

Each takes only what it can take without looking at single rows: new subscriptions of plain words
and plain boxes, messages at points. For anything else it gives None, has changed nothing,
and the caller goes row by row, which also finds the words for what is wrong.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast._jit import kernel
from nearcast.engine.indexed import Indexed, IndexedPopulation
from nearcast.engine.terms import TextBatch
from nearcast.engine.window import Columns
from nearcast.geo import WORLD
from nearcast.index import Matches
from nearcast.index.table import Floats, Int32s
from nearcast.lasting import Changes, Texts
from nearcast.model.values import LONGEST_ID

UPDATE_SCHEMA = pa.schema(
    [
        ("event", pa.int64()),
        ("op", pa.string()),
        ("subscription", pa.string()),
        ("message", pa.string()),
        ("score", pa.float64()),
    ]
)

_MAYBE_SYNTAX = r"[()]|AND|OR|NOT"
_FEW = 2000  # messages that are not worth a second thread


def subscribe_columns(core: Indexed, table: pa.Table) -> pa.Table | None:
    """Take in new subscriptions of plain words and plain boxes."""
    population = core.boolean
    if ambiguous(table) or core.has_rankings or used(table, "top", "point"):
        return None
    if core.lasting.has_split:
        return None
    ids, queries = ids_of(table), _strings(table, "query")
    boxes = plain_boxes(table)
    now = times_of(table, core)
    if ids is None or queries is None or boxes is None or now is None:
        return None
    if core.knows_any(ids):
        return None
    if pc.any(pc.match_substring_regex(queries, _MAYBE_SYNTAX)).as_py():
        return None
    texts = population.terms.read(queries, intern=True)
    if (np.diff(texts.starts) == 0).any():
        return None  # nothing but stop words: the slow way has the words for it
    rows = population.put_boxes(ids, queries.to_pylist(), texts, boxes)
    if not len(rows):
        return UPDATE_SCHEMA.empty_table()
    found = core.lasting.wanted_by_rows(rows, np.arange(len(rows), dtype=np.int32), now)
    answer = named_updates(core, found, ids)
    core.pass_time(float(now[-1]), len(rows))
    return answer


def named_updates(core: Indexed, found: Changes, ids: list[str]) -> pa.Table:
    """Put what happened to subscriptions, of which event i is about `ids[i]`, into columns."""
    some, place = np.unique(found.slots, return_inverse=True)
    names = pa.array(core.lasting.names(some), pa.string())
    rank = np.empty(len(some), np.int64)
    rank[pc.sort_indices(names).to_numpy()] = np.arange(len(some))
    order = np.lexsort((rank[place], found.events))
    events = found.events[order]
    columns = [
        pa.array(events.astype(np.int64)),
        pa.array(["", "add", "remove"]).take(pa.array(found.ops[order])),
        pa.array(ids, pa.string()).take(pa.array(events)),
        names.take(pa.array(place[order])),
        pa.nulls(len(order), pa.float64()),
    ]
    return pa.Table.from_arrays(columns, schema=UPDATE_SCHEMA)


def publish_columns(core: Indexed, table: pa.Table) -> pa.Table | None:
    """Match messages at points against a population with an index."""
    population = core.boolean
    if ambiguous(table) or core.has_rankings or core.settings.window.count is None:
        return None
    if used(table, "region"):
        return None
    ids, texts, points = ids_of(table), _strings(table, "text"), _points(table)
    now, ttl = times_of(table, core), _lives(table)
    if ids is None or texts is None or points is None or now is None or ttl is None:
        return None
    if core.uses_any(ids) or not _inside(core, points):
        return None
    if not len(ids):
        return UPDATE_SCHEMA.empty_table()
    threads = (os.cpu_count() or 1) if len(ids) >= _FEW else 1
    boxes, ends = np.hstack([points, points]), now + ttl
    lasting = np.flatnonzero(ends > now)
    batch: TextBatch | None = None
    if len(lasting):
        batch = population.terms.read(texts.take(pa.array(lasting)), lend=True)
        numbers = core.numbers_ahead(lasting)
        core.lasting.add_columns(
            [ids[i] for i in lasting.tolist()], Texts(*batch), boxes[lasting], ends[lasting],
            numbers,
        )  # fmt: skip
    if batch is None or len(lasting) < len(ids):
        batch = population.terms.read(texts)
    matches = population.match(batch, boxes, threads)
    core.pass_time(float(now[-1]), len(ids))
    core.pass_through(Columns(ids, texts, points, now.tolist(), core.settings.analyser))
    return _updates(population, matches, pa.array(ids, pa.string()))


def _updates(population: IndexedPopulation, matches: Matches, ids: pa.StringArray) -> pa.Table:
    """Name the pairs, in the order in which single calls would report them."""
    names, rank = population.names_in_order(matches.owners)
    ranks = rank[matches.owners]
    _sort_within(matches.messages, ranks)
    count = len(ranks)
    columns = [
        pa.array(matches.messages.astype(np.int64)),
        pa.array(["add"]).take(pa.array(np.zeros(count, np.int8))),
        names.take(pa.array(ranks)),
        ids.take(pa.array(matches.messages)),
        pa.nulls(count, pa.float64()),
    ]
    return pa.Table.from_arrays(columns, schema=UPDATE_SCHEMA)


@kernel
def _sort_within(messages: Int32s, ranks: Int32s) -> None:
    """Sort the ranks of each message."""
    start = 0
    for stop in range(1, len(messages) + 1):
        if stop == len(messages) or messages[stop] != messages[start]:
            ranks[start:stop].sort()
            start = stop


def used(table: pa.Table, *names: str) -> bool:
    """Whether any of these columns holds anything."""
    return any(name in table.column_names and table[name].null_count < len(table) for name in names)


def ambiguous(table: pa.Table) -> bool:
    """Whether a name stands over several columns."""
    return bool(len(set(table.column_names)) < table.num_columns)


def _lives(table: pa.Table) -> Floats | None:
    """How long each message lasts, if all of that is valid."""
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
