"""A picture of an adjustment: the plan before and after it, and which cells change hands."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from nearcast.partition._svg import PAGE, bar_chart, map_of_cells
from nearcast.partition.draw import hex_of, main_workers, worker_colours
from nearcast.partition.grid import Int32s
from nearcast.partition.plan import Plan

_STILL, _MOVING = "#e8e8e8", "#c0392b"


def change_html(
    before: Plan,
    after: Plan,
    cells: Int32s,
    loads: tuple[Sequence[float], Sequence[float]],
    facts: Sequence[str],
) -> str:
    """Draw two plans over the same grid and their loads, and the cells that differ between them."""
    colours = [hex_of(colour) for colour in worker_colours(max(before.workers, after.workers))]
    parts = []
    for name, plan, values in (("before", before, loads[0]), ("after", after, loads[1])):
        stripes = [[colours[worker] for worker in main_workers(each)] for each in plan.maps]
        drawn = map_of_cells(plan.grid, plan.cell_worker, colours, stripes)
        drawn = drawn.replace('id="map', f'id="{name}').replace("url(#map", f"url(#{name}")
        parts += [_titled(name, drawn), bar_chart("share of the load", values, colours)]
    moving = np.zeros(before.grid.cells, np.int32)
    moving[cells] = 1
    parts.append(_titled("changes hands", map_of_cells(before.grid, moving, [_STILL, _MOVING], [])))
    return PAGE.format(
        title=escape(f"plan {before.number}, adjusted"),
        facts="".join(f"<li>{escape(fact)}</li>" for fact in facts),
        map="\n".join(parts),
        bars="",
    )


def _titled(title: str, picture: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>"
