"""A shard: the subscriptions of one worker, in the index of the core package.

A batch is applied at once and yet every message sees exactly the subscriptions before it: each
version of a subscription carries the sequence numbers between which it counts, those that end in a
batch stay until the next one begins, and what the index finds is compared with them. The same
holds for the active messages it keeps: a change sees those with sequence numbers before its own.

All arrays lie in a `Memory`; in files, one process applies a batch and all processes of a node
match on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast._jit import kernel, read_only
from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Int32s, Int64s
from nearcast.events.fields import ADD, REMOVE
from nearcast.events.log import decode_json
from nearcast.geo import Box, Circle, Region, region_from_json
from nearcast.geo.circles import circle_columns
from nearcast.index import Batch, Table
from nearcast.index.rarest_term.index import RarestTerm
from nearcast.index.table import SHARED
from nearcast.spark.asking import ALL_OPS, ExactMatching
from nearcast.spark.held import ActiveMessages, first_of_each
from nearcast.spark.names import Names
from nearcast.spark.operations import (
    CHANGE,
    END,
    FORGET,
    LASTING,
    NEVER,
    OTHER,
    PLAIN,
    ROUND,
    WITHDRAWN,
    begins,
    boxes_in,
    lists_in,
    numbers_in,
    of_kind,
)
from nearcast.spark.shard_terms import ShardTerms
from nearcast.spark.workers.messages import ShardMessages
from nearcast.text.columns import Hashes

FOREVER = 2**62
_NO_ROW = -1
_COUNTED = 4  # one in this many messages is counted for the frequencies of terms

_COLUMNS: dict[str, tuple[type, int]] = {
    "span": (np.int64, 2),  # by owner: the sequence numbers of its beginning and its end
    "first_row": (np.int32, 0),  # by owner
    "next_row": (np.int32, 0),  # by row: the next one of the same owner
    "ordinal": (np.uint16, 0),  # by row: which one of its owner's it is
    "row_key": (np.uint64, 0),  # by row: the term by which the plan places it
    "ending": (np.int32, 0),  # owners that go when the next batch comes
    "asking": (np.bool_, 0),  # by owner: whether terms and boxes do not say all of it
    "wanted_ops": (np.int8, 0),  # by owner: the ops it asks for, as bits
    "radius": (np.float64, 0),  # by owner: of one that is a circle, in metres; else NaN
}


class ShardMatches(NamedTuple):
    """Which place of which message met which row, each (message, owner) pair once."""

    places: Int32s
    rows: Int32s
    owners: Int32s
    candidates: int


class Changed(NamedTuple):
    """What came into the results of subscriptions, or went, each (change, message) pair once."""

    seq: Int64s  # of the change
    owners: Int32s
    slots: Int32s
    rows: Int32s  # through which it is a result, or was
    ops: npt.NDArray[np.int8]  # ADD or REMOVE


class Shard:
    """Holds subscriptions and matches messages against them; holds messages that last."""

    def __init__(
        self, memory: Memory | None = None, described: Mapping[str, Any] | None = None
    ) -> None:
        """Make an empty one, or attach to the one that `describe` described."""
        self.memory = memory or Memory()
        known: Mapping[str, Any] = defaultdict(lambda: None) if described is None else described
        if described is None:
            self.table = Table(self.memory)
            self.index = RarestTerm(self.table)
            self.index.build()
        else:
            self.table = Table.attach(self.memory, described["table"])
            self.index = RarestTerm.attach(self.table, described["index"])
        sizes = known["sizes"] or dict.fromkeys(_COLUMNS, 0)
        for name, (dtype, width) in _COLUMNS.items():
            setattr(self, f"_{name}", Column(dtype, width, self.memory, name, sizes[name]))
        self._terms = ShardTerms(self.memory, self.table, known["terms"])
        self._names = Names(self.memory, "owner", known["names"])
        self._asks = Names(self.memory, "asks", known["asks"], long=True)
        self._metas = Names(self.memory, "meta", known["metas"], long=True)
        self.held = ActiveMessages(self.memory, known["held"])

    _span: Column
    _first_row: Column
    _next_row: Column
    _ordinal: Column
    _row_key: Column
    _ending: Column
    _asking: Column
    _wanted_ops: Column
    _radius: Column

    def __len__(self) -> int:
        return self.table.live

    def describe(self) -> dict[str, Any]:
        """Return what is needed to attach to it in its memory."""
        return {
            "table": self.table.describe(),
            "index": self.index.describe(),
            "sizes": {name: getattr(self, f"_{name}").size for name in _COLUMNS},
            "terms": self._terms.describe(),
            "names": self._names.describe(),
            "asks": self._asks.describe(),
            "metas": self._metas.describe(),
            "held": self.held.describe(),
        }

    def apply(self, operations: pa.Table) -> None:
        """Apply a batch; remove what ended in the previous one, and what moved away."""
        self._withdraw(of_kind(operations, FORGET)["owner"].to_numpy())
        begun = operations.filter(pa.array(begins(operations))).select(["owner", "seq"])
        for kind in (PLAIN, ROUND):
            self._begin_plain(of_kind(operations, kind), kind)
        self._begin_others(of_kind(operations, OTHER))
        ends = of_kind(operations, END)
        owners = ends["owner"].to_numpy()
        self._span.array[owners, 1] = ends["seq"].to_numpy()
        guests = begun["owner"].to_numpy()[begun["seq"].to_numpy() == NEVER]
        self._ending.replace(np.concatenate([owners, guests]))
        lasting, withdrawn = of_kind(operations, LASTING), of_kind(operations, WITHDRAWN)
        self.held.apply(lasting, withdrawn, of_kind(operations, CHANGE), self._terms)

    def _withdraw(self, moved: Int32s) -> None:
        owners = np.concatenate([self._ending.array, moved])
        if not len(owners):
            return
        rows, _ = self._rows_of(owners)
        reusable = self.index.delete(rows)
        self.table.remove(rows)
        self.table.release(reusable)
        self._first_row.array[owners] = _NO_ROW
        for names in (self._names, self._asks, self._metas):
            names.forget(owners)
        self._ending.replace(owners[:0])

    def _rows_of(self, owners: Int32s) -> tuple[Int32s, Int32s]:
        """The rows of owners, and the place of its owner for each; -1 has none."""
        room = 2 * self.table.live  # an owner may be asked for as what is and as what was
        rows, places = np.empty(room, np.int32), np.empty(room, np.int32)
        first, following = self._first_row.array, self._next_row.array
        count = _rows_of(owners, first, following, rows, places)
        return rows[:count].copy(), places[:count].copy()

    def _enter(self, operations: pa.Table) -> Int32s:
        """Make room for owners, and store their ids and when they begin."""
        owners: Int32s = operations["owner"].to_numpy()
        more = int(owners.max()) + 1 - self._span.size
        if more > 0:
            for column in (self._span, self._first_row, self._asking, self._wanted_ops):
                column.lengthen(more)
            self._radius.lengthen(more)
            self._first_row.array[-more:] = _NO_ROW
        self._span.array[owners, 0] = operations["seq"].to_numpy()
        self._span.array[owners, 1] = FOREVER
        self._names.put(owners, operations["id"].combine_chunks())
        asks = operations["asks"].combine_chunks()
        self._asking.array[owners] = asks.is_valid().to_numpy(zero_copy_only=False)
        wanted = pc.fill_null(operations["ops"].combine_chunks(), ALL_OPS)
        self._wanted_ops.array[owners] = wanted.to_numpy()
        self._radius.array[owners] = np.nan
        # The region of any other kind may be needed for messages over polygons.
        shapes = operations["region"].combine_chunks()
        self._asks.put(owners, pc.fill_null(pc.coalesce(asks, shapes), ""))
        self._metas.put(owners, pc.fill_null(operations["meta"].combine_chunks(), ""))
        return owners

    def _begin_plain(self, operations: pa.Table, kind: int) -> None:
        if not len(operations):
            return
        owners = self._enter(operations)
        boxes = boxes_in(operations)
        starts, hashes = lists_in(operations["terms"])
        terms = self._terms.numbers_of(hashes)
        fresh = self.table.live == 0
        circles = None
        if kind == ROUND:
            circles = numbers_in(operations, "circle")
            self._radius.array[owners] = circles[:, 2]
            circles[:, 2] = circle_columns(circles[:, :2].copy(), circles[:, 2].copy())[1]
        rows = self.table.add_boxes(owners, boxes, starts, terms, circles)
        self._follow_rows()
        self._first_row.array[owners] = rows
        self._next_row.array[rows] = _NO_ROW
        self._ordinal.array[rows] = 0
        self._row_key.array[rows] = operations["key"].to_numpy()
        if fresh:
            self.index.build()
        else:
            self.index.insert(rows)

    def _begin_others(self, operations: pa.Table) -> None:
        if not len(operations):
            return
        owners = self._enter(operations)
        required, excluded = (self._numbered(operations[name]) for name in ("required", "excluded"))
        added, boxes = [], []
        for owner, text, *conjuncts in zip(
            owners.tolist(), operations["region"].to_pylist(), required, excluded, strict=True
        ):
            region = region_from_json(decode_json(text.encode(), "region"))
            boxes.append(len(region.bounds()))
            if conjuncts[0]:  # else no text can be what is asked for
                added.append(self.table.add(owner, list(zip(*conjuncts, strict=True)), region))
        if not added:
            return
        self._follow_rows()
        rows = np.concatenate(added)
        starts, keys = lists_in(operations["keys"])
        self._row_key.array[rows] = np.repeat(keys, np.repeat(boxes, np.diff(starts)))
        owners, counts = owners[np.diff(starts) > 0], np.array([len(each) for each in added])
        first = np.cumsum(counts) - counts
        self._first_row.array[owners] = rows[first]
        self._next_row.array[rows[:-1]] = rows[1:]
        self._next_row.array[rows[first + counts - 1]] = _NO_ROW
        self._ordinal.array[rows] = np.arange(len(rows)) - np.repeat(first, counts)
        self.index.insert(rows)

    def _numbered(self, column: pa.ChunkedArray) -> list[list[list[int]]]:
        """The numbers of terms, by conjunct, by subscription."""
        outer, conjuncts = lists_in(column)
        inner, hashes = lists_in(conjuncts)
        numbers = self._terms.numbers_of(hashes).tolist()
        lists = [numbers[start:stop] for start, stop in pairwise(inner.tolist())]
        return [lists[start:stop] for start, stop in pairwise(outer.tolist())]

    def _follow_rows(self) -> None:
        more = len(self.table) - self._next_row.size
        if more > 0:
            for column in (self._next_row, self._ordinal, self._row_key):
                column.lengthen(more)

    def match(self, messages: ShardMessages) -> ShardMatches:
        """Match messages, each with the subscriptions before it."""
        batch = Batch(*self._terms.known(messages.texts), messages.boxes)
        _count_terms(batch.starts, batch.terms, _COUNTED, self.table.frequency)
        pairs = self.index.candidates(batch)
        rows = self.table.rows
        owners = rows.owner[pairs.rows]
        seq = read_only(messages.seq)
        seen = _seen(self._span.array, owners, seq, messages.number, pairs.messages)
        places, found, owners = pairs.messages[seen], pairs.rows[seen], owners[seen]
        if self.table.shared or len(messages.boxes) > len(messages.seq):
            several = (rows.flags[found] & SHARED) != 0
            if several.any() or len(messages.boxes) > len(messages.seq):
                ordinal = self._ordinal.array[found]
                first = first_of_each(messages.number[places], owners, places, ordinal)
                places, found, owners = places[first], found[first], owners[first]
        return ShardMatches(places, found, owners, pairs.candidates)

    def exact(
        self,
        decide: ExactMatching,
        owners: Int32s,
        rows: Int32s,
        shaped: npt.NDArray[np.bool_],
        bodies: Callable[[Int64s], pa.Array],
    ) -> npt.NDArray[np.bool_]:
        """Which pairs of subscriptions and messages that the index found are really matches.

        `shaped` says which messages are over polygons; `bodies` gives messages as JSON, by the
        places of their pairs.
        """
        asking = self._asking.array[owners]
        kept = np.ones(len(owners), np.bool_)
        some = np.flatnonzero(asking | shaped)
        if not len(some):
            return kept
        asks = self._asks.of(owners[some]).to_pylist()
        texts = bodies(some).to_pylist()
        for at, ask, body in zip(some.tolist(), asks, texts, strict=True):
            if not body:  # of a message from a time before bodies were kept
                kept[at] = False
            elif asking[at]:
                kept[at] = decide.wants(ask, body)
            else:
                region = self._region(int(owners[at]), int(rows[at]), ask)
                kept[at] = decide.meets(region, body)
        return kept

    def _region(self, owner: int, row: int, shape: str) -> Region:
        """The region of a subscription; `shape` is its JSON, if it is not plain."""
        if shape:
            return region_from_json(decode_json(shape.encode(), "region"))
        rows, radius = self.table.rows, float(self._radius.array[owner])
        if np.isnan(radius):
            return Box(*rows.box[row].tolist())
        lon, lat, _ = rows.circles[rows.terms[rows.first[row] - 1]].tolist()
        return Circle((lon, lat), radius)

    def asked_for(self, owners: Int32s, ops: npt.NDArray[np.int8] | int) -> npt.NDArray[np.bool_]:
        """Which updates their subscriptions ask for."""
        wanted: npt.NDArray[np.bool_] = (self._wanted_ops.array[owners] >> (ops - ADD)) & 1 == 1
        return wanted

    def metas_of(self, owners: Int32s) -> pa.Array:
        """The `meta` of owners as JSON; empty for those without one."""
        return self._metas.of(owners)

    def changed(self, decide: ExactMatching, part: slice = slice(None)) -> Changed:
        """Find what the changes of the last step, or some of them, added and removed.

        A pair that was a result, in whatever way, and still is one, in whatever way, is neither.
        """
        changes = self.held.changes(part)
        versions = np.column_stack([changes.owner, changes.was]).reshape(-1)
        rows, side = self._rows_of(versions)
        of_row = side >> 1
        facts = self.held.matching(self.table.rows, rows, changes.seq[of_row], changes.at[of_row])
        side, rows, slots = side[facts.asked], rows[facts.asked], facts.slots
        true = self.exact(
            decide, versions[side], rows, self.held.is_shaped(slots),
            lambda some: self.held.bodies_of(slots[some]),
        )  # fmt: skip
        side, rows, slots = side[true], rows[true], slots[true]
        numbers = self.held.numbers_of(slots)
        # Of all ways in which a message is a result the first, which is the same in every shard.
        place, ordinal = self.held.boxes[slots, 0], self._ordinal.array[rows]
        first = first_of_each(side, numbers, place, ordinal)
        side, rows, slots, numbers = side[first], rows[first], slots[first], numbers[first]
        order = np.lexsort((numbers, side >> 1))
        change, number = side[order] >> 1, numbers[order]
        alone = np.ones(len(order) + 1, np.bool_)
        alone[1:-1] = (change[1:] != change[:-1]) | (number[1:] != number[:-1])
        kept = order[alone[1:] & alone[:-1]]
        which = side[kept] >> 1
        ops = np.where(side[kept] & 1 == 1, REMOVE, ADD).astype(np.int8)
        return Changed(changes.seq[which], changes.owner[which], slots[kept], rows[kept], ops)

    def answers_for(self, rows: Int32s) -> npt.NDArray[np.bool_]:
        """Which rows are of subscriptions that the shard holds, not of guests."""
        owners = self.table.rows.owner[rows]
        held: npt.NDArray[np.bool_] = self._span.array[owners, 0] != NEVER
        return held

    def names_of(self, owners: Int32s) -> pa.Array:
        """The ids of owners."""
        return self._names.of(owners)

    @property
    def keys(self) -> Hashes:
        """By row, the term by which the plan places it."""
        keys: Hashes = self._row_key.array
        return keys

    def stats(self) -> dict[str, int]:
        """Sizes, as in a `WorkerReport`."""
        index = self.index.stats()
        own = sum(getattr(self, f"_{name}").nbytes for name in _COLUMNS)
        own += self._terms.nbytes + self._names.nbytes + self.held.nbytes
        own += self._asks.nbytes + self._metas.nbytes
        return {
            "rows": self.table.live,
            "active": len(self.held),
            "bytes": int(index["bytes"] + self.table.nbytes + own),
        }


@kernel
def _rows_of(
    owners: Int32s, first_row: Int32s, next_row: Int32s, rows: Int32s, places: Int32s
) -> int:
    count = 0
    for place in range(len(owners)):
        row = first_row[owners[place]] if owners[place] >= 0 else np.int32(_NO_ROW)
        while row >= 0:
            rows[count], places[count] = row, place
            count += 1
            row = next_row[row]
    return count


@kernel
def _count_terms(starts: Int64s, terms: Int32s, step: int, frequency: Int64s) -> None:
    # Processes that count into the same array may overlook each other: these are only hints.
    for text in range(0, len(starts) - 1, step):
        for at in range(starts[text], starts[text + 1]):
            frequency[terms[at]] += step


@kernel
def _seen(
    span: Int64s, owners: Int32s, seq: Int64s, number: Int32s, places: Int32s
) -> npt.NDArray[np.bool_]:
    seen = np.empty(len(owners), np.bool_)
    for at in range(len(owners)):
        when = seq[number[places[at]]]
        seen[at] = span[owners[at], 0] < when and when < span[owners[at], 1]
    return seen
