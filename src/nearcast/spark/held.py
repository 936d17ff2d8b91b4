"""The active messages that a shard holds, for subscriptions that come later or move.

They are kept as the engine keeps them (`nearcast.active`), in arrays that all processes of a node
share. A message is known by the sequence number of its event: one across the antimeridian has two
slots of the same number.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.active import ActiveStore, MessageTerms
from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.table import Rows
from nearcast.spark.names import Names
from nearcast.spark.operations import BegunSubscriptions
from nearcast.spark.shard_terms import ShardTerms
from nearcast.spark.workers.messages import messages_in

_MOST = 1 << 62
_CANCELLED = -1


class Facts(NamedTuple):
    """Which rows match which slots, in the order of the rows that were asked about."""

    asked: Int32s  # the place of the row among those
    slots: Int32s


class ActiveMessages:
    """Active messages, and the changes of the step that was applied last."""

    def __init__(self, memory: Memory, described: Mapping[str, Any] | None = None) -> None:
        """Begin without any, or attach to those that `describe` described."""
        known: Mapping[str, Any] = defaultdict(lambda: None) if described is None else described
        store = known["store"]
        self._store = ActiveStore(memory) if store is None else ActiveStore.attach(memory, store)
        self._names = Names(memory, "message", known["names"])
        self._bodies = Names(memory, "body", known["bodies"], long=True)
        sizes = known["sizes"] or {"slots": 0, "changes": 0}
        self._seq = Column(np.int64, 0, memory, "message_seq", sizes["slots"])
        self._gone = Column(np.int64, 0, memory, "message_gone", sizes["slots"])
        self._shaped = Column(np.bool_, 0, memory, "message_shaped", sizes["slots"])
        count = sizes["changes"]
        self._change = Column(np.int32, 2, memory, "change", count)
        self._change_seq = Column(np.int64, 0, memory, "change_seq", count)
        self._change_at = Column(np.float64, 0, memory, "change_at", count)

    def describe(self) -> dict[str, Any]:
        """Return what is needed to attach to them in their memory."""
        return {
            "store": self._store.describe(),
            "names": self._names.describe(),
            "bodies": self._bodies.describe(),
            "sizes": {"slots": self._seq.size, "changes": self._change.size},
        }

    def __len__(self) -> int:
        """How many places of messages there are, perhaps with some of messages that have ended."""
        return len(self._store)

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        names = self._names.nbytes + self._bodies.nbytes
        columns = self._seq.nbytes + self._gone.nbytes + self._shaped.nbytes
        return self._store.nbytes + names + columns

    @property
    def boxes(self) -> Floats:
        """The box of each slot's message."""
        return self._store.boxes

    def apply(
        self, lasting: pa.Table, withdrawn: pa.Table, changes: pa.Table, terms: ShardTerms
    ) -> None:
        """Add the messages and changes of a step; remove what ended before it."""
        self._cancel()
        times = [pc.min(table["at"]).as_py() for table in (lasting, changes) if len(table)]
        if times:
            self._expire(min(times), terms)
        if len(lasting) and lasting["was"].null_count < len(lasting):
            lasting = self._unknown(lasting)
        if len(lasting):
            self._add(lasting, terms)
        if len(withdrawn):
            self._withdraw(withdrawn)
        if len(changes) or self._change.size:
            owners = [changes[name].to_numpy() for name in ("owner", "was")]
            self._change.replace(np.column_stack(owners).astype(np.int32))
            self._change_seq.replace(changes["seq"].to_numpy())
            self._change_at.replace(changes["at"].to_numpy())

    def _withdraw(self, withdrawn: pa.Table) -> None:
        """Note with which events messages end before their time."""
        slots, old = self._store.active(-np.inf), withdrawn["old"].to_numpy()
        order = np.argsort(old, kind="stable")
        held = self._seq.array[slots]
        place = np.minimum(np.searchsorted(old[order], held), len(old) - 1)
        mine = old[order][place] == held
        self._gone.array[slots[mine]] = withdrawn["seq"].to_numpy()[order][place[mine]]

    def _cancel(self) -> None:
        """Remove what ended before its time in an earlier step."""
        gone = self._gone.array
        slots = np.flatnonzero((gone != _MOST) & (gone != _CANCELLED)).astype(np.int32)
        self._store.cancel(slots)
        gone[slots] = _CANCELLED

    def _unknown(self, lasting: pa.Table) -> pa.Table:
        """Those that are not here yet: a message that moves back may never have been removed."""
        here, coming = self._seq.array[self._store.active(-np.inf)], lasting["seq"].to_numpy()
        return lasting.filter(pa.array(~np.isin(coming, here))).combine_chunks()

    def _expire(self, now: float, terms: ShardTerms) -> None:
        ended = self._store.expire(now, _MOST)
        if len(ended.slots):
            self._names.forget(ended.slots)
            self._bodies.forget(ended.slots)
            terms.take_back(ended.terms)
        if self._store.is_loose:
            old = self._store.pack()
            self._names.renumber(old)
            self._bodies.renumber(old)
            for column in (self._seq, self._gone, self._shaped):
                column.replace(column.array[old].copy())

    def _add(self, lasting: pa.Table, terms: ShardTerms) -> None:
        batch = messages_in(lasting)
        messages, number = batch.messages, batch.messages.number
        numbers = terms.numbers_of(messages.texts.hashes, kept=False)
        texts = MessageTerms(messages.texts.starts, numbers)
        slots = self._store.add(texts, messages.boxes, lasting["end"].to_numpy()[number])
        more = self._store.slots - self._seq.size
        if more > 0:
            for column in (self._seq, self._gone, self._shaped):
                column.lengthen(more)
            self._gone.array[-more:] = _MOST
        self._seq.array[slots] = messages.seq[number]
        self._gone.array[slots] = _MOST
        ids, bodies = batch.ids, pc.fill_null(batch.bodies, "")
        if len(number) > len(ids):
            ids, bodies = ids.take(pa.array(number)), bodies.take(pa.array(number))
        self._names.put(slots, ids)
        self._bodies.put(slots, bodies)
        self._shaped.array[slots] = batch.shaped[number]

    def changes(self, part: slice = slice(None)) -> BegunSubscriptions:
        """Some of the changes that the last step asked about."""
        owners = self._change.array[part]
        seq, at = self._change_seq.array[part], self._change_at.array[part]
        return BegunSubscriptions(owners[:, 0], owners[:, 1], seq, at)

    def matching(self, rows: Rows, which: Int32s, seq: Int64s, at: Floats) -> Facts:
        """Find what each of some rows matches among the messages before an event at a time."""
        asked = np.arange(len(which), dtype=np.int32)
        found = self._store.evaluate(rows, which, asked, at)
        when = seq[found.events]
        before = (self._seq.array[found.slots] < when) & (self._gone.array[found.slots] > when)
        return Facts(found.events[before], found.slots[before])

    def numbers_of(self, slots: Int32s) -> Int64s:
        """The sequence numbers of messages."""
        numbers: Int64s = self._seq.array[slots]
        return numbers

    def is_shaped(self, slots: Int32s) -> npt.NDArray[np.bool_]:
        """Which messages are over anything but a point or a box."""
        shaped: npt.NDArray[np.bool_] = self._shaped.array[slots]
        return shaped

    def bodies_of(self, slots: Int32s) -> pa.Array:
        """The messages as JSON; empty if an earlier release did not keep them."""
        return self._bodies.of(slots)

    def names_of(self, slots: Int32s) -> pa.Array:
        """The ids of messages."""
        return self._names.of(slots)


def first_of_each(*keys: npt.NDArray[Any]) -> Int64s:
    """The first of all that agree in all but the last two keys, in the order of those two."""
    order = np.lexsort(keys[::-1])
    fresh = np.zeros(len(order), np.bool_)
    fresh[:1] = True
    for key in keys[:-2]:
        fresh[1:] |= key[order][1:] != key[order][:-1]
    return order[fresh]
