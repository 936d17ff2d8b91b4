"""Plans side by side (PS2Stream, section V-B): subscriptions of each era are dealt by its plan.

When a new plan takes over, carrying everything at once would stop the stream. So the subscriptions
that exist stay where they are, under the old plan, and only new ones are dealt by the new plan;
messages are routed by both. Once few old subscriptions are left, or on request, these are carried,
and the old plan is retired. A plan for more or fewer workers takes over in the same way.

Subscriptions are numbered as they come, and each version gets a new number: that gives the era.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition import keys as key_choice
from nearcast.partition.adjust.migration import Transfers, transfers
from nearcast.partition.owners import owns
from nearcast.partition.plan import Plan
from nearcast.partition.routing import Pairs, route_messages, route_rows
from nearcast.partition.sample import SampleMessages, SampleRows, take_rows
from nearcast.partition.tables import Terms
from nearcast.partition.wanted_kernels import Words

FEW = 0.05
"""The share of old subscriptions at which their plan may be retired."""

Numbers = npt.NDArray[np.integer]


class Era(NamedTuple):
    """From the subscription with the number `since` on, `plan` deals them out."""

    plan: Plan
    since: int


class PlacedRows(NamedTuple):
    """Rows with the key of each by the plan of its era, and who holds them."""

    keys: Terms
    held: Pairs


class Eras:
    """One plan after the other; never changed, a change gives new eras."""

    def __init__(self, eras: Sequence[Era]) -> None:
        starts = [era.since for era in eras]
        if not starts or starts[0] != 0 or sorted(set(starts)) != starts:
            raise InvalidValue("since", starts, "numbers that grow from 0")
        self.eras = tuple(eras)
        self._starts = np.array(starts, np.int64)

    @classmethod
    def of(cls, plan: Plan) -> Eras:
        """Begin with one plan for all."""
        return cls([Era(plan, 0)])

    @property
    def newest(self) -> Plan:
        """The plan by which new subscriptions are dealt out."""
        return self.eras[-1].plan

    @property
    def workers(self) -> int:
        """How many workers take part, by any of the plans."""
        return max(era.plan.workers for era in self.eras)

    def begun(self, plan: Plan, since: int) -> Eras:
        """Let a plan take over for subscriptions numbered from `since` on."""
        if plan.number <= self.newest.number:
            raise InvalidValue("number", plan.number, f"a number above {self.newest.number}")
        kept = [era for era in self.eras if era.since < since]
        return Eras([*kept, Era(plan, since if kept else 0)])

    def adjusted(self, plan: Plan) -> Eras:
        """Put a plan in the place of the newest, as after a local adjustment of it."""
        return Eras([*self.eras[:-1], Era(plan, self.eras[-1].since)])

    def retired(self) -> Eras:
        """Leave the newest plan alone; `leaving` says what has to be carried for that."""
        return Eras.of(self.newest)

    def leaving(self, rows: SampleRows, numbers: Numbers) -> list[tuple[Int64s, Transfers]]:
        """Say for each old era which rows it has, and what must be carried when it is retired.

        `numbers` are those of the rows' subscriptions. Transfers speak of rows by their place
        among those of the era.
        """
        at = self.era_of(numbers)
        found = []
        for number, era in enumerate(self.eras[:-1]):
            mine: Int64s = np.flatnonzero(at == number)
            found.append((mine, transfers(era.plan, self.newest, take_rows(rows, mine))))
        return found

    def old_share(self, numbers: Numbers) -> float:
        """The share of the current subscriptions that an old plan dealt."""
        old = np.count_nonzero(self.era_of(numbers) < len(self.eras) - 1)
        return old / max(len(numbers), 1)

    def era_of(self, numbers: Numbers) -> Int64s:
        """Give the era of each subscription, by its number."""
        return np.searchsorted(self._starts, numbers, side="right") - 1

    def place(self, rows: SampleRows, numbers: Numbers) -> PlacedRows:
        """Give the keys of rows and the workers that must hold them."""
        at = self.era_of(numbers)
        keys = np.zeros(rows.size, np.uint64)
        pairs: list[tuple[Int64s, Int32s]] = []
        for number, era in enumerate(self.eras):
            mine = np.flatnonzero(at == number)
            some = take_rows(rows, mine)
            keys[mine] = key_choice.choose(era.plan.arrays, some.starts, some.terms)
            row, worker = route_rows(era.plan, some.boxes, keys[mine], some.owners)
            pairs.append((mine[row], worker))
        return PlacedRows(keys, _in_order(pairs))

    def route(
        self, wanted: Sequence[Words | None], messages: SampleMessages, first: int = 0
    ) -> Pairs:
        """Give the workers that must see each message; `wanted` has a table for each era."""
        if len(wanted) != len(self.eras):
            raise InvalidValue("wanted", len(wanted), f"a table for each of {len(self.eras)} eras")
        return _in_order(
            [
                route_messages(era.plan, slots, *messages, first=first)
                for era, slots in zip(self.eras, wanted, strict=True)
            ]
        )

    def owned(
        self,
        worker: int,
        message_boxes: Floats,
        rows: SampleRows,
        placed: PlacedRows,
        numbers: Numbers,
        message: Int32s,
        row: Int32s,
    ) -> npt.NDArray[np.bool_]:
        """Say for which pairs of a message and a row that match a worker answers.

        The rows are ones that it holds. By a plan that splits nothing by place or text, a worker
        that has both answers, if the plan of the row's era sent it the message.
        """
        at = self.era_of(numbers)[row]
        mine = np.zeros(len(row), np.bool_)
        for number, era in enumerate(self.eras):
            some = np.flatnonzero(at == number)
            mine[some] = owns(
                era.plan, worker, message_boxes, rows.boxes, placed.keys, message[some], row[some]
            )
        return mine


def _in_order(parts: Sequence[tuple[npt.NDArray[np.integer], Int32s]]) -> Pairs:
    """Put pairs together, each once, ordered by their first number."""
    joined = np.concatenate(
        [number.astype(np.int64) << 32 | worker.astype(np.int64) for number, worker in parts]
    )
    pairs = np.unique(joined)
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)
