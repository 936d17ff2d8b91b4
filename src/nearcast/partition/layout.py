"""Who owns what, in the form that planners compare and improve: cells of a few kinds.

All cells of one kind are split by text alike, or belong to one worker.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s
from nearcast.partition.digest import BUCKETS, Digest, add_hits
from nearcast.partition.text_map import TermUnits, TextMap


class Layout(NamedTuple):
    """Who owns what: for each cell a row of `owners`, which has the worker of each unit."""

    cells: Int32s  # (rows, columns) of the grid
    owners: Int32s  # (kinds of cell, units)


def cells_and_maps(layout: Layout, units: TermUnits) -> tuple[Int32s, list[TextMap]]:
    """Turn a layout into `cell_worker` and `maps` of a plan."""
    heavy = len(units.terms)
    buckets = (units.terms % np.uint64(BUCKETS)).astype(np.int64)
    codes = np.empty(len(layout.owners), np.int32)
    maps: list[TextMap] = []
    for kind, owners in enumerate(layout.owners):
        if (owners == owners[0]).all():
            codes[kind] = owners[0]
            continue
        others = owners[heavy:]
        apart = np.flatnonzero(owners[:heavy] != others[buckets])
        codes[kind] = -1 - len(maps)
        maps.append(TextMap(units.terms[apart], owners[apart].copy(), others.copy()))
    return codes[layout.cells].reshape(-1), maps


def loads_of(layout: Layout, digest: Digest, workers: int) -> Floats:
    """Give the load of each worker, in nanoseconds for the messages of the digest."""
    loads = np.zeros(workers)
    worker = layout.owners[layout.cells[digest.row, digest.column], digest.unit]
    add_hits(digest.message, worker, digest.cost, digest.message_ns, loads)
    _add_rows(layout.cells, layout.owners, digest.spans, digest.row_unit, digest.row_ns, loads)
    return loads


@kernel
def _add_rows(
    cells: Int32s, owners: Int32s, spans: Int32s, unit: Int32s, row_ns: float, loads: Floats
) -> None:
    last = np.full(len(loads), -1, np.int64)
    for row in range(len(spans)):
        kind = -1
        for y in range(spans[row, 1], spans[row, 3] + 1):
            for x in range(spans[row, 0], spans[row, 2] + 1):
                if cells[y, x] == kind:
                    continue
                kind = cells[y, x]
                worker = owners[kind, unit[row]]
                if last[worker] != row:
                    last[worker] = row
                    loads[worker] += row_ns
