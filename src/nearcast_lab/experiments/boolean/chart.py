"""A figure as SVG: lines or bars over named points, up on a logarithmic scale."""

from __future__ import annotations

from collections.abc import Callable
from math import floor, log10
from xml.sax.saxutils import escape

from nearcast_lab.experiments.boolean.findings import Figure

_WIDTH, _HEIGHT = 560, 330
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 14, 16, 52
_COLOURS = {
    "rarest-term": "#0b6e99",
    "ap-tree": "#c2410c",
    "iq-tree": "#4d7c0f",
    "rq-tree": "#7e22ce",
    "rt-tree": "#a16207",
    "keyword-trie": "#64748b",
    "LFilter": "#be123c",
    "MBRTrie": "#4d7c0f",
    "PT-Quadtree": "#7e22ce",
    "Rt++-Tree": "#a16207",
    "IR-Tree": "#64748b",
}
Up = Callable[[float], float]

_OTHERS = ("#c2410c", "#4d7c0f", "#7e22ce", "#0f766e", "#a16207", "#64748b")


def colour_of(name: str, at: int) -> str:
    """Give the colour of a line: the same in all figures for what has a name of its own."""
    return _COLOURS.get(name, _OTHERS[at % len(_OTHERS)])


def written(value: float) -> str:
    """Write a value so that it can be read: three figures."""
    if value == 0:
        return "0"
    if value >= 1000:
        return f"{value:,.0f}"
    digits = max(0, 2 - floor(log10(abs(value))))
    return f"{value:.{digits}f}"


def _bounds(values: list[float]) -> tuple[float, float]:
    """Give what the scale spans, as powers of ten, with a little room."""
    low, high = log10(min(values)), log10(max(values))
    room = max(0.06 * (high - low), 0.08)
    return low - room, high + room


def _ticks(low: float, high: float) -> list[float]:
    """Choose round values to name on the scale."""
    for steps in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 4, 5, 6, 8)):
        exponents = range(floor(low), floor(high) + 1)
        found = [
            step * 10.0**exponent
            for exponent in exponents
            for step in steps
            if low <= log10(step * 10.0**exponent) <= high
        ]
        if len(found) >= 3:
            break
    return found


def chart(figure: Figure) -> str:
    """Draw a figure; each point says its value when pointed at."""
    values = [value for line in figure["lines"].values() for value in line if value > 0]
    low, high = _bounds(values or [1.0])
    if figure["bars"]:
        low -= 0.3 * (high - low)
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    count = len(figure["points"])
    slot = (right - _LEFT) / count

    def up(value: float) -> float:
        share = (log10(max(value, 10**low)) - low) / (high - low)
        return bottom - share * (bottom - _TOP)

    name = escape(f"{figure['title']}: {figure['unit']}")
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{name}">']
    for tick in _ticks(low, high):
        y = up(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 7}" y="{y + 4:.1f}" text-anchor="end">{tick:,g}</text>')
    for at, point in enumerate(figure["points"]):
        x = _LEFT + (at + 0.5) * slot
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(point)}</text>'
        )
    middle = (_LEFT + right) / 2
    parts.append(
        f'<text x="{middle:.0f}" y="{_HEIGHT - 12}" text-anchor="middle" class="axis">'
        f"{escape(figure['across'])}</text>"
    )
    draw = _bars if figure["bars"] else _lines
    parts += draw(figure, slot, up, bottom)
    return "".join([*parts, "</svg>"])


def _told(name: str, point: str, value: float, unit: str) -> str:
    return f"<title>{escape(f'{name}, {point}: {written(value)} {unit}')}</title>"


def _lines(figure: Figure, slot: float, up: Up, bottom: float) -> list[str]:
    del bottom
    parts = []
    for number, (name, line) in enumerate(figure["lines"].items()):
        colour = colour_of(name, number)
        corners = [(_LEFT + (at + 0.5) * slot, up(value)) for at, value in enumerate(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        parts.append(f'<polyline points="{path}" stroke="{colour}"/>')
        for (x, y), point, value in zip(corners, figure["points"], line, strict=True):
            told = _told(name, point, value, figure["unit"])
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}">{told}</circle>')
    return parts


def _bars(figure: Figure, slot: float, up: Up, bottom: float) -> list[str]:
    parts = []
    wide = 0.8 * slot / len(figure["lines"])
    for number, (name, line) in enumerate(figure["lines"].items()):
        colour = colour_of(name, number)
        for at, (point, value) in enumerate(zip(figure["points"], line, strict=True)):
            x, y = _LEFT + (at + 0.1) * slot + number * wide, up(value)
            told = _told(name, point, value, figure["unit"])
            parts.append(
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{0.9 * wide:.1f}" '
                f'height="{bottom - y:.1f}" fill="{colour}">{told}</rect>'
            )
    return parts
