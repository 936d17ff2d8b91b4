"""A log-log plot of lines, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from xml.sax.saxutils import escape

_WIDTH, _HEIGHT = 760, 460
_LEFT, _RIGHT, _TOP, _BOTTOM = 90, 190, 50, 60
_COLOURS = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce", "#be123c", "#525252", "#a16207", "#0f766e")

Points = Sequence[tuple[float, float]]


def _exponents(values: Sequence[float]) -> tuple[int, int]:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return (low, high) if low < high else (low, low + 1)


def _written(exponent: int) -> str:
    names = {0: "1", 1: "10", 2: "100", 3: "1 k", 4: "10 k", 5: "100 k", 6: "1 M", 7: "10 M"}
    return names.get(exponent, f"1e{exponent}")


def log_log_plot(title: str, across: str, up: str, lines: Mapping[str, Points]) -> str:
    """Draw one line for each name; all coordinates must be above 0."""
    xs = [x for points in lines.values() for x, _ in points]
    ys = [y for points in lines.values() for _, y in points]
    (x_low, x_high), (y_low, y_high) = _exponents(xs), _exponents(ys)
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + (log10(x) - x_low) / (x_high - x_low) * (right - _LEFT),
            bottom - (log10(y) - y_low) / (y_high - y_low) * (bottom - _TOP),
        )

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="13" fill="#222">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="28" font-size="16">{escape(title)}</text>',
        f'<text x="{(_LEFT + right) / 2}" y="{_HEIGHT - 16}" text-anchor="middle">'
        f"{escape(across)}</text>",
        f'<text transform="translate(22 {(_TOP + bottom) / 2}) rotate(-90)" '
        f'text-anchor="middle">{escape(up)}</text>',
    ]
    for exponent in range(x_low, x_high + 1):
        x, _ = place(10.0**exponent, 10.0**y_low)
        parts.append(_grid_line(x, _TOP, x, bottom))
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 20}" text-anchor="middle">{_written(exponent)}</text>'
        )
    for exponent in range(y_low, y_high + 1):
        _, y = place(10.0**x_low, 10.0**exponent)
        parts.append(_grid_line(_LEFT, y, right, y))
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{_written(exponent)}</text>'
        )
    for number, (name, points) in enumerate(lines.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        corners = [place(x, y) for x, y in sorted(points)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.extend(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{colour}"/>' for x, y in corners
        )
        y = _TOP + 18 * number + 10
        parts.append(f'<circle cx="{right + 18}" cy="{y - 4}" r="5" fill="{colour}"/>')
        parts.append(f'<text x="{right + 30}" y="{y}">{escape(name)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _grid_line(x0: float, y0: float, x1: float, y1: float) -> str:
    return f'<line x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}" stroke="#ddd"/>'
