"""Where rows and messages go by a plan.

Both are answered with pairs (number of the row or message, worker), each pair once, in the order of
the rows or messages. What a row and a message that match have in common lies in a cell that both
meet, and the row's key is among the message's terms, so the worker of that key in that cell is
given both (`owners`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition import _routing
from nearcast.partition.plan import Plan
from nearcast.partition.tables import Terms
from nearcast.partition.wanted_kernels import Words

Pairs = tuple[Int32s, Int32s]
"""Numbers of rows or messages, and the worker that each goes to."""


def route_rows(
    plan: Plan, boxes: Floats, keys: Terms, owners: npt.NDArray[np.integer] | None = None
) -> Pairs:
    """Give the workers that must hold each row: those of its key in the cells that its box meets.

    A plan of kind "hash" spreads rows by `owners`, any numbers of their subscriptions; by one of
    kind "shared" every worker holds every row.
    """
    count = len(boxes)
    if len(keys) != count:
        raise InvalidValue("keys", len(keys), f"a key for each of {count} rows")
    if plan.kind == "shared":
        return _to_all(np.arange(count, dtype=np.int32), plan.workers)
    if plan.kind == "hash":
        if owners is None or len(owners) != count:
            given = None if owners is None else len(owners)
            raise InvalidValue("owners", given, f"the owner of each of {count} rows")
        return np.arange(count, dtype=np.int32), owner_workers(plan.workers, owners)
    return _gathered(_routing.route_rows, count, plan.workers, plan.arrays, boxes, keys)


def route_messages(
    plan: Plan,
    wanted: Words | None,
    boxes: Floats,
    starts: Int64s,
    terms: Terms,
    first: int = 0,
) -> Pairs:
    """Give the workers that must see each message.

    With `wanted`, the slots of a `WantedKeys` over the same grid, a message goes to the workers of
    those of its terms that are wanted in a cell that its box meets. Without, a whole cell sees
    every message, and a cell split by text sends it to the workers of all its terms. A plan of
    kind "hash" sends to every worker, one of kind "shared" to one after the other, counted from
    the number `first`. A message without terms matches nothing and goes nowhere.
    """
    if plan.kind == "grid":
        slots = np.zeros(1, np.uint64) if wanted is None else wanted
        arguments = (plan.arrays, wanted is not None, slots, boxes, starts, terms)
        return _gathered(_routing.route_messages, len(boxes), plan.workers, *arguments)
    found = np.diff(starts) > 0
    if wanted is not None:
        _routing.any_wanted(plan.grid, wanted, boxes, starts, terms, found)
    kept = np.flatnonzero(found).astype(np.int32)
    if plan.kind == "hash":
        return _to_all(kept, plan.workers)
    return kept, ((kept.astype(np.int64) + first) % plan.workers).astype(np.int32)


def owner_workers(workers: int, owners: npt.NDArray[np.integer]) -> Int32s:
    """Give the worker of each subscription for a plan of kind "hash"."""
    return _routing.owner_workers(workers, np.ascontiguousarray(owners).astype(np.uint64))


def _to_all(numbers: Int32s, workers: int) -> Pairs:
    everyone = np.tile(np.arange(workers, dtype=np.int32), len(numbers))
    return np.repeat(numbers, workers), everyone


def _gathered(kernel: Callable[..., Any], count: int, workers: int, *arguments: Any) -> Pairs:
    """Call a kernel until it has answered for all, with more room each time."""
    numbers, chosen = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    done, room = 0, count + count // 4 + workers + 1
    seen = np.full(workers, -1, np.int64)
    while done < count:
        into, onto = np.empty(room, np.int32), np.empty(room, np.int32)
        done, filled = kernel(*arguments, done, seen, into, onto)
        numbers.append(into[:filled])
        chosen.append(onto[:filled])
    if len(numbers) == 2:
        return numbers[1], chosen[1]
    return np.concatenate(numbers), np.concatenate(chosen)
