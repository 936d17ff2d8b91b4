"""A shard that takes steps: event by event, or many at once where the result is the same.

Unlike a shard of boolean subscriptions, it is changed by messages. So a step is applied once, and
its updates are kept beside it: a task that is run again for the same step writes the same ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Int32s, Int64s
from nearcast.events.fields import ADD
from nearcast.spark.operations import GONE, RANKED, of_kind
from nearcast.spark.topk.holder import AT_ONCE, RankedShard
from nearcast.spark.topk.reading import NO_OWNER
from nearcast.spark.topk.steps import CoreMessages, RankedStep, read_subscriptions
from nearcast.spark.topk.updates import RankedUpdates, UpdateSpool, read_updates
from nearcast.text.columns import buffers
from nearcast.topk.core import TopkChanges
from nearcast.topk.kernels.layout import NOTHING
from nearcast.topk.terms import Bags


class RankedHolder(RankedShard):
    """A shard on its node, with the updates of its last step in a file beside it."""

    def apply(self, step: RankedStep) -> None:
        """Take a step, event by event, and keep its updates."""
        self.forget_ended()
        self.change_buckets(step)
        with UpdateSpool(self.file, self.named) as spool:
            ended = StepWalk(self, step, spool.add).go()
        self.update_count = spool.rows
        self.end(ended)

    def updates(self) -> Iterator[pa.Table]:
        """The updates of the last step."""
        return read_updates(self.file) if self.update_count else iter(())


class StepWalk:
    """Takes a shard through the events of a step, and passes the updates to `add`."""

    def __init__(
        self, shard: RankedShard, step: RankedStep, add: Callable[[RankedUpdates], None]
    ) -> None:
        self._shard, self._core, self._add = shard, shard.core, add
        messages = step.messages.combine_chunks()
        self._seq: Int64s = messages["seq"].to_numpy()
        self._at: list[float] = messages["at"].to_pylist()
        arrived = messages["number"].to_numpy() >= 0
        self._nth = np.cumsum(arrived) - arrived  # by row: how many messages came before it
        some = messages if arrived.all() else messages.filter(pa.array(arrived))
        self._posts = CoreMessages.read(some, shard.terms)
        self._message_ids = some["id"].combine_chunks()
        shard.ids.extend(*buffers(self._message_ids))
        again = messages["again"].combine_chunks().to_numpy(zero_copy_only=False)
        self._slides = ~arrived
        self._special = [*np.flatnonzero(again | ~arrived).tolist(), len(messages)]
        self._read_operations(step.operations)

    def _read_operations(self, operations: pa.Table) -> None:
        begun = of_kind(operations, RANKED).sort_by("seq").combine_chunks()
        gone = of_kind(operations, GONE)
        self._begun = read_subscriptions(begun, self._shard.terms)
        owners = gone["owner"].to_numpy()
        known = self._shard.sub_of.array
        held = np.isin(owners, self._begun.owners)
        inside = np.flatnonzero(owners < len(known))
        held[inside] |= known[owners[inside]] != NO_OWNER
        starts, ends = begun["seq"].to_numpy(), gone["seq"].to_numpy()[held]
        self._when = np.union1d(starts, ends)
        self._begins = np.full(len(self._when), NO_OWNER, np.int64)  # by event: the place in begun
        self._begins[np.searchsorted(self._when, starts)] = np.arange(len(starts))
        self._ends = np.full(len(self._when), NO_OWNER, np.int32)  # by event: the owner that ends
        self._ends[np.searchsorted(self._when, ends)] = owners[held]

    def go(self) -> Int32s:
        """Take all events; return the owners that ended."""
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
                    self._report(self._core.advance(self._at[row]), self._seq[row : row + 1])
                row += 1
                continue
            last = event + 1
            while last < events and places[last] == row and not (
                row < rows and self._seq[row] == self._when[last]
            ):  # fmt: skip
                last += 1
            self._change_many(event, last)
            event = last
        ended: Int32s = self._ends[self._ends != NO_OWNER]
        return ended

    def _publish(self, first: int, end: int) -> None:
        nth = int(self._nth[first])
        changes = self._core.publish(*self._posts.part(nth, nth + end - first))
        self._report(changes, self._seq[first:end])

    def _publish_again(self, row: int) -> None:
        """Publish a message with the id of one that leaves the window with this event.

        If one replaces the other in the results, nothing has changed.
        """
        nth = int(self._nth[row])
        changes = self._core.publish(*self._posts.part(nth, nth + 1))
        ids = self._shard.ids.take(changes.messages)
        same = np.flatnonzero(np.array(ids.to_pylist()) == self._message_ids[nth].as_py())
        pairs, times = np.unique(changes.subscriptions[same], return_counts=True)
        both = np.isin(changes.subscriptions[same], pairs[times > 1])
        kept = np.ones(len(changes.events), np.bool_)
        kept[same[both]] = False
        self._report(_some(changes, kept), self._seq[row : row + 1])

    def _change_many(self, first: int, end: int) -> None:
        """Take operations between which no message arrives, as many at once as possible."""
        begun: set[int] = set()
        start = first
        several = bool((self._ends[first:end] != NO_OWNER).any())
        for at in range(first, end) if several else ():
            if int(self._ends[at]) in begun:  # what it ends must have begun before
                self._change(start, at)
                start = at
                begun.clear()
            if self._begins[at] != NO_OWNER:
                begun.add(int(self._begun.owners[self._begins[at]]))
        for some in range(start, end, AT_ONCE):
            self._change(some, min(some + AT_ONCE, end))

    def _change(self, first: int, end: int, now: float | None = None) -> None:
        """Take operations on different subscriptions; with `now`, a single one at that time.

        A message that is a result before and after a replacement changes its score at most.
        """
        shard, core = self._shard, self._core
        begins, ends = self._begins[first:end], self._ends[first:end]
        ended, replaced = ends != NO_OWNER, (ends != NO_OWNER) & (begins != NO_OWNER)
        subs = shard.sub_of.array[ends[ended]] if ended.any() else np.empty(0, np.int32)
        before = core.members(subs[replaced[ended]])
        before = _at(before, np.flatnonzero(replaced))
        when = self._when[first:end]
        if now is not None:
            changes = core.advance(now)
            self._report(_some(changes, ~np.isin(changes.subscriptions, subs)), when)
        if len(subs):
            core.unsubscribe(subs)
            shard.sub_of.array[ends[ended]] = NO_OWNER
            shard.live -= len(subs)
        came = np.flatnonzero(begins != NO_OWNER)
        if not len(came):
            return
        start, stop = int(begins[came[0]]), int(begins[came[-1]]) + 1
        owners, ids, points, alphas, ks, (starts, terms, counts) = self._begun
        begun = self._begun._replace(
            owners=owners[start:stop],
            ids=ids.slice(start, stop - start),
            points=points[start:stop],
            alphas=alphas[start:stop],
            ks=ks[start:stop],
            terms=Bags(starts[start : stop + 1], terms, counts),
        )
        numbers = shard.enter(begun)
        after = _at(core.members(numbers), came)
        own = np.full(len(when), NO_OWNER, np.int32)
        own[came] = owners[start:stop]
        for some, others, added in ((before, after, False), (after, before, True)):
            kept = ~np.isin(_pairs(some), _pairs(others))
            events, scores = some.events[kept], some.scores[kept]
            scores = scores if added else np.full(len(scores), NOTHING)
            self._add(RankedUpdates(when[events], own[events], some.messages[kept], scores))
        _, old, new = np.intersect1d(_pairs(before), _pairs(after), True, return_indices=True)
        new = np.repeat(new[before.scores[old] != after.scores[new]], 2)
        events, scores = after.events[new], after.scores[new].copy()
        scores[::2] = NOTHING
        self._add(RankedUpdates(when[events], own[events], after.messages[new], scores))

    def _report(self, changes: TopkChanges, when: Int64s) -> None:
        owners = self._shard.owner_of.array[changes.subscriptions]
        scores = np.where(changes.ops == ADD, changes.scores, NOTHING)
        self._add(RankedUpdates(when[changes.events], owners, changes.messages, scores))


def _some(changes: TopkChanges, kept: npt.NDArray[np.bool_]) -> TopkChanges:
    events, ops, subscriptions, messages, scores = changes
    return TopkChanges(events[kept], ops[kept], subscriptions[kept], messages[kept], scores[kept])


def _at(changes: TopkChanges, places: Int64s) -> TopkChanges:
    """Changes with their events mapped to `places`."""
    return changes._replace(events=places[changes.events].astype(np.int32))


def _pairs(changes: TopkChanges) -> Int64s:
    """Each event and message as one number; a window has fewer than 2**40 messages."""
    return (changes.events.astype(np.int64) << 40) | (changes.messages & ((1 << 40) - 1))
