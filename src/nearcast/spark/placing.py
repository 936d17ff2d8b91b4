"""Which shard gets which operation, by the plan."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.geo import region_from_json
from nearcast.index.table import Floats, Int32s, Int64s
from nearcast.model.log import decode_json
from nearcast.partition import keys as plan_keys
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_rows
from nearcast.spark.operations import END, OPERATIONS, OTHER, PLAIN
from nearcast.spark.router import changes_schema
from nearcast.text.columns import Hashes

_ROW_BYTES = 64
_HASH_LISTS = pa.list_(pa.uint64())


class Rows(NamedTuple):
    """The rows of some subscriptions: one for each conjunct and plain box."""

    number: Int32s  # of the subscription
    boxes: Floats
    keys: Hashes
    bytes: Int64s  # of its subscription


def keyed(plan: Plan, begun: pa.Table) -> tuple[pa.Table, Rows]:
    """Choose the keys of subscriptions, as shards want them, and give their rows."""
    begun = begun.combine_chunks()
    kind = begun["kind"].to_numpy()
    plain, others = np.flatnonzero(kind == PLAIN), np.flatnonzero(kind == OTHER)
    key = np.zeros(len(begun), np.uint64)
    numbers, boxes, keys = [plain.astype(np.int32)], [np.empty((0, 4))], [key[:0]]
    if len(plain):
        some = begun.take(pa.array(plain))
        lists = some["terms"].combine_chunks()
        key[plain] = plan_keys.choose(plan.arrays, *_parts(lists))
        boxes.append(some["box"].combine_chunks().flatten().to_numpy().reshape(-1, 4))
        keys.append(key[plain])
    sizes = _sizes(begun)
    lists_of_keys: list[list[int] | None] = [None] * len(begun)
    if len(others):
        some = begun.take(pa.array(others))
        for number, region, required in zip(
            others.tolist(), some["region"].to_pylist(), some["required"].to_pylist(), strict=True
        ):
            chosen = _keys_of(plan, required)
            lists_of_keys[number] = chosen.tolist()
            bounds = region_from_json(decode_json(region.encode(), "region")).bounds()
            count = len(bounds) * len(chosen)
            numbers.append(np.full(count, number, np.int32))
            boxes.append(np.tile(np.array(bounds, np.float64), (len(chosen), 1)))
            keys.append(np.repeat(chosen, len(bounds)))
    begun = begun.select([name for name in OPERATIONS.names if name in begun.column_names])
    begun = begun.append_column("key", pa.array(key))
    begun = begun.append_column("keys", pa.array(lists_of_keys, _HASH_LISTS))
    of_row: Int32s = np.concatenate(numbers)
    return begun, Rows(of_row, np.concatenate(boxes), np.concatenate(keys), sizes[of_row])


def _sizes(begun: pa.Table) -> Int64s:
    """About how many bytes each subscription takes where it is held: its texts, and a row."""
    sizes = np.full(len(begun), _ROW_BYTES, np.int64)
    for name in ("id", "query", "region"):
        sizes += pc.fill_null(pc.binary_length(begun[name]), 0).to_numpy()
    return sizes


def _parts(lists: Any) -> tuple[Int64s, Hashes]:
    starts = lists.offsets.to_numpy().astype(np.int64)
    return starts - starts[0], lists.values.to_numpy()[starts[0] : starts[-1]]


def _keys_of(plan: Plan, required: list[list[int]]) -> Hashes:
    if not required:
        return np.empty(0, np.uint64)
    starts = np.zeros(len(required) + 1, np.int64)
    np.cumsum([len(terms) for terms in required], out=starts[1:])
    flat = np.array([term for terms in required for term in terms], np.uint64)
    return plan_keys.choose(plan.arrays, starts, flat)


class Placed(NamedTuple):
    """A step, cut up: the operations of each worker, and what is wanted or no longer wanted."""

    shards: list[pa.Table]
    changes: pa.Table


def place(plan: Plan, log: pa.Table, ended: pa.Table, ended_before: pa.Table) -> Placed:
    """Cut up the log of a step.

    `ended` are the definitions of what ends with it, in the order of the log, `ended_before` of
    what ended with the step before, which is wanted no longer.
    """
    is_end = pc.equal(log["kind"], END)
    begun, rows = keyed(plan, log.filter(pc.invert(is_end)))
    ends = log.filter(is_end).select([n for n in OPERATIONS.names if n in log.column_names])
    begin_at = _workers(plan, rows, begun["owner"].to_numpy())
    _, ended_rows = keyed(plan, ended)
    end_at = _workers(plan, ended_rows, ended["owner"].to_numpy())
    shards = [
        pa.concat_tables(
            [
                begun.take(pa.array(begin_at[0][begin_at[1] == worker])),
                _with_no_keys(ends.take(pa.array(end_at[0][end_at[1] == worker]))),
            ]
        )
        for worker in range(plan.workers)
    ]
    _, gone = keyed(plan, ended_before)
    return Placed(shards, _changes(plan, rows, gone))


def place_base(plan: Plan, begun: pa.Table, ended: pa.Table) -> Placed:
    """Cut up all there is; `ended` has ended just now, but is still wanted."""
    none = begun.slice(0, 0)
    placed = place(plan, begun, none, none)
    _, rows = keyed(plan, pa.concat_tables([begun, ended]))
    nothing = Rows(rows.number[:0], rows.boxes[:0], rows.keys[:0], rows.bytes[:0])
    return placed._replace(changes=_changes(plan, rows, nothing))


def place_whole(plan: Plan, log: pa.Table) -> Placed:
    """Give the log of a step to one shard that has everything; keys are not needed there."""
    log = log.combine_chunks()
    operations = log.select([name for name in OPERATIONS.names if name in log.column_names])
    sizes = pc.fill_null(pc.list_value_length(log["required"].combine_chunks()), 0).to_numpy()
    starts = np.zeros(len(log) + 1, np.int32)
    np.cumsum(sizes, out=starts[1:])
    keys = pa.ListArray.from_arrays(pa.array(starts), pa.array(np.zeros(starts[-1], np.uint64)))
    operations = operations.append_column("key", pa.array(np.zeros(len(log), np.uint64)))
    operations = operations.append_column("keys", keys)
    return Placed([operations], changes_schema(plan.grid).empty_table())


def _workers(plan: Plan, rows: Rows, owners: Int32s) -> tuple[Int32s, Int32s]:
    """Which subscription goes to which worker, each pair once."""
    of_row = owners[rows.number] if len(rows.number) else owners[:0]
    row, worker = route_rows(plan, rows.boxes, rows.keys, of_row)
    pairs = np.unique((rows.number[row].astype(np.int64) << 32) | worker)
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)


def _with_no_keys(table: pa.Table) -> pa.Table:
    table = table.append_column("key", pa.nulls(len(table), pa.uint64()))
    return table.append_column("keys", pa.nulls(len(table), _HASH_LISTS))


def _changes(plan: Plan, begun: Rows, gone: Rows) -> pa.Table:
    deltas: npt.NDArray[np.int8] = np.concatenate(
        [np.ones(len(begun.number), np.int8), np.full(len(gone.number), -1, np.int8)]
    )
    boxes = np.concatenate([begun.boxes, gone.boxes])
    return pa.Table.from_arrays(
        [
            pa.array(deltas),
            pa.FixedSizeListArray.from_arrays(pa.array(boxes.reshape(-1)), 4),
            pa.array(np.concatenate([begun.keys, gone.keys])),
            pa.array(np.concatenate([begun.bytes, gone.bytes])),
        ],
        schema=changes_schema(plan.grid),
    )
