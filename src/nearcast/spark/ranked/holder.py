"""The top-k subscriptions of one worker, and the whole window: the embedded core in mapped files.

Unlike a shard of boolean subscriptions, it is changed by messages. So a step is applied once, and
what it told is kept beside it: a task that is run again for the same step says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.engine.message_ids import Texts
from nearcast.geo import Box, planar_distance
from nearcast.index.memory import MappedMemory, Memory
from nearcast.index.table import Column, Floats, Int32s, Int64s
from nearcast.spark.names import Names
from nearcast.spark.operations import GONE, RANKED, of_kind
from nearcast.spark.outputs import UPDATES
from nearcast.spark.ranked.reading import tops_in
from nearcast.text import Analyser
from nearcast.text.columns import buffers
from nearcast.topk import Window
from nearcast.topk.core import Changes, TopK
from nearcast.topk.terms import Bags, TermNumbers

_AT_ONCE = 20_000  # messages or subscriptions that are entered together
_WORTH_WRITING = 1 << 19  # updates that are held in memory before they are written
_UPDATES = "updates.bin"  # as what it belongs to: a torn one is noticed
_NOBODY = -1

Tell = Callable[[int, int], None]
"""Is told how many of how many messages and subscriptions have been entered."""


class Rules(NamedTuple):
    """What the scores of a pipeline depend on."""

    window: Window
    space: Box
    analyser: Analyser
    idf: Callable[[str], float] | None

    def __call__(self, memory: Memory) -> RankedShard:
        """Make an empty holder."""
        return RankedShard(memory, self)

    def attach(self, memory: Memory, described: Mapping[str, Any]) -> RankedShard:
        """Find one again in memory that is kept in files."""
        return RankedShard(memory, self, described)


class RankedStep(NamedTuple):
    """What a worker is told of a step."""

    messages: pa.Table  # in the schema `window.MESSAGES`
    operations: pa.Table  # its own, of the log: what begins and what ends

    @property
    def nbytes(self) -> int:
        """About how much room it takes."""
        return int(self.messages.nbytes + 8 * self.operations.nbytes)


class _Told(NamedTuple):
    """Updates as numbers: when, whose, which message, what it scores; negative ops remove."""

    seq: Int64s
    ops: Int32s
    owners: Int32s
    messages: Int64s
    scores: Floats


class _Begun(NamedTuple):
    """Subscriptions that begin, as the core takes them."""

    owners: Int32s
    tops: Floats
    bags: Bags

    @classmethod
    def read(cls, begun: pa.Table, terms: TermNumbers) -> _Begun:
        bags = terms.read(begun["query"].combine_chunks()) if len(begun) else _NO_BAGS
        return cls(begun["owner"].to_numpy(), tops_in(begun), bags)


_NO_BAGS = Bags(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


class RankedShard:
    """Holds top-k subscriptions and the window, and says what each step changes."""

    def __init__(
        self, memory: Memory, rules: Rules, described: Mapping[str, Any] | None = None
    ) -> None:
        self._memory = memory
        space = rules.space
        if described is None:
            diagonal = planar_distance(space.west, space.south, space.east, space.north)
            self.core = TopK(rules.window, space.west, space.south, diagonal, memory=memory)
            self._terms = TermNumbers(self.core, rules.analyser, rules.idf, memory)
            self._ids = Texts(0, memory, "message_ids")
            self._names = Names(memory, "owner")
            sizes = {"owners": 0, "subs": 0, "ended": 0}
            self.live = self.told = 0
        else:
            self.core = TopK.attach(memory, described["core"])
            terms = described["terms"]
            self._terms = TermNumbers(self.core, rules.analyser, rules.idf, memory, terms)
            self._ids = Texts(0, memory, "message_ids", described["ids"])
            self._names = Names.attach(memory, "owner", described["names"])
            sizes = described["sizes"]
            self.live, self.told = described["live"], described["told"]
        self._sub_of = Column(np.int32, 0, memory, "sub_of", sizes["owners"])  # by owner
        self._owner_of = Column(np.int32, 0, memory, "owner_of", sizes["subs"])  # by number
        self._ended = Column(np.int32, 0, memory, "ended", sizes["ended"])  # names still known

    def describe(self) -> dict[str, Any]:
        """Say what `Rules.attach` needs to find it again in its memory."""
        return {
            "core": self.core.describe(),
            "terms": self._terms.describe(),
            "ids": self._ids.describe(),
            "names": self._names.describe(),
            "sizes": {
                "owners": self._sub_of.size,
                "subs": self._owner_of.size,
                "ended": self._ended.size,
            },
            "live": self.live,
            "told": self.told,
        }

    def build(self, messages: pa.Table, begun: pa.Table, tell: Tell) -> None:
        """Take in a window and subscriptions that stand, from nothing; nobody is told of it."""
        total = len(messages) + len(begun)
        for first in range(0, len(messages), _AT_ONCE):
            some = messages.slice(first, _AT_ONCE)
            tell(first, total)
            self._terms.sweep()
            posts = _Posts.read(some, self._terms)
            self._ids.extend(*buffers(some["id"].combine_chunks()))
            self.core.publish(*posts.part(0, len(some)))
        for first in range(0, len(begun), _AT_ONCE):
            tell(len(messages) + first, total)
            some = begun.slice(first, _AT_ONCE)
            self._enter(_Begun.read(some, self._terms), some["id"].combine_chunks())

    def _enter(self, begun: _Begun, ids: pa.Array) -> Int32s:
        """Let subscriptions begin, and give their numbers."""
        owners, tops, bags = begun
        ks = tops[:, 2].astype(np.int32)
        points = np.ascontiguousarray(tops[:, :2])
        alphas = np.ascontiguousarray(tops[:, 3])
        subs = self.core.subscribe(points, alphas, ks, bags.starts, bags.terms)
        _reach(self._sub_of, owners)
        _reach(self._owner_of, subs)
        self._sub_of.array[owners] = subs
        self._owner_of.array[subs] = owners
        self._names.put(owners, ids)
        self.live += len(owners)
        return subs

    def apply(self, step: RankedStep) -> None:
        """Take a step, event by event, and keep what it tells."""
        self._names.forget(self._ended.array.copy())
        self._ids.drop_before(self.core.first)
        self._terms.sweep()
        with _Tellings(self) as tellings:
            ended = _Walk(self, step, tellings).go()
        self.told = tellings.rows
        self._ended.replace(ended)

    @property
    def file(self) -> Path:
        """Where the updates of the last step are kept."""
        assert isinstance(self._memory, MappedMemory)  # noqa: S101 - as nodes keep it
        return self._memory.folder / _UPDATES

    def updates(self) -> Iterator[pa.Table]:
        """What the last step told."""
        if not self.told:
            return
        with pa.OSFile(str(self.file)) as file, pa.ipc.open_file(file) as reader:
            for number in range(reader.num_record_batches):
                yield pa.Table.from_batches([reader.get_batch(number)])

    def named(self, told: _Told) -> pa.Table:
        """Updates with the names of subscriptions and messages."""
        added = told.ops > 0
        columns = [
            pa.array(told.seq),
            pa.array(["remove", "add"]).take(pa.array(added.astype(np.int8))),
            self._names.of(told.owners).cast(pa.string()),
            self._ids.take(told.messages).cast(pa.string()),
            pa.array(told.scores, mask=~added),
        ]
        return pa.Table.from_arrays(columns, schema=UPDATES)

    def stats(self) -> dict[str, int]:
        """Figures about what it holds."""
        core = self.core
        size = core.subscription_bytes + core.message_bytes + self._terms.nbytes
        size += self._ids.nbytes + self._names.nbytes + self._sub_of.nbytes + self._owner_of.nbytes
        return {"rows": self.live, "bytes": size, "window": core.next - core.first}


class _Posts(NamedTuple):
    """Messages as the core takes them."""

    points: Floats
    at: Floats
    bags: Bags

    @classmethod
    def read(cls, messages: pa.Table, terms: TermNumbers) -> _Posts:
        texts = messages["text"].combine_chunks()
        points = np.column_stack([messages["lon"].to_numpy(), messages["lat"].to_numpy()])
        bags = terms.read(texts) if len(messages) else _NO_BAGS
        return cls(points, messages["at"].to_numpy().copy(), bags)

    def part(self, first: int, end: int) -> tuple[Floats, Floats, Int64s, Int32s, Int32s]:
        """Some of them."""
        starts, terms, counts = self.bags
        return self.points[first:end], self.at[first:end], starts[first : end + 1], terms, counts


class _Tellings:
    """Gathers updates, and writes them beside a holder."""

    def __init__(self, shard: RankedShard) -> None:
        self._shard = shard
        self._parts: list[_Told] = []
        self._held = 0
        self._file: Any = None
        self._writer: Any = None
        self.rows = 0

    def __enter__(self) -> _Tellings:
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None and self._parts:
            self._write()
        if self._writer is not None:
            self._writer.close()
            self._file.close()

    def add(self, told: _Told) -> None:
        """Take some more."""
        if len(told.seq):
            self._parts.append(told)
            self._held += len(told.seq)
            if self._held > _WORTH_WRITING:
                self._write()

    def _write(self) -> None:
        told = _Told(*map(np.concatenate, zip(*self._parts, strict=True)))
        if self._writer is None:
            self._file = pa.OSFile(str(self._shard.file), "wb")
            self._writer = pa.ipc.new_file(self._file, UPDATES)
        self._writer.write_table(self._shard.named(told))
        self.rows += len(told.seq)
        self._parts, self._held = [], 0


class _Walk:
    """Goes through the events of a step in their order."""

    def __init__(self, shard: RankedShard, step: RankedStep, tellings: _Tellings) -> None:
        self._shard, self._core, self._tellings = shard, shard.core, tellings
        messages = step.messages.combine_chunks()
        self._seq: Int64s = messages["seq"].to_numpy()
        self._at: list[float] = messages["at"].to_pylist()
        arrived = messages["number"].to_numpy() >= 0
        self._nth = np.cumsum(arrived) - arrived  # by row: how many messages came before it
        some = messages if arrived.all() else messages.filter(pa.array(arrived))
        self._posts = _Posts.read(some, shard._terms)
        self._message_ids = some["id"].combine_chunks()
        shard._ids.extend(*buffers(self._message_ids))
        again = messages["again"].combine_chunks().to_numpy(zero_copy_only=False)
        self._slides = ~arrived
        self._special = [*np.flatnonzero(again | ~arrived).tolist(), len(messages)]
        self._read_operations(step.operations)

    def _read_operations(self, operations: pa.Table) -> None:
        begun = of_kind(operations, RANKED).sort_by("seq").combine_chunks()
        gone = of_kind(operations, GONE)
        self._begun = _Begun.read(begun, self._shard._terms)
        self._begun_ids = begun["id"].combine_chunks()
        owners = gone["owner"].to_numpy()
        known = self._shard._sub_of.array
        held = np.isin(owners, self._begun.owners)
        inside = np.flatnonzero(owners < len(known))
        held[inside] |= known[owners[inside]] != _NOBODY
        starts, ends = begun["seq"].to_numpy(), gone["seq"].to_numpy()[held]
        self._when = np.union1d(starts, ends)
        self._begins = np.full(len(self._when), _NOBODY, np.int64)  # by event: the place in begun
        self._begins[np.searchsorted(self._when, starts)] = np.arange(len(starts))
        self._ends = np.full(len(self._when), _NOBODY, np.int32)  # by event: the owner that ends
        self._ends[np.searchsorted(self._when, ends)] = owners[held]

    def go(self) -> Int32s:
        """Take all events; give the owners that ended."""
        row, event, turn = 0, 0, 0
        rows, events = len(self._seq), len(self._when)
        places = [*np.searchsorted(self._seq, self._when).tolist(), rows]
        while row < rows or event < events:
            place = places[event]
            while self._special[turn] < row:
                turn += 1
            stop = min(place, self._special[turn])
            if stop > row:
                self._publish(row, stop)
                row = stop
                continue
            together = event < events and place == row < rows
            together = together and self._seq[row] == self._when[event]
            if row < rows and self._special[turn] == row and (row < place or together):
                if not self._slides[row]:
                    self._publish_again(row)
                elif together:
                    self._change(event, event + 1, self._at[row])
                    event += 1
                else:
                    self._tell(self._core.advance(self._at[row]), self._seq[row : row + 1])
                row += 1
                continue
            last = event + 1
            while last < events and places[last] == row and not (
                row < rows and self._seq[row] == self._when[last]
            ):  # fmt: skip
                last += 1
            self._change_many(event, last)
            event = last
        return self._ends[self._ends != _NOBODY]

    def _publish(self, first: int, end: int) -> None:
        nth = int(self._nth[first])
        changes = self._core.publish(*self._posts.part(nth, nth + end - first))
        self._tell(changes, self._seq[first:end])

    def _publish_again(self, row: int) -> None:
        """Publish a message whose id was that of one that leaves the window with this event.

        Where both are results, the one after the other, nothing has changed.
        """
        nth = int(self._nth[row])
        changes = self._core.publish(*self._posts.part(nth, nth + 1))
        ids = self._shard._ids.take(changes.messages)
        same = np.flatnonzero(np.array(ids.to_pylist()) == self._message_ids[nth].as_py())
        pairs, times = np.unique(changes.subscriptions[same], return_counts=True)
        both = np.isin(changes.subscriptions[same], pairs[times > 1])
        kept = np.ones(len(changes.events), np.bool_)
        kept[same[both]] = False
        self._tell(_some(changes, kept), self._seq[row : row + 1])

    def _change_many(self, first: int, end: int) -> None:
        """Take operations between which no message comes: as many at once as can be."""
        ends = self._ends[first:end]
        if (ends != _NOBODY).any():
            begun: set[int] = set()
            begins = self._begins[first:end]
            owners = self._begun.owners
            for at, (end_of, begin) in enumerate(zip(ends.tolist(), begins.tolist(), strict=True)):
                if end_of in begun:
                    self._change(first, first + at)
                    return self._change_many(first + at, end)
                if begin != _NOBODY:
                    begun.add(int(owners[begin]))
        for start in range(first, end, _AT_ONCE):
            self._change(start, min(start + _AT_ONCE, end))
        return None

    def _change(self, first: int, end: int, now: float | None = None) -> None:
        """Take operations on subscriptions that are all different; time may pass with a single one.

        What a replaced one had and still has changes nothing.
        """
        shard, core = self._shard, self._core
        begins, ends = self._begins[first:end], self._ends[first:end]
        ended, replaced = ends != _NOBODY, (ends != _NOBODY) & (begins != _NOBODY)
        subs = shard._sub_of.array[ends[ended]] if ended.any() else np.empty(0, np.int32)
        before = core.members(subs[replaced[ended]])
        before = before._replace(events=np.flatnonzero(replaced)[before.events])
        when = self._when[first:end]
        if now is not None:
            changes = core.advance(now)
            self._tell(_some(changes, ~np.isin(changes.subscriptions, subs)), when)
        if len(subs):
            core.unsubscribe(subs)
            shard._sub_of.array[ends[ended]] = _NOBODY
            shard.live -= len(subs)
        came = np.flatnonzero(begins != _NOBODY)
        if not len(came):
            return
        start, stop = int(begins[came[0]]), int(begins[came[-1]]) + 1
        owners, tops, (starts, terms, counts) = self._begun
        bags = Bags(starts[start : stop + 1], terms, counts)
        begun = _Begun(owners[start:stop], tops[start:stop], bags)
        numbers = shard._enter(begun, self._begun_ids.slice(start, stop - start))
        after = core.members(numbers)
        after = after._replace(events=came[after.events])
        own = np.full(len(when), _NOBODY, np.int32)
        own[came] = owners[start:stop]
        for some, others, sign in ((before, after, -1), (after, before, 1)):
            kept = ~np.isin(_pairs(some), _pairs(others))
            events = some.events[kept]
            ops = np.full(len(events), sign, np.int32)
            told = _Told(when[events], ops, own[events], some.messages[kept], some.scores[kept])
            self._tellings.add(told)

    def _tell(self, changes: Changes, when: Int64s) -> None:
        owners = self._shard._owner_of.array[changes.subscriptions]
        self._tellings.add(
            _Told(when[changes.events], changes.ops, owners, changes.messages, changes.scores)
        )


def _some(changes: Changes, kept: npt.NDArray[np.bool_]) -> Changes:
    return Changes(*(column[kept] for column in changes))


def _pairs(changes: Changes) -> Int64s:
    """Each event and message as one number; there are not so many messages in a window."""
    return (changes.events.astype(np.int64) << 40) | (changes.messages & ((1 << 40) - 1))


def _reach(column: Column, places: Int32s) -> None:
    """Make a column long enough to have these places."""
    more = int(places.max(initial=-1)) + 1 - column.size
    if more > 0:
        column.lengthen(more)
        column.array[-more:] = _NOBODY
