"""Who answers for a pair of a message and a row: one worker, so that nothing is found twice.

A row may be at several workers and a message may go to several. The pair belongs to the worker
of the row's key in the *reference cell*: the one with the south-western corner of what the two
boxes have in common. That cell meets both boxes, so the worker has both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, kernel, read_only
from nearcast.arrays.types import Floats, Int32s
from nearcast.partition.grid import cell_of
from nearcast.partition.plan import Plan, PlanArrays
from nearcast.partition.tables import Terms, worker_in


@inner
def worker_of_term(
    slots: Any, starts: Any, masks: Any, other_starts: Any, others: Any,
    number: int, term: np.uint64,
) -> int:  # fmt: skip
    """Give the worker of a term by one of the text maps of a plan."""
    known = worker_in(slots, starts[number], masks[number], term)
    if known >= 0:
        return known
    count = other_starts[number + 1] - other_starts[number]
    if count == 1:
        return np.int64(others[other_starts[number]])  # type: ignore[return-value]
    other = np.int64(term % np.uint64(count))
    return np.int64(others[other_starts[number] + other])  # type: ignore[return-value]


@inner
def worker_of(arrays: PlanArrays, code: int, term: np.uint64) -> int:
    """Give the worker of a term in a cell with this code."""
    if code >= 0:
        return code
    return worker_of_term(
        arrays.map_slots,
        arrays.map_starts,
        arrays.map_masks,
        arrays.other_starts,
        arrays.others,
        -1 - code,
        term,
    )


def owners_of(plan: Plan, cells: Int32s, keys: Terms) -> Int32s:
    """Give the worker of each key in each cell, for a plan by place and text."""
    return _owners_of(plan.arrays, cells, keys)


@kernel
def _owners_of(arrays: PlanArrays, cells: Int32s, keys: Terms) -> Int32s:
    workers = np.empty(len(cells), np.int32)
    for at in range(len(cells)):
        workers[at] = worker_of(arrays, arrays.cells[cells[at]], keys[at])
    return workers


def owns(
    plan: Plan,
    worker: int,
    message_boxes: Floats,
    row_boxes: Floats,
    keys: Terms,
    messages: Int32s,
    rows: Int32s,
) -> npt.NDArray[np.bool_]:
    """Say for which pairs a worker answers; pair i is `messages[i]` and `rows[i]`, which meet.

    `keys` are those of the rows. Where rows are not spread by place and text, a worker that
    has both a message and a row is the only one.
    """
    if plan.kind != "grid":
        return np.ones(len(messages), np.bool_)
    return _owns(plan.arrays, worker, read_only(message_boxes), row_boxes, keys, messages, rows)


@kernel
def _owns(
    arrays: PlanArrays,
    worker: int,
    message_boxes: Floats,
    row_boxes: Floats,
    keys: Terms,
    messages: Int32s,
    rows: Int32s,
) -> npt.NDArray[np.bool_]:
    owned = np.empty(len(messages), np.bool_)
    for at in range(len(messages)):
        message, row = messages[at], rows[at]
        west = max(message_boxes[message, 0], row_boxes[row, 0])
        south = max(message_boxes[message, 1], row_boxes[row, 1])
        code = arrays.cells[cell_of(arrays.grid, west, south)]
        owned[at] = worker_of(arrays, code, keys[row]) == worker
    return owned
