"""Other ways to keep active messages, to compare with: lists by term only, and a grid only."""

from __future__ import annotations

import numpy as np

from nearcast._jit import lean_kernel
from nearcast.active.kernels.candidates import Ops
from nearcast.active.store import ActiveChanges, ActiveStore
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Int32s


class KeywordLists(ActiveStore):
    """Lists by term that are never divided: a move looks at the whole list of its rarest term."""

    def _divide(self, late: int) -> None:
        del late


class GridOnly(ActiveStore):
    """A plain grid, whatever the terms: a move looks at all messages of some cells.

    It has a cell for every 4 to 16 messages.
    """

    _only = 0
    _even = True


class AdaptedGrid(GridOnly):
    """The same with edges at quantiles, so that crowded places have smaller cells."""

    _even = False


class PlainKeywordLists(KeywordLists):
    """Lists by term that say no more than which messages: a move looks at each of them."""

    _numbered = True


class PlainGrid(GridOnly):
    """A grid whose cells say no more than which messages are there."""

    _numbered = True


def difference(old: ActiveChanges, new: ActiveChanges, events: int, slots: int) -> ActiveChanges:
    """Give what came and what went between two answers to the same events, each in their order."""
    room = len(old.slots) + len(new.slots)
    which, where, ops = np.empty(room, np.int32), np.empty(room, np.int32), np.empty(room, np.int8)
    marks = np.zeros(slots, np.int32)
    count = _difference(
        old.events, old.slots, new.events, new.slots, events, marks, which, where, ops
    )
    return ActiveChanges(which[:count], where[:count], ops[:count])


@lean_kernel
def _difference(
    old_events: Int32s, old_slots: Int32s, new_events: Int32s, new_slots: Int32s, events: int,
    marks: Int32s, out_events: Int32s, out_slots: Int32s, out_ops: Ops,
) -> int:  # fmt: skip
    written, of_old, of_new = wide(0), wide(0), wide(0)
    for event in range(events):
        first = of_old
        while of_old < len(old_slots) and old_events[of_old] == event:
            marks[old_slots[of_old]] = 2 * event + 1
            of_old += 1
        while of_new < len(new_slots) and new_events[of_new] == event:
            if marks[new_slots[of_new]] != 2 * event + 1:
                out_events[written], out_slots[written] = event, new_slots[of_new]
                out_ops[written] = 1
                written += 1
            marks[new_slots[of_new]] = 2 * event + 2
            of_new += 1
        for at in range(first, of_old):
            if marks[old_slots[at]] != 2 * event + 2:
                out_events[written], out_slots[written] = event, old_slots[at]
                out_ops[written] = 2
                written += 1
    return written
