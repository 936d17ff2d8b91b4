"""What workers of distributed top-k keep on their nodes, and how it goes from step to step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from nearcast.arrays.column import Column
from nearcast.arrays.memory import MappedMemory, Memory
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.message_ids import NumberedStrings
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.spark.dskype.asking import Operations, lead
from nearcast.spark.dskype.clock import Timeline
from nearcast.spark.dskype.columns import ReachedPairs, Refills, WindowMessages, joined_pairs
from nearcast.spark.dskype.finder import Finder
from nearcast.spark.dskype.home import Home
from nearcast.spark.dskype.host import Space
from nearcast.spark.dskype.packing import pack
from nearcast.spark.dskype.part import WindowPart
from nearcast.spark.dskype.telling import named
from nearcast.text.columns import buffers

_UPDATES, _OUTCOME = "updates.arrow", "outcome.packed"


class Lost(Exception):  # noqa: N818 - nobody made a mistake
    """What a worker should have kept is not on its node."""


class InSpace(NamedTuple):
    """Makes holders that depend on the space, or finds them again."""

    make: Any
    space: Space

    def __call__(self, memory: Memory) -> Any:
        """Make an empty one."""
        return self.make(memory, self.space)

    def attach(self, memory: Memory, described: Mapping[str, Any]) -> Any:
        """Find one again in memory that is kept in files."""
        return self.make(memory, self.space, described)


class LeftByStep(NamedTuple):
    """What the step before left to a finder: first who is gone, then who comes."""

    gone: list[Int32s]
    raised: list[tuple[Int32s, Floats]]
    refills: list[Refills]  # without messages
    homes: list[Int32s]  # by refill: the home of each

    @property
    def nbytes(self) -> int:
        """About how much room it takes."""
        return sum(32 * int(each.wanted.terms.hashes.nbytes) for each in self.refills)


class KeptFinder(Finder):
    """A finder on its node, which knows the home of each subscription."""

    columns = Finder.columns | {"home_of": (np.int32, 0)}
    _home_of: Column  # by owner

    def apply(self, left: LeftByStep) -> None:
        """Begin a step."""
        for gone in left.gone:
            self.forget(gone)
        for owners, thetas in left.raised:
            self.lift(owners, thetas)
        for refills, homes in zip(left.refills, left.homes, strict=True):
            owners = refills.wanted.owners
            self.take(refills)
            self._home_of.lengthen(max(0, int(owners.max(initial=-1)) + 1 - self._home_of.size))
            self._home_of.array[owners] = homes

    def by_home(self, pairs: ReachedPairs, homes: int) -> Iterator[ReachedPairs]:
        """Pairs by the home of their subscription."""
        home = self._home_of.array[pairs.owners]
        order = np.argsort(home, kind="stable")
        edges = np.searchsorted(home[order], np.arange(homes + 1))
        for start, stop in pairwise(edges.tolist()):
            some = order[start:stop]
            yield ReachedPairs(pairs.owners[some], pairs.numbers[some], pairs.scores[some])


class HomeStep(NamedTuple):
    """What a home needs for a step."""

    refills: list[Refills]  # with which it begins
    timeline: Timeline
    pairs: list[ReachedPairs]
    operations: Operations
    ids: NumberedStrings
    again: Int64s

    @property
    def nbytes(self) -> int:
        """About how much room it takes."""
        new = sum(2 * int(column.nbytes) for pairs in self.pairs for column in pairs)
        return new + sum(2 * int(each.scores.nbytes) for each in self.refills)


class KeptHome(Home):
    """A home on its node: what the last step came to lies beside it, for a task that asks again."""

    @classmethod
    def attach(cls, memory: Memory, described: Mapping[str, Any]) -> Self:
        """Find one again in memory that is kept in files."""
        return cls(memory, described)

    def _beside(self, name: str) -> Path:
        assert isinstance(self.memory, MappedMemory)  # noqa: S101 - as nodes keep it
        return self.memory.folder / name

    def apply(self, step: HomeStep) -> None:
        """Take a step, and write down what it came to."""
        for refills in step.refills:
            self.fill(refills)
        operations = step.operations
        taken, requests = lead(self, step.timeline, joined_pairs(step.pairs), operations)
        self._beside(_UPDATES).unlink(missing_ok=True)
        with pa.ipc.new_file(str(self._beside(_UPDATES)), UPDATE_SCHEMA) as writer:
            for table in named(taken.updates, self.names_of, step.ids, step.again):
                writer.write_table(table)
        outcome = pack(
            requests=requests,
            gone=operations.ended,
            raised=taken.raised,
            thetas=taken.thetas,
        )
        self._beside(_OUTCOME).write_bytes(outcome)
        self.forget(operations.ended)

    def updates(self) -> Iterator[pa.Table]:
        """What the last step told."""
        with pa.memory_map(str(self._beside(_UPDATES))) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(number)])

    def outcome(self) -> bytes:
        """What else it came to: requests, who is gone, and whose thresholds rose."""
        return self._beside(_OUTCOME).read_bytes()


class PartStep(NamedTuple):
    """The messages of a step, of one part, and the oldest that is still needed."""

    messages: WindowMessages
    first: int

    @property
    def nbytes(self) -> int:
        """About how much room it takes."""
        return 8 * int(self.messages.terms.hashes.nbytes)


class KeptPart(WindowPart):
    """A part of the window on its node."""

    def apply(self, step: PartStep) -> None:
        """Take a step."""
        self.take(step.messages, step.first)


class IdsStep(NamedTuple):
    """The ids of the messages of a step, and the oldest that is still needed."""

    ids: pa.Array
    first: int

    @property
    def nbytes(self) -> int:
        """About how much room it takes."""
        return int(self.ids.nbytes)


class KeptIds:
    """The ids of the messages of the window: the one thing that every node has of all of it."""

    def __init__(self, memory: Memory, described: Mapping[str, int] | None = None) -> None:
        self._memory = memory
        self.texts = NumberedStrings(0, memory, "message_ids", described)

    @classmethod
    def attach(cls, memory: Memory, described: Mapping[str, Any]) -> Self:
        """Find them again in memory that is kept in files."""
        return cls(memory, described)

    def describe(self) -> dict[str, Any]:
        """Say what `attach` needs."""
        return self.texts.describe()

    def begin(self, first: int) -> None:
        """Say which number comes first."""
        self.texts = NumberedStrings(first, self._memory, "message_ids")

    def apply(self, step: IdsStep) -> None:
        """Take a step."""
        self.texts.drop_before(min(step.first, self.texts.first + len(self.texts)))
        self.texts.extend(*buffers(step.ids))
