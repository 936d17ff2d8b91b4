"""The parts of the HTML picture of a plan."""

from __future__ import annotations

from collections.abc import Sequence

from nearcast.arrays.types import Int32s
from nearcast.partition.grid import Grid

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px sans-serif; color: #222; margin: 24px; }}
h1 {{ font-size: 20px; margin: 0; }}
ul {{ list-style: none; padding: 0; margin: 4px 0 16px; display: flex; gap: 16px; }}
div {{ display: flex; flex-wrap: wrap; gap: 32px; align-items: flex-start; }}
</style>
</head>
<body>
<h1>{title}</h1>
<ul>{facts}</ul>
<div>
{map}
{bars}
</div>
</body>
</html>
"""

_MAP_WIDTH, _MAP_HEIGHT = 800.0, 560.0
_BAR, _LABEL = 260, 44


def _svg(width: float, height: float, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.2f} {height:.2f}" font-family="sans-serif" font-size="12">'
    )
    return "\n".join([head, *parts, "</svg>"])


def map_of_cells(
    grid: Grid, codes: Int32s, colours: Sequence[str], stripes: Sequence[Sequence[str]]
) -> str:
    """Draw the cells, north up; neighbours in a line with the same code become one rectangle."""
    shape = (grid.north - grid.south) / (grid.east - grid.west)
    width = min(_MAP_WIDTH, _MAP_HEIGHT / shape)
    height = max(width * shape, 1.0)
    across, up = width / grid.columns, height / grid.rows
    parts = ["<defs>", *(_pattern(number, each) for number, each in enumerate(stripes)), "</defs>"]
    for row, line in enumerate(codes.reshape(grid.rows, grid.columns).tolist()):
        y = height - (row + 1) * up
        start = 0
        for column in range(1, grid.columns + 1):
            if column < grid.columns and line[column] == line[start]:
                continue
            code = line[start]
            fill = colours[code] if code >= 0 else f"url(#map{-1 - code})"
            name = f"worker {code}" if code >= 0 else f"split by text map {-1 - code}"
            parts.append(
                f'<rect x="{start * across:.2f}" y="{y:.2f}" '
                f'width="{(column - start) * across:.2f}" height="{up:.2f}" fill="{fill}" '
                f'shape-rendering="crispEdges">'
                f"<title>{name}</title></rect>"
            )
            start = column
    parts.append(f'<rect width="{width:.2f}" height="{height:.2f}" fill="none" stroke="#222"/>')
    return _svg(width, height, parts)


def _pattern(number: int, colours: Sequence[str]) -> str:
    """Draw slanting stripes in the colours of those who share a cell, with a thin dark one."""
    size = 3 * len(colours) + 1
    stripes = "".join(
        f'<rect x="{3 * at}" width="3" height="{size}" fill="{colour}"/>'
        for at, colour in enumerate(colours)
    )
    return (
        f'<pattern id="map{number}" width="{size}" height="{size}" patternUnits="userSpaceOnUse" '
        f'patternTransform="rotate(45)">{stripes}'
        f'<rect x="{size - 1}" width="1" height="{size}" fill="#222"/></pattern>'
    )


def short(value: float) -> str:
    """Write a number in a few characters."""
    for unit, name in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= unit:
            return f"{value / unit:.3g}{name}"
    return f"{value:.3g}"


def bar_chart(name: str, values: Sequence[float], colours: Sequence[str]) -> str:
    """Draw a bar for each worker, and a line at the mean."""
    thick = max(4.0, min(18.0, _MAP_HEIGHT / len(values)))
    every = int(-(-12 // thick))
    most = max(max(values), 1e-300)
    mean = sum(values) / len(values)
    height = thick * len(values) + 26
    parts = [f'<text x="{_LABEL}" y="12">{name} by worker; the line is the mean</text>']
    for worker, value in enumerate(values):
        y, length = 22 + worker * thick, _BAR * value / most
        parts.append(
            f'<rect x="{_LABEL}" y="{y:.2f}" width="{length:.2f}" height="{thick * 0.85:.2f}" '
            f'fill="{colours[worker]}"><title>worker {worker}: {value:.6g}</title></rect>'
        )
        if worker % every == 0:
            middle = y + thick / 2 + 3
            parts.append(
                f'<text x="{_LABEL - 6}" y="{middle:.2f}" text-anchor="end">{worker}</text>'
            )
            if every == 1:  # else it would be written over the bars beside it
                x = _LABEL + length + 6
                parts.append(f'<text x="{x:.2f}" y="{middle:.2f}">{short(value)}</text>')
    x = _LABEL + _BAR * mean / most
    parts.append(f'<line x1="{x:.2f}" y1="20" x2="{x:.2f}" y2="{height:.2f}" stroke="#222"/>')
    return _svg(_LABEL + _BAR + 90, height, parts)
