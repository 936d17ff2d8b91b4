"""What workers of distributed top-k cache on their nodes, and how each step changes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.column import Column
from nearcast.arrays.memory import MappedMemory, Memory
from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.message_ids import NumberedStrings
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.spark.topk.dskype.buffer_shard import BufferShard
from nearcast.spark.topk.dskype.clock import Timeline
from nearcast.spark.topk.dskype.finder import Finder
from nearcast.spark.topk.dskype.messages import (
    ReachedPairs,
    Refills,
    ShardOutcome,
    pack,
    unpack,
)
from nearcast.spark.topk.dskype.requests import Operations, take_step
from nearcast.spark.topk.reading import reach
from nearcast.spark.topk.updates import named_updates, read_updates
from nearcast.text.columns import buffers

_UPDATES, _OUTCOME = "updates.arrow", "outcome.packed"


class FinderChanges(NamedTuple):
    """What the previous step changes in a finder, in this order."""

    outcomes: list[ShardOutcome]
    refills: list[Refills]  # fresh buffers of all subscriptions, which are forgotten first
    held: list[Refills]  # those of them that this finder takes, without messages
    shards: list[Int32s]  # for each of `held`: the buffer shard of each subscription

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes to apply."""
        return sum(32 * int(each.wanted.terms.hashes.nbytes) for each in self.held)


class CachedFinder(Finder):
    """A finder on its node, which knows the buffer shard of each subscription."""

    columns = Finder.columns | {"shard_of": (np.int32, 0)}
    _shard_of: Column  # by owner: the buffer shard

    def apply(self, changes: FinderChanges) -> None:
        """Take over what the previous step changed."""
        for outcome in changes.outcomes:
            self.forget(outcome.gone)
        for refills in changes.refills:
            self.forget(refills.wanted.owners)
        for outcome in changes.outcomes:
            self.lift(outcome.raised, outcome.thetas)
        for refills, shards in zip(changes.held, changes.shards, strict=True):
            self.take(refills)
            reach(self._shard_of, refills.wanted.owners)
            self._shard_of.array[refills.wanted.owners] = shards

    def by_shard(self, pairs: ReachedPairs, shards: int) -> Iterator[ReachedPairs]:
        """Divide pairs by the buffer shard of their subscription."""
        shard = self._shard_of.array[pairs.owners]
        order = np.argsort(shard, kind="stable")
        edges = np.searchsorted(shard[order], np.arange(shards + 1))
        for start, stop in pairwise(edges.tolist()):
            some = order[start:stop]
            yield ReachedPairs(pairs.owners[some], pairs.numbers[some], pairs.scores[some])


class BufferStep(NamedTuple):
    """What a buffer shard needs for a step."""

    refills: list[Refills]  # stored before the step
    timeline: Timeline
    pairs: list[ReachedPairs]
    operations: Operations
    ids: NumberedStrings
    again: Int64s

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes to apply."""
        new = sum(2 * int(column.nbytes) for pairs in self.pairs for column in pairs)
        return new + sum(2 * int(each.scores.nbytes) for each in self.refills)


class CachedBufferShard(BufferShard):
    """A buffer shard on its node; files beside it keep the last step's results, for retries."""

    def _beside(self, name: str) -> Path:
        assert isinstance(self.memory, MappedMemory)  # noqa: S101 - as nodes keep it
        return self.memory.folder / name

    def apply(self, step: BufferStep) -> None:
        """Take a step, and write its results to files."""
        for refills in step.refills:
            self.fill(refills)
        operations = step.operations
        taken, requests = take_step(self, step.timeline, _joined(step.pairs), operations)
        self._beside(_UPDATES).unlink(missing_ok=True)
        with pa.ipc.new_file(str(self._beside(_UPDATES)), UPDATE_SCHEMA) as writer:
            for table in named_updates(taken.updates, self.names_of, step.ids, step.again):
                writer.write_table(table)
        outcome = ShardOutcome(requests, operations.ended, taken.raised, taken.thetas)
        self._beside(_OUTCOME).write_bytes(pack(outcome))
        self.forget(operations.ended)

    def updates(self) -> Iterator[pa.Table]:
        """The updates of the last step."""
        return read_updates(self._beside(_UPDATES))

    def outcome(self) -> ShardOutcome:
        """The other results of the last step."""
        return unpack(self._beside(_OUTCOME).read_bytes(), ShardOutcome)


def _joined(parts: list[ReachedPairs]) -> ReachedPairs:
    none = ReachedPairs(np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0))
    return ReachedPairs(*map(np.concatenate, zip(none, *parts, strict=True)))


class IdsStep(NamedTuple):
    """The ids of the messages of a step, and the oldest message that is still needed."""

    ids: pa.Array
    first: int

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes to apply."""
        return int(self.ids.nbytes)


class CachedMessageIds:
    """The ids of all messages of the window, which every node has."""

    def __init__(self, memory: Memory, described: Mapping[str, int] | None = None) -> None:
        self._memory = memory
        self.texts = NumberedStrings(0, memory, "message_ids", described)

    def describe(self) -> dict[str, Any]:
        """Return what is needed to attach to them in their memory."""
        return self.texts.describe()

    def begin(self, first: int) -> None:
        """Start empty; `first` is the number of the first message."""
        self.texts = NumberedStrings(first, self._memory, "message_ids")

    def apply(self, step: IdsStep) -> None:
        """Add the ids of a step, and drop those that are no longer needed."""
        self.texts.drop_before(min(step.first, self.texts.first + len(self.texts)))
        self.texts.extend(*buffers(step.ids))
