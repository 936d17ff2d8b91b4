"""Versions of a routing table that follow one another while a pipeline runs.

Versions of one *line* have the same grid and the same order of terms, so that a subscription has
the same keys by all of them: they differ only in which worker has which cells, and in the number of
workers. The shards of a line are kept from version to version, and get operations for what moves.
The line has the number of its first version.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.adjust.change import mixed
from nearcast.partition.grid import Grid, spans_of
from nearcast.partition.plan import Plan, TextMap


def line_of(plan: Plan) -> int:
    """The number of the line that a version belongs to."""
    return int(plan.about.get("line", plan.number))


def started(plan: Plan, number: int) -> Plan:
    """A plan as the first version of a line."""
    about = {name: value for name, value in plan.about.items() if name != "line"}
    return plan.changed(number=number, about=about)


def may_follow(before: Plan, after: Plan) -> bool:
    """Whether one plan can follow another in its line."""
    return (
        before.kind == after.kind == "grid"
        and before.grid == after.grid
        and np.array_equal(before.order_terms, after.order_terms)
        and np.array_equal(before.order_counts, after.order_counts)
    )


def in_line(before: Plan, plan: Plan) -> Plan:
    """A plan over the same grid, with the order of terms that the line of another has."""
    return plan.changed(
        order_terms=before.order_terms,
        order_counts=before.order_counts,
        number=before.number + 1,
        about={**before.about, "line": line_of(before)},
    )


def differing(before: Plan, after: Plan) -> Int32s:
    """The cells that two plans assign differently."""
    old, new = (_names(plan) for plan in (before, after))
    return np.flatnonzero(old != new).astype(np.int32)


def _names(plan: Plan) -> npt.NDArray[np.object_]:
    """For each cell, a value that determines how it is assigned."""
    names = np.empty(plan.workers + len(plan.maps), object)
    names[: plan.workers] = list(range(plan.workers))
    for number, each in enumerate(plan.maps):
        names[-1 - number] = _content(each)
    return names[plan.cell_worker]


def _content(given: TextMap) -> Any:
    return b"".join([bytes(str(len(given.terms)), "ascii"), *(part.tobytes() for part in given)])


def towards(before: Plan, target: Plan, cells: Int32s, number: int) -> Plan:
    """The version after another that has some more cells as in the target.

    Once all cells are as in the target, workers that have nothing any more are gone.
    """
    about = {**before.about, "line": line_of(before)}
    most = max(before.workers, target.workers)
    wide = [plan.changed(workers=most) for plan in (before, target)]
    after = mixed(wide[0], wide[1], cells).changed(number=number, about=about)
    if len(differing(after, target)):
        return after
    return after.changed(workers=target.workers, scheme=target.scheme, number=number)


class Meeting:
    """Tests which boxes meet some cells of a grid."""

    def __init__(self, grid: Grid, cells: Int32s) -> None:
        self._grid = grid
        marked = np.zeros(grid.cells, np.int64)
        marked[cells] = 1
        self._sums: Int64s = np.zeros((grid.rows + 1, grid.columns + 1), np.int64)
        self._sums[1:, 1:] = marked.reshape(grid.rows, grid.columns).cumsum(axis=0).cumsum(axis=1)

    def __call__(self, boxes: Floats) -> npt.NDArray[np.bool_]:
        """Whether each box meets one of the cells."""
        x0, y0, x1, y1 = spans_of(self._grid, boxes).T
        sums = self._sums
        inside = sums[y1 + 1, x1 + 1] - sums[y0, x1 + 1] - sums[y1 + 1, x0] + sums[y0, x0]
        return np.asarray(inside > 0)
