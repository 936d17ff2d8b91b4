"""Updates of top-k subscriptions: as numbers, with their ids, and in a file beside a shard."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.message_ids import NumberedStrings
from nearcast.events.columns import UPDATE_SCHEMA, updates_table
from nearcast.events.fields import ADD, CHANGE, REMOVE

_AT_ONCE = 1 << 19  # updates that are held in memory before they are written


class RankedUpdates(NamedTuple):
    """Changes of results; a score below 0 means that the message left them.

    A message that leaves and enters with one event, in two rows one after the other, stays a result
    with another score.
    """

    seq: Int64s
    owners: Int32s
    numbers: Int64s  # of messages
    scores: Floats

    def of(self, which: slice | Int64s) -> RankedUpdates:
        """Some of them."""
        return RankedUpdates(
            self.seq[which], self.owners[which], self.numbers[which], self.scores[which]
        )


def named_updates(
    updates: RankedUpdates,
    names: Callable[[Int32s], pa.Array],
    ids: NumberedStrings,
    again: Int64s | None = None,
) -> Iterator[pa.Table]:
    """Updates as tables with ids; `names` maps owners to the ids of subscriptions.

    With an event in `again`, a message arrives with the id of one that expires. If one replaces the
    other in the results, nothing has changed.
    """
    if again is not None and len(again):
        updates = updates.of(_net(updates, ids, again))
    updates, rescored = _rescored(updates)
    for first in range(0, len(updates.seq), _AT_ONCE):
        part = slice(first, first + _AT_ONCE)
        seq, owners, numbers, scores = updates.of(part)
        ops = np.where(scores >= 0, ADD, REMOVE).astype(np.int8)
        ops[rescored[part]] = CHANGE
        yield updates_table(seq, ops, names(owners), ids.take(numbers), scores)


def _rescored(updates: RankedUpdates) -> tuple[RankedUpdates, npt.NDArray[np.bool_]]:
    """The updates with one row for each change of a score, and which rows these are."""
    rescored = np.zeros(len(updates.seq), np.bool_)
    rescored[1:] = updates.numbers[1:] == updates.numbers[:-1]
    rescored[1:] &= updates.seq[1:] == updates.seq[:-1]
    rescored[1:] &= updates.owners[1:] == updates.owners[:-1]
    if not rescored.any():
        return updates, rescored
    kept = np.flatnonzero(~np.append(rescored[1:], False))
    return updates.of(kept), rescored[kept]


def _net(updates: RankedUpdates, ids: NumberedStrings, again: Int64s) -> npt.NDArray[np.int64]:
    """The places of all updates except those that cancel each other."""
    odd = np.flatnonzero(np.isin(updates.seq, again))
    keys = list(
        zip(
            updates.seq[odd].tolist(),
            updates.owners[odd].tolist(),
            ids.take(updates.numbers[odd]).to_pylist(),
            strict=True,
        )
    )
    times = Counter(keys)
    both = odd[[times[key] > 1 for key in keys]]
    return np.setdiff1d(np.arange(len(updates.seq)), both)


def read_updates(path: Path) -> Iterator[pa.Table]:
    """The updates in a file beside a shard."""
    with pa.OSFile(str(path)) as file, pa.ipc.open_file(file) as reader:
        for number in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(number)])


class UpdateSpool:
    """Gathers the updates of a step, and writes them to a file; `name` gives them their ids."""

    def __init__(self, path: Path, name: Callable[[RankedUpdates], Iterator[pa.Table]]) -> None:
        self._path, self._name = path, name
        self._parts: list[RankedUpdates] = []
        self._held = 0
        self._file: Any = None
        self._writer: Any = None
        self.rows = 0

    def __enter__(self) -> UpdateSpool:
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None and self._parts:
            self._write()
        if self._writer is not None:
            self._writer.close()
            self._file.close()

    def add(self, updates: RankedUpdates) -> None:
        """Add some updates."""
        if len(updates.seq):
            self._parts.append(updates)
            self._held += len(updates.seq)
            if self._held > _AT_ONCE:
                self._write()

    def _write(self) -> None:
        updates = RankedUpdates(*map(np.concatenate, zip(*self._parts, strict=True)))
        if self._writer is None:
            self._file = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_file(self._file, UPDATE_SCHEMA)
        for table in self._name(updates):
            self._writer.write_table(table)
            self.rows += len(table)
        self._parts, self._held = [], 0
