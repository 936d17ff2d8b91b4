"""What was measured as tables on a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.box import SIMPLE_HEAD
from rich.table import Table


def results_table(left: Sequence[str], right: Sequence[str], title: str | None = None) -> Table:
    """Make a table with columns of names to the left, and of figures to the right."""
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in left:
        table.add_column(name, overflow="fold", min_width=12 if len(left) == 1 else None)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def measures_table(report: Mapping[str, object]) -> Table:
    """Show each figure of a report in a row, those of a part of it with the name of the part."""
    table = Table("measure", "value")
    for name, value in report.items():
        for inner, each in value.items() if isinstance(value, dict) else (("", value),):
            table.add_row(f"{name} {inner}".strip(), _shown(each))
    return table


def _shown(value: object) -> str:
    if isinstance(value, list):
        return " ".join(_shown(each) for each in value)
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def short_text(value: float) -> str:
    """Write a number in few letters, large ones in thousands and millions."""
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if value >= 10 * size or (value >= size and letter == "M"):
            return f"{value / size:.3g}{letter}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}"
