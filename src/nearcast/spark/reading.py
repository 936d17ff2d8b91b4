"""Reads events, checks and parses them, and packs what is left of them: each event by itself.

What an event does depends on those before it, and is decided afterwards (`registrar.py`). Nothing
here does, so the tasks of a job read the slices of a step side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.slots import Secret, Slots, as_secret, hash_with
from nearcast.arrays.types import Floats, Int64s
from nearcast.engine.settings import Settings
from nearcast.events.fields import CARRIED
from nearcast.events.flat import column_of
from nearcast.events.reader import BAD, MOVE, POINT, RANGE, RANKED, SHIFT, SUBSCRIBE
from nearcast.geo import WORLD, Region, region_to_json
from nearcast.partition.prepare import evenly
from nearcast.spark.asking import encoded, mask_of, needs_asking
from nearcast.spark.batch import EventBatch
from nearcast.spark.defining import SimplePlaces, defined
from nearcast.spark.entries import definition_of, messages_columns
from nearcast.spark.io.files import Files
from nearcast.spark.operations import (
    EVERYONE,
    OTHER,
    ROUND,
    completed,
    fixed_lists,
    hash_lists,
)
from nearcast.spark.packed import (
    DEFINED,
    ERRORS,
    LASTING,
    MOVED,
    NAMED,
    PLACES,
    ROWS,
    SAMPLE,
    TEXTS,
    PackedEvents,
    ReadingOptions,
    ReadInput,
)
from nearcast.spark.readers.slices import ALL_COLUMNS, Slice
from nearcast.spark.shaped import hull
from nearcast.spark.topk.reading import ranked_log
from nearcast.spark.workers.messages import messages_of
from nearcast.text.columns import buffers, hash_terms, hash_texts


def read_part(work: ReadInput, task: int) -> None:
    """Read the slices of a task, and write what is left of them."""
    events, seq = read_slices(work.parts[task])
    packed = pack_events(events, seq, work.settings, work.wanted)
    packed.write(Files(work.state), work.name(task))


def read_slices(slices: Sequence[Slice]) -> tuple[pa.Table, Int64s]:
    """Read all columns of some slices."""
    found = [each.read(ALL_COLUMNS) for each in slices]
    return pa.concat_tables([table for table, _ in found]), np.concatenate([s for _, s in found])


def dealt_slices(slices: Sequence[Slice], tasks: int) -> list[list[Slice]]:
    """Divide slices among at most so many tasks, those that follow each other together."""
    count = min(tasks, len(slices))
    edges = np.linspace(0, len(slices), count + 1).round().astype(int)
    return [list(slices[start:stop]) for start, stop in pairwise(edges.tolist())]


def hash_ids(ids: pa.StringArray, secret: Secret) -> Slots:
    """Both hashes of each id, by which it is known."""
    hashes = np.empty((len(ids), 2), np.uint64)
    hash_with(secret, *buffers(ids), hashes)
    return hashes


def pack_events(
    events: pa.Table, seq: Int64s, settings: Settings, wanted: ReadingOptions | None = None
) -> PackedEvents:
    """Read events in the columns of the log."""
    wanted = wanted or ReadingOptions()
    events = events.combine_chunks()
    batch = EventBatch(events, settings)
    checked, kinds = batch.checked, batch.kinds
    good = ~batch.flawed & (kinds != BAD)
    messages = good & (kinds <= RANGE)
    begins = good & ((kinds == SUBSCRIBE) | (kinds == RANKED))
    moves = np.flatnonzero(good & ((kinds == MOVE) | (kinds == SHIFT)))
    named = np.flatnonzero((kinds > RANGE) & (kinds != BAD) & ~begins)
    lasting = np.flatnonzero(messages & (checked.ttl > 0))
    ids = pc.fill_null(checked.ids, "")
    known_by = hash_ids(ids, as_secret(settings.secret))
    hashes = pa.FixedSizeListArray.from_arrays(pa.array(known_by.reshape(-1)), 2)
    columns = [kinds, batch.flawed, hashes, seq, checked.at, checked.ttl]
    boxes = _boxes_of(batch) if wanted.places else np.empty((0, 4))
    places = pa.FixedSizeListArray.from_arrays(pa.array(boxes.reshape(-1)), 4)
    errors = sorted(batch.errors)
    return PackedEvents(
        pa.Table.from_arrays([pa.array(each) for each in columns], schema=ROWS),
        pa.Table.from_arrays([places], schema=PLACES),
        _definitions(batch, begins, settings),
        _moves(batch, moves),
        lasting_messages(batch, lasting, settings),
        texts_of(events, _last(np.flatnonzero(messages), kinds == POINT, wanted.texts)),
        _table({"row": named, "id": checked.ids.take(pa.array(named))}, NAMED),
        _table({"row": errors, "error": [batch.errors[row] for row in errors]}, ERRORS),
        _sampled(events, seq, np.flatnonzero(messages), wanted.sample, settings),
    )


def _table(columns: dict[str, Any], schema: pa.Schema) -> pa.Table:
    return completed(columns, schema, len(columns["row"]))


def _boxes_of(batch: EventBatch) -> Floats:
    """The boxes around messages, by row."""
    boxes: Floats = np.hstack([batch.checked.points] * 2)
    wide = np.flatnonzero(np.isnan(boxes[:, 0]))
    boxes[wide] = batch.checked.boxes[wide]
    return boxes


def _sampled(
    events: pa.Table, seq: Int64s, rows: Int64s, count: int, settings: Settings
) -> pa.Table:
    """Some messages, evenly spread."""
    if not count:
        return SAMPLE.empty_table()
    chosen = np.zeros(len(events), np.bool_)
    chosen[rows[evenly(len(rows), count)]] = True
    found = messages_of(events, seq, chosen, settings).messages
    columns = [fixed_lists(found.boxes), hash_lists(*found.texts)]
    return pa.Table.from_arrays(columns, schema=SAMPLE)


def _last(rows: Int64s, points: Any, count: int | None) -> Int64s:
    """The rows from those on with which the last `count` messages at points begin."""
    if count is None:
        return rows
    at = np.flatnonzero(points[rows])
    return rows[at[-count] :] if len(at) > count else rows


def texts_of(events: pa.Table, rows: Int64s) -> pa.Table:
    """What some messages say, as they come into the window."""
    some = events.select(["id", "text", "point", *CARRIED])
    some = some.take(pa.array(rows)).combine_chunks()
    points = _points(column_of(some, "point"))
    columns = {"row": rows, "lon": points[:, 0], "lat": points[:, 1]}
    return _table(columns | {name: some[name] for name in ("id", "text", *CARRIED)}, TEXTS)


def _points(column: pa.ListArray) -> Floats:
    flat = column.flatten()
    if len(flat) == 2 * len(column) and not column.null_count:
        return np.asarray(flat.to_numpy(), np.float64).reshape(-1, 2)
    from nearcast.events.flat import points_of

    return points_of(column)[0]


def lasting_messages(batch: EventBatch, rows: Int64s, settings: Settings) -> pa.Table:
    """The messages of some rows as they are matched, and as they were given."""
    return _table({"row": rows} | messages_columns(batch, rows, settings), LASTING)


def _definitions(batch: EventBatch, begins: Any, settings: Settings) -> pa.Table:
    """What subscriptions ask for."""
    checked, kinds, secret = batch.checked, batch.kinds, as_secret(settings.secret)
    rows = np.flatnonzero(begins & (kinds == SUBSCRIBE))
    special = np.isin(rows, np.array([*batch.queries], np.int64))
    bulk = np.isin(rows, batch.bulk)
    plain, tops = rows[~special & ~bulk], np.flatnonzero(begins & (kinds == RANKED))
    where = pa.array(plain)
    queries = checked.queries.take(where)
    terms = hash_lists(*hash_texts(queries, settings.analyser, secret))
    columns = {"row": plain, "id": checked.ids.take(where), "query": queries, "terms": terms}
    parts = [_table(columns | _places(batch, plain).columns(), DEFINED)]
    if batch.read is not None:
        where = pa.array(batch.bulk)
        asked = checked.ids.take(where), checked.queries.take(where)
        found = defined(*asked, batch.read, _places(batch, batch.bulk), secret)
        parts.append(_table({"row": batch.bulk} | found, DEFINED))
    if special.any():
        parts.append(_others(batch, rows[special], secret))
    if len(tops):
        ranked = ranked_log(checked, tops, batch.subscriptions)
        parts.append(_table({"row": tops} | ranked, DEFINED))
    found = pa.concat_tables(parts)
    if len(parts) > 1:
        found = found.take(pa.array(np.argsort(found["row"].to_numpy())))
    return _uniform(found)


def _uniform(table: pa.Table) -> pa.Table:
    """Write zeros where lists of a fixed size are null.

    So a log does not depend on how its events were divided among tasks, not in a single byte.
    """
    table = table.combine_chunks()
    for at, field in enumerate(table.schema):
        column = table.column(at)
        if not pa.types.is_fixed_size_list(field.type) or not len(column):
            continue
        column, width = column.chunk(0), field.type.list_size
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        rows = np.zeros((len(column), width))
        rows[valid] = column.flatten().to_numpy().reshape(-1, width)
        fixed = pa.FixedSizeListArray.from_arrays(
            pa.array(rows.reshape(-1)), width, mask=None if valid.all() else pa.array(~valid)
        )
        table = table.set_column(at, field, fixed)
    return table


def _others(batch: EventBatch, rows: Int64s, secret: Secret) -> pa.Table:
    """Subscriptions that are not plain words in a plain place, one by one."""
    ids = batch.checked.ids.take(pa.array(rows)).to_pylist()
    conjuncts = [c for row in rows.tolist() for c in batch.queries[row].conjuncts]
    words = sorted({term for c in conjuncts for term in c.required | c.excluded})
    hashes = dict(zip(words, hash_terms(words, secret).tolist(), strict=True))
    entries = []
    for row, id in zip(rows.tolist(), ids, strict=True):
        query, given = batch.queries[row], batch.subscriptions.get(row)
        required = [
            [hashes[term] for term in sorted(c.required)] or [int(EVERYONE)]
            for c in query.conjuncts
        ]
        excluded = [[hashes[term] for term in sorted(c.excluded)] for c in query.conjuncts]
        known = {"id": id, "query": query.text, "required": required, "excluded": excluded}
        known["asks"] = needs_asking(query)
        region: Region = WORLD
        if given is None or given.region is not None:
            region = batch.checked.region(row)
        if given is not None:
            known |= {"query": given.query, "ops": mask_of(given.ops)}
            known["meta"] = None if given.meta is None else encoded(given.meta)
        entries.append({"row": row} | definition_of(known, region))
    return pa.Table.from_pylist(entries, schema=DEFINED)


def _places(batch: EventBatch, rows: Int64s) -> SimplePlaces:
    """Where subscriptions are to be that are in one box, circle or polygon."""
    circles, boxes = batch.places.circles[rows], batch.places.boxes[rows]
    return SimplePlaces.of(boxes, circles, batch.polygons[rows], batch.checked.shapes.polygons)


def _moves(batch: EventBatch, rows: Int64s) -> pa.Table:
    """Where subscriptions move to."""
    checked, places = batch.checked, _places(batch, rows)
    shifts = batch.kinds[rows] == SHIFT
    kinds, boxes, circles = places.kinds, places.boxes, places.circles.copy()
    simple = (batch.places.plain[rows] | (places.polygon >= 0)) & ~shifts
    texts = places.texts(simple)
    kinds[~simple] = OTHER
    circles[kinds != ROUND] = np.nan
    boxes[shifts] = np.nan
    single: dict[int, str] = {}
    for at in np.flatnonzero(~simple).tolist():
        row = int(rows[at])
        region: Region | None
        if shifts[at]:
            region = batch.moves[row].region if row in batch.moves else None
        else:
            region = checked.region(row)
            boxes[at] = hull(region.bounds())
        if region is not None:
            single[at] = encoded(region_to_json(region))
    if single:
        whole = texts.to_pylist()
        texts = pa.array([single.get(at, text) for at, text in enumerate(whole)], pa.string())
    columns = {
        "row": rows,
        "kind": kinds,
        "box": fixed_lists(boxes),
        "circle": fixed_lists(circles),
        "region": texts,
        "point": fixed_lists(np.where(shifts[:, None], checked.points[rows], np.nan)),
    }
    return _uniform(_table(columns, MOVED))
