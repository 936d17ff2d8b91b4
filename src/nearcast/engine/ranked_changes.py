"""Changes of rankings by number: turned round, put together, and what is left of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from nearcast.events import Update
from nearcast.events.fields import ADD, REMOVE
from nearcast.topk.core import TopkChanges


def changes_of(rows: Iterable[tuple[int, int, int, int, float]]) -> TopkChanges:
    """Changes as columns, from rows of event, op, subscription, message and score."""
    events, ops, subs, numbers, scores = tuple(zip(*rows, strict=True)) or ((),) * 5
    return TopkChanges(
        np.array(events, np.int32), np.array(ops, np.int32), np.array(subs, np.int32),
        np.array(numbers, np.int64), np.array(scores, np.float64),
    )  # fmt: skip


def turned(changes: TopkChanges) -> TopkChanges:
    """The same messages, leaving."""
    return changes._replace(ops=np.full_like(changes.ops, REMOVE))


def without(changes: TopkChanges, subscription: int) -> TopkChanges:
    """The changes of all other subscriptions."""
    return chosen(changes, changes.subscriptions != subscription)


def chosen(changes: TopkChanges, rows: npt.NDArray[np.bool_]) -> TopkChanges:
    """Some of the changes."""
    events, ops, subscriptions, messages, scores = changes
    return TopkChanges(events[rows], ops[rows], subscriptions[rows], messages[rows], scores[rows])


def at_event(event: int, changes: TopkChanges) -> TopkChanges:
    """The same changes as those of later events."""
    return changes._replace(events=changes.events + np.int32(event))


def netted(parts: Sequence[TopkChanges]) -> TopkChanges:
    """The net changes of each event, from parts in the order in which they happened."""
    net: dict[tuple[int, int, int], tuple[int, float]] = {}
    for part in parts:
        rows = zip(*(column.tolist() for column in part), strict=True)
        for event, op, sub, number, score in rows:
            if net.pop((event, sub, number), None) is None:
                net[event, sub, number] = op, score
    found = sorted(net.items(), key=lambda item: item[0][0])
    return changes_of((event, op, sub, n, score) for (event, sub, n), (op, score) in found)


class NetUpdates:
    """The net effect of changes in the order in which they happen, by subscription and message.

    By ids, not by numbers: the event that ends a message may use its id again.
    """

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], float | None] = {}  # the score, None if not a result
        self._after: dict[tuple[str, str], float | None] = {}

    def add(
        self, ops: list[int], subscriptions: list[str], messages: list[str], scores: list[float]
    ) -> None:
        """Add changes."""
        for op, subscription, message, score in zip(
            ops, subscriptions, messages, scores, strict=True
        ):
            pair = (subscription, message)
            self._before.setdefault(pair, None if op == ADD else score)
            self._after[pair] = score if op == ADD else None

    def updates(self, replaced: str | None, rescored: str | None) -> list[Update]:
        """What they lead to; see `Rankings.changes`."""
        updates = []
        for (subscription, message), after in self._after.items():
            before = self._before[subscription, message]
            if after is None:
                if before is not None:
                    updates.append(Update("remove", subscription, message))
            elif before is None:
                updates.append(Update("add", subscription, message, after))
            elif message == replaced or (subscription == rescored and before != after):
                updates.append(Update("change", subscription, message, after))
        return updates
