"""A picture of a plan: cells coloured by worker, split cells striped, loads of workers as bars.

As one HTML file that needs nothing else, or as PNG.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nearcast.errors import InvalidValue, SourceError
from nearcast.partition._pixels import Canvas, Colour
from nearcast.partition._svg import PAGE, bar_chart, map_of_cells, short
from nearcast.partition.plan import Plan, TextMap

_GOLDEN = 0.618033988749895
_MOST_STRIPES = 6
_PIXELS_ACROSS = 768


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
    bars = _bars(plan, loads)
    colours = [hex_of(colour) for colour in worker_colours(plan.workers)]
    stripes = [[colours[worker] for worker in main_workers(each)] for each in plan.maps]
    if plan.kind == "grid":
        picture = map_of_cells(plan.grid, plan.cell_worker, colours, stripes)
    else:
        picture = f"<p>{escape(_KINDS[plan.kind])}</p>"
    facts = "".join(f"<li>{escape(fact)}</li>" for fact in _facts(plan, bars))
    return PAGE.format(
        title=escape(f"{plan.scheme}, {plan.workers} workers"),
        facts=facts,
        map=picture,
        bars=bar_chart(bars.name, bars.values, colours),
    )


def plan_png(plan: Plan, loads: Sequence[float] | None = None) -> bytes:
    """Draw a plan as a PNG image; `loads` as for `plan_html`."""
    bars = _bars(plan, loads)
    side = max(2, _PIXELS_ACROSS // plan.grid.columns)
    width, height = side * plan.grid.columns, side * plan.grid.rows
    thick = max(3, min(16, height // plan.workers))
    tall = 60 + max(height, thick * plan.workers)
    canvas = Canvas(width + 420, tall)
    canvas.text(20, 12, f"{plan.scheme}, {plan.workers} workers", 3)
    canvas.text(20, 34, "; ".join(_facts(plan, bars)[1:]), 2)
    if plan.kind == "grid":
        paint_map(canvas, plan, 20, 52, side)
    else:
        canvas.text(20, 60, _KINDS[plan.kind], 2)
    paint_bars(canvas, bars.values, width + 50, 52, thick)
    return canvas.png()


def paint_map(canvas: Canvas, plan: Plan, left: int, top: int, side: int) -> None:
    """Paint the cells of a plan as squares, north up."""
    colours = worker_colours(plan.workers)
    stripes = [[colours[worker] for worker in main_workers(each)] for each in plan.maps]
    for cell, code in enumerate(plan.cell_worker.tolist()):
        row, column = divmod(cell, plan.grid.columns)
        x, y = left + column * side, top + (plan.grid.rows - 1 - row) * side
        canvas.striped(x, y, side, side, [colours[code]] if code >= 0 else stripes[-1 - code])


def paint_bars(canvas: Canvas, values: Sequence[float], left: int, top: int, thick: int) -> None:
    """Paint a bar for each worker, with its number and value; it takes 370 pixels across."""
    most = max(*values, 1e-300)
    every = -(-14 // thick)
    for worker, (value, colour) in enumerate(zip(values, worker_colours(len(values)), strict=True)):
        y = top + worker * thick
        length = round(250 * value / most)
        canvas.striped(left + 34, y, max(length, 1), max(thick - 1, 1), [colour])
        if worker % every == 0:
            canvas.text(left, y, str(worker), 2)
            if every == 1:  # else it would be written over the bars beside it
                canvas.text(left + 40 + length, y, short(value), 2)


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


def hex_of(colour: Colour) -> str:
    """A colour as pages write it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
