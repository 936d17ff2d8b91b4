"""A drawing in SVG, on a page of HTML that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from nearcast.partition._pixels import INK, Colour

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ margin: 12px; }}
svg {{ font-family: sans-serif; fill: #222; max-width: 100%; height: auto; }}
</style>
</head>
<body>
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">
{parts}
</svg>
</body>
</html>
"""  # noqa: E501 - one element
_BAND = 4


class SvgCanvas:
    """Rectangles and texts, placed as on the canvas of `_pixels`."""

    def __init__(self, width: int, height: int) -> None:
        self._width, self._height = width, height
        self._parts: list[str] = []
        self._patterns: dict[tuple[Colour, ...], str] = {}

    def striped(
        self, x: int, y: int, width: int, height: int, colours: Sequence[Colour], title: str = ""
    ) -> None:
        """Fill a rectangle with a colour, or with slanting stripes of several and of ink."""
        fill = hex_of(colours[0]) if len(colours) == 1 else self._pattern(tuple(colours))
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" '
            f'shape-rendering="crispEdges">'
            + (f"<title>{escape(title)}</title></rect>" if title else "</rect>")
        )

    def _pattern(self, colours: tuple[Colour, ...]) -> str:
        if colours not in self._patterns:
            name, size = f"stripes{len(self._patterns)}", _BAND * len(colours) + 1
            bands = "".join(
                f'<rect x="{_BAND * at}" width="{_BAND}" height="{size}" fill="{hex_of(colour)}"/>'
                for at, colour in enumerate(colours)
            )
            ink = f'<rect x="{size - 1}" width="1" height="{size}" fill="{hex_of(INK)}"/>'
            self._parts.append(
                f'<pattern id="{name}" width="{size}" height="{size}" '
                'patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
                f"{bands}{ink}</pattern>"
            )
            self._patterns[colours] = f"url(#{name})"
        return self._patterns[colours]

    def text(self, x: int, y: int, text: str, size: int) -> None:
        """Write as high as letters of 3 x 5 dots of `size` pixels are."""
        given = f'x="{x}" y="{y + 5 * size}" font-size="{4 * size + 4}"'
        self._parts.append(f"<text {given}>{escape(text)}</text>")

    def html(self, title: str) -> str:
        """Give the page."""
        parts = "\n".join(self._parts)
        return _PAGE.format(
            title=escape(title), width=self._width, height=self._height, parts=parts
        )


def hex_of(colour: Colour) -> str:
    """A colour as pages write it."""
    return "#{:02x}{:02x}{:02x}".format(*colour)
