"""A chart of horizontal bars, each in parts, as SVG."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

_WIDTH, _LEFT, _RIGHT, _TOP, _ROW = 860, 300, 90, 70, 28
_COLOURS = ("#0b6e99", "#c2410c", "#4d7c0f", "#7e22ce", "#be123c", "#525252")


def bar_chart(title: str, unit: str, bars: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Draw a bar for each name, in a linear scale, with a key of the parts."""
    parts = list(dict.fromkeys(part for _, values in bars for part in values))
    colours = {part: _COLOURS[n % len(_COLOURS)] for n, part in enumerate(parts)}
    most = max((sum(values.values()) for _, values in bars), default=1.0) or 1.0
    height = _TOP + _ROW * len(bars) + 20
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="13" fill="#222">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        f'<text x="16" y="26" font-size="16">{escape(title)} ({escape(unit)})</text>',
    ]
    for n, part in enumerate(parts if len(parts) > 1 else []):
        x = 16 + 130 * n
        drawn.append(f'<rect x="{x}" y="40" width="12" height="12" fill="{colours[part]}"/>')
        drawn.append(f'<text x="{x + 18}" y="51">{escape(part)}</text>')
    for n, (name, values) in enumerate(bars):
        y, edge = _TOP + _ROW * n, float(_LEFT)
        drawn.append(f'<text x="{_LEFT - 8}" y="{y + 15}" text-anchor="end">{escape(name)}</text>')
        for part, value in values.items():
            width = value / most * (_WIDTH - _LEFT - _RIGHT)
            drawn.append(
                f'<rect x="{edge:.1f}" y="{y}" width="{width:.1f}" height="20" '
                f'fill="{colours[part]}"/>'
            )
            edge += width
        drawn.append(f'<text x="{edge + 6:.1f}" y="{y + 15}">{sum(values.values()):,.1f}</text>')
    return "\n".join([*drawn, "</svg>", ""])
