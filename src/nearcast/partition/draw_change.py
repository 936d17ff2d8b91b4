"""A picture of an adjustment: the plan before and after it, and which cells change hands."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from nearcast.arrays.types import Int32s
from nearcast.partition._pixels import Canvas, Colour
from nearcast.partition._svg import PAGE, bar_chart, map_of_cells
from nearcast.partition.draw import hex_of, main_workers, paint_bars, paint_map, worker_colours
from nearcast.partition.plan import Plan

_STILL: Colour = (232, 232, 232)
_MOVING: Colour = (192, 57, 43)
_PIXELS_ACROSS = 640  # of a map


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
    two = [hex_of(_STILL), hex_of(_MOVING)]
    parts.append(_titled("changes hands", map_of_cells(before.grid, moving, two, [])))
    return PAGE.format(
        title=escape(f"plan {before.number}, adjusted"),
        facts="".join(f"<li>{escape(fact)}</li>" for fact in facts),
        map="\n".join(parts),
        bars="",
    )


def change_png(
    before: Plan,
    after: Plan,
    cells: Int32s,
    loads: tuple[Sequence[float], Sequence[float]],
    facts: Sequence[str],
) -> bytes:
    """Draw the same as an image: the plan before on top, the plan after, then what changes."""
    grid = before.grid
    side = max(2, _PIXELS_ACROSS // grid.columns)
    width, height = side * grid.columns, side * grid.rows
    workers = max(before.workers, after.workers)
    thick = max(3, min(16, height // workers))
    part = 40 + max(height, thick * workers)
    canvas = Canvas(width + 420, 60 + 3 * part)
    canvas.text(20, 12, f"plan {before.number}, adjusted", 3)
    canvas.text(20, 34, "; ".join(facts), 2)
    for number, (name, plan, values) in enumerate(
        (("before", before, loads[0]), ("after", after, loads[1]))
    ):
        top = 60 + number * part
        canvas.text(20, top, f"{name}: share of the load by worker", 2)
        paint_map(canvas, plan, 20, top + 16, side)
        paint_bars(canvas, values, width + 50, top + 16, thick)
    top = 60 + 2 * part
    canvas.text(20, top, "changes hands", 2)
    canvas.striped(20, top + 16, width, height, [_STILL])
    for cell in cells.tolist():
        row, column = divmod(cell, grid.columns)
        y = top + 16 + (grid.rows - 1 - row) * side
        canvas.striped(20 + column * side, y, side, side, [_MOVING])
    return canvas.png()


def _titled(title: str, picture: str) -> str:
    return f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>"
