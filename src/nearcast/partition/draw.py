"""Pictures of a plan and of an adjustment: cells coloured by worker, split cells striped, bars.

As one HTML file that needs nothing else, or as PNG: both are drawn by the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from nearcast.arrays.types import Int32s
from nearcast.errors import InvalidValue, SourceError
from nearcast.partition._pixels import INK, Canvas, Colour
from nearcast.partition._svg import SvgCanvas
from nearcast.partition._svg import hex_of as hex_of  # pages need it
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan, TextMap

_GOLDEN = 0.618033988749895
_MOST_STRIPES = 6
_PIXELS_ACROSS, _CHANGE_ACROSS = 768, 640  # of a map
_STEEPEST = 4.0  # how much higher than wide a cell is drawn at most, or wider than high
_BARS_ACROSS, _BAR, _LABEL = 420, 250, 34
_STILL: Colour = (232, 232, 232)
_MOVING: Colour = (192, 57, 43)

C = TypeVar("C", bound=Canvas | SvgCanvas)


class Bars(NamedTuple):
    """What the bars show: a value for each worker, and what it is."""

    name: str
    values: list[float]

    @property
    def balance(self) -> float:
        """The highest value by the mean."""
        mean = sum(self.values) / len(self.values)
        return max(self.values) / mean if mean > 0 else 1.0


def plan_html(plan: Plan, loads: Sequence[float] | None = None) -> str:
    """Draw a plan as one HTML page.

    `loads` are the loads of the workers; by default those that the plan has under `about`, or how
    many cells each worker has to do with.
    """
    return _drawn_plan(SvgCanvas, plan, loads).html(_title_of(plan))


def plan_png(plan: Plan, loads: Sequence[float] | None = None) -> bytes:
    """Draw a plan as a PNG image; `loads` as for `plan_html`."""
    return _drawn_plan(Canvas, plan, loads).png()


def _title_of(plan: Plan) -> str:
    return f"{plan.scheme}, {plan.workers} workers"


def _drawn_plan(make: Callable[[int, int], C], plan: Plan, loads: Sequence[float] | None) -> C:
    bars, cell = _bars(plan, loads), _cell_size(plan.grid, _PIXELS_ACROSS)
    width, height = cell[0] * plan.grid.columns, cell[1] * plan.grid.rows
    thick = max(3, min(16, height // plan.workers))
    canvas = make(width + _BARS_ACROSS, 74 + max(height, thick * plan.workers))
    canvas.text(20, 12, _title_of(plan), 3)
    canvas.text(20, 34, "; ".join(_facts(plan, bars)), 2)
    if plan.kind == "grid":
        _draw_map(canvas, plan, 20, 52, cell)
    else:
        canvas.text(20, 60, _KINDS[plan.kind], 2)
    _draw_bars(canvas, bars, width + 50, 52, thick)
    return canvas


def change_html(
    before: Plan,
    after: Plan,
    cells: Int32s,
    loads: tuple[Sequence[float], Sequence[float]],
    facts: Sequence[str],
) -> str:
    """Draw two plans over the same grid and their loads, and the cells that differ between them."""
    return _drawn_change(SvgCanvas, before, after, cells, loads, facts).html(_change_of(before))


def change_png(
    before: Plan,
    after: Plan,
    cells: Int32s,
    loads: tuple[Sequence[float], Sequence[float]],
    facts: Sequence[str],
) -> bytes:
    """Draw the same as an image."""
    return _drawn_change(Canvas, before, after, cells, loads, facts).png()


def _change_of(before: Plan) -> str:
    return f"plan {before.number}, adjusted"


def _drawn_change(
    make: Callable[[int, int], C],
    before: Plan,
    after: Plan,
    cells: Int32s,
    loads: tuple[Sequence[float], Sequence[float]],
    facts: Sequence[str],
) -> C:
    """Draw the plan before on top, the plan after, then what changes."""
    grid, (across, up) = before.grid, _cell_size(before.grid, _CHANGE_ACROSS)
    width, height = across * grid.columns, up * grid.rows
    workers = max(before.workers, after.workers)
    thick = max(3, min(16, height // workers))
    part = 54 + max(height, thick * workers)
    canvas = make(width + _BARS_ACROSS, 60 + 3 * part)
    canvas.text(20, 12, _change_of(before), 3)
    canvas.text(20, 34, "; ".join(facts), 2)
    both: list[tuple[str, Plan, Sequence[float]]]
    both = [("before", before, loads[0]), ("after", after, loads[1])]
    for number, (name, plan, values) in enumerate(both):
        top = 60 + number * part
        canvas.text(20, top, name, 2)
        _draw_map(canvas, plan, 20, top + 16, (across, up))
        _draw_bars(canvas, Bars("share of the load", [*values]), width + 50, top + 16, thick)
    top = 60 + 2 * part
    canvas.text(20, top, "changes hands", 2)
    canvas.striped(20, top + 16, width, height, [_STILL])
    for cell in cells.tolist():
        row, column = divmod(cell, grid.columns)
        y = top + 16 + (grid.rows - 1 - row) * up
        canvas.striped(20 + column * across, y, across, up, [_MOVING])
    return canvas


def _cell_size(grid: Grid, across: int) -> tuple[int, int]:
    """How wide and high a cell is drawn, if the map is about so many pixels wide."""
    shape = (grid.north - grid.south) / grid.rows * grid.columns / (grid.east - grid.west)
    width = max(2, across // grid.columns)
    return width, max(2, round(width * min(max(shape, 1 / _STEEPEST), _STEEPEST)))


def _draw_map(
    canvas: Canvas | SvgCanvas, plan: Plan, left: int, top: int, size: tuple[int, int]
) -> None:
    """Draw the cells of a plan, north up; neighbours in a line with the same code as one."""
    colours, (across, up) = worker_colours(plan.workers), size
    stripes = [[colours[worker] for worker in main_workers(each)] for each in plan.maps]
    lines = plan.cell_worker.reshape(plan.grid.rows, plan.grid.columns)[::-1]
    for row, line in enumerate(lines.tolist()):
        x = left
        for code, cells in groupby(line):
            fill = [colours[code]] if code >= 0 else stripes[-1 - code]
            name = f"worker {code}" if code >= 0 else f"split by text map {-1 - code}"
            width = across * len([*cells])
            canvas.striped(x, top + row * up, width, up, fill, name)
            x += width


def _draw_bars(canvas: Canvas | SvgCanvas, bars: Bars, left: int, top: int, thick: int) -> None:
    """Draw a bar for each worker, with its number and value, and a line at the mean."""
    values, most = bars.values, max(*bars.values, 1e-300)
    canvas.text(left, top, f"{bars.name} by worker; the line is the mean", 2)
    top += 14
    every = -(-14 // thick)
    for worker, (value, colour) in enumerate(zip(values, worker_colours(len(values)), strict=True)):
        y = top + worker * thick
        length = max(round(_BAR * value / most), 1)
        name = f"worker {worker}: {value:.6g}"
        canvas.striped(left + _LABEL, y, length, max(thick - 1, 1), [colour], name)
        if worker % every == 0:
            canvas.text(left, y, str(worker), 2)
            if every == 1:  # else it would be written over the bars beside it
                canvas.text(left + _LABEL + 6 + length, y, _short(value), 2)
    mean = round(_BAR * sum(values) / len(values) / most)
    canvas.striped(left + _LABEL + mean, top, 1, thick * len(values), [INK])


def _short(value: float) -> str:
    """Write a number in a few characters."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def save_picture(
    plan: Plan, path: str | PathLike[str], loads: Sequence[float] | None = None
) -> None:
    """Write the picture of a plan to a file that ends in .html or .png."""
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in (".html", ".htm", ".png"):
        raise InvalidValue("picture", str(path), "a file name that ends in .html or .png")
    write_picture(target, plan_png(plan, loads) if kind == ".png" else plan_html(plan, loads))


def write_picture(path: Path, drawn: str | bytes) -> None:
    """Write a picture to a file."""
    try:
        path.write_bytes(drawn.encode() if isinstance(drawn, str) else drawn)
    except OSError as error:
        raise SourceError(f"{path}: the picture cannot be written: {error}") from error


_KINDS = {
    "hash": "Subscriptions are spread by their ids; every worker sees every message.",
    "shared": "Every worker holds every subscription; messages are spread.",
}


def _facts(plan: Plan, bars: Bars) -> list[str]:
    facts = [f"plan {plan.number}", f"{plan.grid.columns} x {plan.grid.rows} cells"]
    if plan.kind == "grid":
        facts.append(f"{int(plan.split_cells.sum())} of them split by text")
    facts.append(f"{bars.name}: highest by mean {bars.balance:.2f}")
    return facts


def _bars(plan: Plan, loads: Sequence[float] | None) -> Bars:
    name, given = "load", loads if loads is not None else plan.about.get("loads")
    if given is None:
        name, given = "cells", cells_by_worker(plan)
    values = [float(value) for value in given]
    if len(values) != plan.workers or not np.isfinite(values).all() or min(values) < 0:
        raise InvalidValue("loads", given, f"a number from 0 for each of {plan.workers} workers")
    return Bars(name, values)


def cells_by_worker(plan: Plan) -> list[int]:
    """Count for each worker the cells that it has, or has a part of."""
    if plan.kind != "grid":
        return [plan.grid.cells] * plan.workers
    whole = plan.cell_worker[plan.cell_worker >= 0]
    counts = np.bincount(whole, minlength=plan.workers)
    for number, each in enumerate(plan.maps):
        taking_part = np.unique(np.concatenate((each.workers, each.others)))
        counts[taking_part] += int((plan.cell_worker == -1 - number).sum())
    return [int(count) for count in counts]


def main_workers(text_map: TextMap) -> list[int]:
    """Give the workers with most terms of a text map, as many as can be distinguished."""
    both = np.concatenate((text_map.workers, text_map.others))
    workers, counts = np.unique(both, return_counts=True)
    return [int(each) for each in workers[np.argsort(-counts, kind="stable")][:_MOST_STRIPES]]


def worker_colours(workers: int) -> list[Colour]:
    """Give each worker a colour; those of neighbouring numbers are far apart."""
    colours = []
    for worker in range(workers):
        hue = 6.0 * ((0.55 + worker * _GOLDEN) % 1.0)
        light = (0.78, 0.62, 0.9)[worker % 3]
        rgb = [light * (1 - 0.65 * _level(hue + turn)) for turn in (0.0, 4.0, 2.0)]
        colours.append((round(255 * rgb[0]), round(255 * rgb[1]), round(255 * rgb[2])))
    return colours


def _level(hue: float) -> float:
    """How much of a basic colour a hue from 0 to 6 lacks."""
    away = abs(hue % 6.0 - 3.0)
    return 1.0 - min(max(away - 1.0, 0.0), 1.0)
