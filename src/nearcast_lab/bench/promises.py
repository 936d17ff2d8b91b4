"""What is promised, beside what was found."""

from __future__ import annotations

from typing import Literal, TypedDict

from rich.box import SIMPLE_HEAD
from rich.table import Table


class Bar(TypedDict):
    """Something that is promised: that a figure is at least, or at most, some number."""

    promise: str
    found: float
    must: Literal["at least", "at most"]
    limit: float
    holds: bool


def at_most(promise: str, found: float, limit: float) -> Bar:
    """Say whether a figure is low enough."""
    return Bar(promise=promise, found=found, must="at most", limit=limit, holds=found <= limit)


def at_least(promise: str, found: float, limit: float) -> Bar:
    """Say whether a figure is high enough."""
    return Bar(promise=promise, found=found, must="at least", limit=limit, holds=found >= limit)


def table_of(bars: list[Bar]) -> Table:
    """Show what is promised, and whether it holds."""
    table = Table("promised", title="promised", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("found", "must be", ""):
        table.add_column(name, justify="right", no_wrap=True)
    for bar in bars:
        holds = "holds" if bar["holds"] else "missed"
        table.add_row(
            bar["promise"], f"{bar['found']:.3f}", f"{bar['must']} {bar['limit']:.2f}", holds
        )
    return table
