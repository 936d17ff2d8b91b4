"""Events as readers pack them: numbers to decide by, and definitions that are only handed on.

Tasks read, check and parse events. For each event the driver gets a few numbers; what a
subscription asks for, and what a message says, stays in columns that the driver takes rows of
without looking into them. The events of one task are in one file of the state while a step lasts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.slots import Slots
from nearcast.arrays.types import Bools, Floats, Int64s
from nearcast.engine.settings import Settings
from nearcast.events.fields import CARRIED
from nearcast.events.reader import Codes
from nearcast.spark.io.files import Files
from nearcast.spark.operations import BEGUN
from nearcast.spark.readers.slices import Slice

_ROW = ("row", pa.int64())
_BOX = pa.list_(pa.float64(), 4)
_TERMS = pa.list_(pa.uint64())
_DECIDED = ("owner", "seq", "until")

ROWS = pa.schema(
    [
        ("kind", pa.int8()),
        ("flawed", pa.bool_()),
        ("id", pa.list_(pa.uint64(), 2)),  # both hashes of it
        ("seq", pa.int64()),
        ("at", pa.float64()),  # as given, or NaN
        ("ttl", pa.float64()),
    ]
)
PLACES = pa.schema([("box", _BOX)])
DEFINED = pa.schema([_ROW, *(field for field in BEGUN if field.name not in _DECIDED)])
MOVED = pa.schema(
    [
        _ROW,
        ("kind", pa.int8()),  # PLAIN, ROUND or OTHER, for a subscription of one conjunct
        ("box", _BOX),  # around the region
        ("circle", pa.list_(pa.float64(), 3)),  # ROUND
        ("region", pa.string()),  # as JSON; null if it moves to a point alone
        ("point", pa.list_(pa.float64(), 2)),
    ]
)
LASTING = pa.schema(
    [_ROW, ("id", pa.string()), ("box", _BOX), ("terms", _TERMS), ("body", pa.string())]
)
TEXTS = pa.schema(
    [
        _ROW,
        ("id", pa.string()),
        ("text", pa.string()),
        ("lon", pa.float64()),
        ("lat", pa.float64()),
        *((name, pa.string()) for name in CARRIED),
    ]
)
NAMED = pa.schema([_ROW, ("id", pa.string())])
ERRORS = pa.schema([_ROW, ("error", pa.string())])
SAMPLE = pa.schema([("box", _BOX), ("terms", _TERMS)])


class PackedEvents(NamedTuple):
    """The events of some slices. The column `row` says which event, where not all are there.

    `places` are the boxes around messages, if wanted; `begun` what subscriptions ask for that
    begin if the event has an effect; `moved` where others move to; `lasting` messages with a `ttl`;
    `texts` messages that come into the window; `named` the ids of other events; `errors` what is
    wrong with events that are refused whatever came before them; `sample` some messages.
    """

    rows: pa.Table
    places: pa.Table
    begun: pa.Table
    moved: pa.Table
    lasting: pa.Table
    texts: pa.Table
    named: pa.Table
    errors: pa.Table
    sample: pa.Table

    def write(self, files: Files, name: str) -> None:
        """Write them to a file, which need not survive a power failure."""
        sink = pa.BufferOutputStream()
        for table in self:
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table.combine_chunks())
        files.write(name, sink.getvalue(), durable=False)

    @classmethod
    def read(cls, files: Files, name: str) -> PackedEvents:
        """Map a file."""
        source = pa.BufferReader(files.map(name))
        return cls(*(pa.ipc.open_stream(source).read_all() for _ in cls._fields))


@dataclass(frozen=True)
class ReadingOptions:
    """What is wanted of the events of one task besides what decides what they do."""

    places: bool = False  # where messages are
    sample: int = 0  # how many messages are wanted as a sample
    texts: int | None = None  # how many of the last messages come into the window; None for all


@dataclass
class ReadInput:
    """The input of the tasks that read the events of a step."""

    state: str
    folder: str  # in the state, for the files that they write
    settings: Settings
    parts: list[list[Slice]]  # by task
    wanted: ReadingOptions

    @property
    def rows(self) -> int:
        """How many events there are."""
        return sum(each.rows for part in self.parts for each in part)

    def name(self, task: int) -> str:
        """The file that a task writes."""
        return f"{self.folder}/{task:05}.packed"

    def packed(self, files: Files) -> list[PackedEvents]:
        """What the tasks wrote."""
        return [PackedEvents.read(files, self.name(task)) for task in range(len(self.parts))]


class StepEvents:
    """The events of a step in their order, of which parts were packed by one task each.

    `rows` says where each event is among those that were read. With `first`, rows have sequence
    numbers of their own, which order them; those before it, and repeated ones, are passed over.
    """

    def __init__(self, parts: Sequence[PackedEvents], first: int | None = None) -> None:
        self._parts = parts
        counts = [len(part.rows) for part in parts]
        self._starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        self.read = int(self._starts[-1])
        """How many events were read."""
        seq: Int64s = self._column("seq")
        self._place: Int64s | None = None  # by row as read: the place in order, or -1
        self.rows: Int64s = np.arange(self.read)
        if first is not None:
            order = np.argsort(seq, kind="stable")
            ascending = seq[order]
            fresh = ascending >= first
            fresh[1:] &= ascending[1:] != ascending[:-1]
            self.rows = order[fresh]
            if not np.array_equal(self.rows, np.arange(self.read)):
                self._place = np.full(self.read, -1, np.int64)
                self._place[self.rows] = np.arange(len(self.rows))
        self.seq = self._ordered(seq)
        self.kinds: Codes = self._ordered(self._column("kind"))
        self.flawed: Bools = self._ordered(self._column("flawed"))
        self.at: Floats = self._ordered(self._column("at"))
        self.ttl: Floats = self._ordered(self._column("ttl"))
        self.ids: Slots = self._ordered(self._lists("rows", "id", 2, np.uint64))

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def late(self) -> int:
        """How many events were passed over."""
        return self.read - len(self.rows)

    @property
    def places(self) -> Floats:
        """The boxes around messages, by event."""
        boxes: Floats = self._ordered(self._lists("places", "box", 4, np.float64))
        return boxes

    @property
    def sample(self) -> pa.Table:
        """Some of the messages."""
        return pa.concat_tables([part.sample for part in self._parts]).combine_chunks()

    def table(self, name: str) -> tuple[pa.Table, Int64s]:
        """A table that does not have all events, in order, and the place of each row's event."""
        tables = [getattr(part, name) for part in self._parts]
        found = [
            table["row"].to_numpy() + start
            for table, start in zip(tables, self._starts[:-1].tolist(), strict=True)
        ]
        table, rows = pa.concat_tables(tables), np.concatenate(found)
        if self._place is not None:
            rows = self._place[rows]
            order = np.argsort(rows, kind="stable")
            order = order[np.count_nonzero(rows < 0) :]
            table, rows = table.take(pa.array(order)), rows[order]
        return table.drop_columns(["row"]).combine_chunks(), rows

    def _column(self, name: str) -> npt.NDArray[Any]:
        return np.concatenate([part.rows[name].to_numpy() for part in self._parts])

    def _lists(self, table: str, name: str, width: int, kind: Any) -> npt.NDArray[Any]:
        found = [getattr(part, table)[name].combine_chunks() for part in self._parts]
        flat = [each.flatten().to_numpy() for each in found if len(each)]
        return np.concatenate([np.empty(0, kind), *flat]).reshape(-1, width)

    def _ordered(self, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What belongs to events, in their order; as an array of its own."""
        return array if self._place is None else array[self.rows]
