"""Charts as SVG, drawn with matplotlib, which the extra `nearcast[lab]` installs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from io import StringIO
from typing import TYPE_CHECKING, Any, TypedDict

from nearcast.errors import SetupError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure as Canvas

Points = Sequence[tuple[float, float]]

# The strong and then the light colours of matplotlib's tab20.
COLOURS = (
    "#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#7f7f7f",
    "#bcbd22", "#17becf", "#aec7e8", "#ffbb78", "#98df8a", "#ff9896", "#c5b0d5", "#c49c94",
    "#f7b6d2", "#c7c7c7", "#dbdb8d", "#9edae5",
)  # fmt: skip
_STYLE: Any = {
    "svg.fonttype": "none",  # texts stay texts, which can be searched and read aloud
    "svg.hashsalt": "nearcast",  # the same chart is the same file
    "axes.spines.right": False,
    "axes.spines.top": False,
}
_LINEAR_UP_TO = 30.0  # bars that differ by more than this factor get a logarithmic axis


class Figure(TypedDict):
    """One figure of a paper: lines over the same named points, or bars beside each other."""

    paper: str
    number: str
    title: str
    across: str
    unit: str
    points: list[str]
    lines: dict[str, list[float]]
    bars: bool


def need_charts() -> None:
    """Raise an error that says what to install if charts cannot be drawn."""
    if find_spec("matplotlib") is None:
        raise SetupError("matplotlib: is not installed; charts need: pip install 'nearcast[lab]'")


def number_text(value: float) -> str:
    """Write a number with three significant digits, or all digits of its whole part."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def line_chart(title: str, across: str, up: str, lines: Mapping[str, Points]) -> str:
    """Draw a line for each name on two logarithmic axes; all coordinates must be above 0."""
    canvas, axes = _axes(7.6, 4.6)
    for (name, points), colour in zip(lines.items(), _colours(len(lines)), strict=True):
        xs, ys = zip(*sorted(points), strict=True) if points else ((), ())
        axes.plot(xs, ys, marker="o", label=name, color=colour)
    axes.set(xscale="log", yscale="log")
    _tick(axes.xaxis)
    _tick(axes.yaxis)
    axes.set(title=title, xlabel=across, ylabel=up)
    axes.grid(alpha=0.3)
    return _svg(canvas, axes)


def stacked_chart(title: str, unit: str, rows: Sequence[tuple[str, Mapping[str, float]]]) -> str:
    """Draw a horizontal bar for each row, made of its parts, with the sum at its end."""
    canvas, axes = _axes(8.6, 1.2 + 0.3 * len(rows))
    names = [name for name, _ in rows]
    parts = list(dict.fromkeys(part for _, values in rows for part in values))
    ends = [0.0] * len(rows)
    for part, colour in zip(parts, _colours(len(parts)), strict=True):
        widths = [values.get(part, 0.0) for _, values in rows]
        drawn = axes.barh(range(len(rows)), widths, left=ends, label=part, color=colour)
        ends = [end + width for end, width in zip(ends, widths, strict=True)]
    if parts:
        axes.bar_label(drawn, labels=[f"{end:,.1f}" for end in ends], padding=4)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set(title=title, xlabel=unit)
    axes.margins(x=0.1)
    return _svg(canvas, axes)


def figure_chart(figure: Figure, colours: Mapping[str, str]) -> str:
    """Draw a figure, with a colour for each of its lines or groups of bars."""
    canvas, axes = _axes(5.8, 3.8)
    places = range(len(figure["points"]))
    width = 0.8 / max(len(figure["lines"]), 1)
    for at, (name, values) in enumerate(figure["lines"].items()):
        if figure["bars"]:
            edges = [place - 0.4 + at * width for place in places]
            axes.bar(edges, values, width, align="edge", label=name, color=colours[name])
        else:
            axes.plot(places, values, marker="o", label=name, color=colours[name])
    above = [value for values in figure["lines"].values() for value in values if value > 0]
    if above and not (figure["bars"] and max(above) <= _LINEAR_UP_TO * min(above)):
        axes.set_yscale("log")
        _tick(axes.yaxis)
    axes.set_xticks(places, figure["points"])
    if sum(map(len, figure["points"])) > 50:
        for label in axes.get_xticklabels():
            label.set(rotation=25, ha="right")
    axes.set(xlabel=figure["across"], ylabel=figure["unit"])
    axes.grid(axis="y", alpha=0.3)
    return _svg(canvas, axes)


def _colours(count: int) -> list[str]:
    return [COLOURS[at % len(COLOURS)] for at in range(count)]


def _axes(width: float, height: float) -> tuple[Canvas, Axes]:
    """Make an empty chart, its size in inches. Without pyplot, which would need a display."""
    need_charts()
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Canvas

    with rc_context(_STYLE):
        canvas = Canvas(figsize=(width, height), layout="constrained")
        return canvas, canvas.add_subplot()


def _tick(axis: Axis) -> None:
    """Write plain numbers at round places of a logarithmic axis."""
    from matplotlib.ticker import LogLocator, NullLocator

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0,) if high > 1000 * low else (1.0, 2.0, 5.0)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(lambda value, _: number_text(value))


def _svg(canvas: Canvas, axes: Axes) -> str:
    """Write a chart as an SVG element that can be a file, or a part of a page beside others."""
    from matplotlib import rc_context

    names = axes.get_legend_handles_labels()[1]
    if len(names) > 1:
        side_by_side = max(1, min(4, 72 // (8 + max(map(len, names)))))
        canvas.legend(
            loc="outside lower center", ncols=side_by_side, frameon=False, fontsize="small"
        )
    written = StringIO()
    with rc_context(_STYLE):
        unnamed = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        canvas.savefig(written, format="svg", metadata=unnamed)
    text = written.getvalue()
    return re.sub(r'<g id="[^"]*">', "<g>", text[text.index("<svg") :])
