"""The top-k subscriptions of one worker, and the whole window: the embedded core in mapped files.

Unlike a shard of boolean subscriptions, it is changed by messages. So a step is applied once, and
its updates are kept beside it: a task that is run again for the same step writes the same ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.column import Column
from nearcast.arrays.memory import MappedMemory, Memory
from nearcast.arrays.slots import Secret
from nearcast.arrays.types import Int32s
from nearcast.engine.message_ids import NumberedStrings
from nearcast.geo import Box, planar_distance
from nearcast.spark.names import Names
from nearcast.spark.topk.reading import NO_OWNER, RankedSubscriptions, reach
from nearcast.spark.topk.steps import CoreMessages, Mask, RankedStep, read_subscriptions
from nearcast.spark.topk.updates import RankedUpdates, named_updates
from nearcast.spark.workers.ranked_work import BUCKETS, buckets_of
from nearcast.text import Analyser
from nearcast.text.columns import buffers
from nearcast.topk import Window
from nearcast.topk.core import TopK
from nearcast.topk.terms import Bags, TermNumbers

AT_ONCE = 20_000
"""Messages or subscriptions that are entered together."""

_UPDATES = "updates.bin"  # named like the arrays of the shard, so that a torn file is noticed

ProgressCallback = Callable[[int, int], None]
"""Called with the number of messages and subscriptions added so far, and the total."""


class RankingRules(NamedTuple):
    """What the scores of a pipeline depend on."""

    window: Window
    space: Box
    analyser: Analyser
    idf: Callable[[str], float] | None
    secret: Secret


class RankedShard:
    """Holds top-k subscriptions and the window."""

    def __init__(
        self, memory: Memory, described: Mapping[str, Any] | None = None, *, rules: RankingRules
    ) -> None:
        """Make an empty one, or attach to the one that `describe` described."""
        self._memory, self._secret = memory, rules.secret
        space = rules.space
        if described is None:
            diagonal = planar_distance(space.west, space.south, space.east, space.north)
            self.core = TopK(rules.window, space.west, space.south, diagonal, memory=memory)
        else:
            self.core = TopK.attach(memory, described["core"])
        known: Mapping[str, Any] = defaultdict(lambda: None) if described is None else described
        self.terms = TermNumbers(
            self.core, rules.analyser, rules.idf, memory, known["terms"], rules.secret
        )
        self.ids = NumberedStrings(0, memory, "message_ids", known["ids"])
        self._names = Names(memory, "owner", known["names"])
        sizes = known["sizes"] or {"owners": 0, "subs": 0, "ended": 0}
        self.live, self.update_count = known["live"] or 0, known["told"] or 0
        self.sub_of = Column(np.int32, 0, memory, "sub_of", sizes["owners"])
        """By owner: its number in the core."""
        self.owner_of = Column(np.int32, 0, memory, "owner_of", sizes["subs"])
        """By number in the core: its owner."""
        self._mine: Mask = memory.array("mine", BUCKETS, np.bool_)
        if described is None:
            self._mine[:] = False
        self._ended = Column(np.int32, 0, memory, "ended", sizes["ended"])  # names still known

    def describe(self) -> dict[str, Any]:
        """Return what is needed to attach to it in its memory."""
        return {
            "core": self.core.describe(),
            "terms": self.terms.describe(),
            "ids": self.ids.describe(),
            "names": self._names.describe(),
            "sizes": {
                "owners": self.sub_of.size,
                "subs": self.owner_of.size,
                "ended": self._ended.size,
            },
            "live": self.live,
            "told": self.update_count,
        }

    def build(
        self, messages: pa.Table, begun: pa.Table, mine: Mask, progress: ProgressCallback
    ) -> None:
        """Build the shard from the messages of a window and the subscriptions of some buckets.

        Nothing is written as an update.
        """
        self._mine[:] = mine
        total = len(messages) + len(begun)
        for first in range(0, len(messages), AT_ONCE):
            some = messages.slice(first, AT_ONCE)
            progress(first, total)
            self.terms.sweep()
            posts = CoreMessages.read(some, self.terms)
            self.ids.extend(*buffers(some["id"].combine_chunks()))
            self.core.publish(*posts.part(0, len(some)))
        for first in range(0, len(begun), AT_ONCE):
            progress(len(messages) + first, total)
            self._enter_some(begun.slice(first, AT_ONCE))

    def _enter_some(self, begun: pa.Table) -> None:
        self.enter(read_subscriptions(begun, self.terms))

    def enter(self, begun: RankedSubscriptions[Bags]) -> Int32s:
        """Add subscriptions, and return their numbers in the core."""
        owners, bags = begun.owners, begun.terms
        subs = self.core.subscribe(begun.points, begun.alphas, begun.ks, bags.starts, bags.terms)
        reach(self.sub_of, owners)
        reach(self.owner_of, subs)
        self.sub_of.array[owners] = subs
        self.owner_of.array[subs] = owners
        self._names.put(owners, begun.ids)
        self.live += len(owners)
        return subs

    def change_buckets(self, step: RankedStep) -> None:
        """Forget the subscriptions of buckets that it lost, and add those of buckets it gained."""
        lost, gained = self._mine & ~step.mine, step.mine & ~self._mine
        if lost.any():
            owners = np.flatnonzero(self.sub_of.array != NO_OWNER).astype(np.int32)
            going = owners[lost[buckets_of(self._names.of(owners), self._secret)]]
            self.core.unsubscribe(self.sub_of.array[going])
            self.sub_of.array[going] = NO_OWNER
            self._names.forget(going)
            self.live -= len(going)
        if gained.any():
            begun = step.standing(gained)
            for first in range(0, len(begun), AT_ONCE):
                self._enter_some(begun.slice(first, AT_ONCE))
        self._mine[:] = step.mine

    def forget_ended(self) -> None:
        """Forget what was kept of the previous step for its updates."""
        self._names.forget(self._ended.array.copy())
        self.ids.drop_before(self.core.first)
        self.terms.sweep()

    def end(self, owners: Int32s) -> None:
        """Remember which subscriptions ended with the step; their names are still known."""
        self._ended.replace(owners)

    @property
    def file(self) -> Path:
        """Where the updates of the last step are kept."""
        assert isinstance(self._memory, MappedMemory)  # noqa: S101 - as nodes keep it
        return self._memory.folder / _UPDATES

    def named(self, updates: RankedUpdates) -> Iterator[pa.Table]:
        """Updates as tables with the ids of subscriptions and messages."""
        return named_updates(updates, self._names.of, self.ids)

    def stats(self) -> dict[str, int]:
        """Sizes, as in a `WorkerReport`: `active` are the messages in the window."""
        core = self.core
        size = core.subscription_bytes + core.message_bytes + self.terms.nbytes
        size += self.ids.nbytes + self._names.nbytes + self.sub_of.nbytes + self.owner_of.nbytes
        return {"rows": self.live, "bytes": size, "active": core.next - core.first}
