"""A plan with some pieces given to other workers, or split by text: a new plan."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Int32s
from nearcast.errors import InvalidValue
from nearcast.partition.plan import Plan, TextMap
from nearcast.partition.tables import Terms


class Shifts(NamedTuple):
    """Which pieces go: all that `source` has in `cell` goes to `destination`."""

    cell: Int32s
    source: Int32s
    destination: Int32s


def shifted(plan: Plan, shifts: Shifts) -> Plan:
    """Give the plan after pieces went to other workers; all go at once.

    A cell whose terms all come to one worker is whole again. Cells that are split alike share a
    map, as before.
    """
    if not len(shifts.cell):
        return plan
    writer = _Writer(plan)
    order = np.argsort(shifts.cell, kind="stable")
    cell, source, destination = (field[order] for field in shifts)
    edges = np.flatnonzero(np.diff(cell, prepend=-1, append=-1))
    for first, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        at = int(cell[first])
        changes = dict(
            zip(source[first:end].tolist(), destination[first:end].tolist(), strict=True)
        )
        writer.relabel(at, changes)
    return writer.plan()


def split(plan: Plan, cell: int, terms: Terms, worker: int) -> Plan:
    """Give the plan in which some terms of one cell belong to a worker, from whichever worker."""
    writer = _Writer(plan)
    writer.assign(cell, np.unique(terms), worker)
    return writer.plan()


def mixed(before: Plan, after: Plan, cells: Int32s) -> Plan:
    """Give the plan that follows `after` in some cells and `before` in all others.

    Both must have the same grid, workers and frequent terms, as before and after a local
    adjustment.
    """
    if (
        (before.grid, before.workers, before.kind) != (after.grid, after.workers, after.kind)
        or not np.array_equal(before.order_terms, after.order_terms)
        or not np.array_equal(before.order_counts, after.order_counts)
    ):
        raise InvalidValue("after", after.scheme, "a plan that differs in its cells and maps only")
    writer = _Writer(before)
    writer.take(after, cells)
    return writer.plan()


class _Writer:
    """Cells and maps of a plan that is being changed; a map is written once for all its cells."""

    def __init__(self, plan: Plan) -> None:
        self._before = plan
        self._cells = plan.cell_worker.copy()
        self._maps = list(plan.maps)
        self._codes: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}

    def relabel(self, cell: int, changes: dict[int, int]) -> None:
        """Let others take the places of some workers in a cell."""
        code = int(self._cells[cell])
        if code >= 0:
            self._cells[cell] = changes.get(code, code)
            return
        known = (code, tuple(sorted(changes.items())))
        if known not in self._codes:
            old = self._maps[-1 - code]
            table = np.arange(self._before.workers, dtype=np.int32)
            table[list(changes)] = list(changes.values())
            self._codes[known] = self._write(
                TextMap(old.terms, table[old.workers], table[old.others])
            )
        self._cells[cell] = self._codes[known]

    def assign(self, cell: int, terms: Terms, worker: int) -> None:
        """Give some terms of a cell to a worker."""
        code = int(self._cells[cell])
        if code >= 0:
            old = TextMap(terms[:0], np.empty(0, np.int32), np.array([code], np.int32))
        else:
            old = self._maps[-1 - code]
        kept = ~np.isin(old.terms, terms)
        all_terms = np.concatenate((old.terms[kept], terms))
        workers = np.concatenate((old.workers[kept], np.full(len(terms), worker, np.int32)))
        order = np.argsort(all_terms)
        self._cells[cell] = self._write(TextMap(all_terms[order], workers[order], old.others))

    def take(self, other: Plan, cells: Int32s) -> None:
        """Take some cells as they are in another plan."""
        codes = other.cell_worker[cells]
        self._cells[cells] = np.where(codes < 0, codes - len(self._maps), codes)
        self._maps += other.maps

    def _write(self, given: TextMap) -> int:
        """Note a map and give its code; the code of a worker if all of it is that worker's."""
        first = int(given.others[0])
        if (given.others == first).all() and (given.workers == first).all():
            return first
        self._maps.append(given)
        return -len(self._maps)

    def plan(self) -> Plan:
        """The plan as it is now, without maps that no cell uses any more."""
        used: npt.NDArray[np.int32] = np.unique(self._cells[self._cells < 0])[::-1]
        maps, places = list[TextMap](), dict[tuple[bytes, ...], int]()
        cells = self._cells.copy()
        for code in used.tolist():
            each = self._maps[-1 - code]
            content = tuple(part.tobytes() for part in each)
            if content not in places:
                places[content] = len(maps)
                maps.append(each)
            cells[self._cells == code] = -1 - places[content]
        return self._before.changed(cell_worker=cells, maps=maps)
