"""Measured figures beside the limits that they have to keep."""

from __future__ import annotations

from typing import Literal, TypedDict

from rich.table import Table

from nearcast_lab.tables import results_table


class Check(TypedDict):
    """A figure that must be at least, or at most, some number."""

    promise: str
    found: float
    must: Literal["at least", "at most"]
    limit: float
    holds: bool


def at_most(promise: str, found: float, limit: float) -> Check:
    """Check that a figure is low enough."""
    return Check(promise=promise, found=found, must="at most", limit=limit, holds=found <= limit)


def at_least(promise: str, found: float, limit: float) -> Check:
    """Check that a figure is high enough."""
    return Check(promise=promise, found=found, must="at least", limit=limit, holds=found >= limit)


def table_of(checks: list[Check]) -> Table:
    """Show each figure, its limit, and whether it keeps it."""
    table = results_table(["checked"], ["found", "must be", ""], "checks")
    for check in checks:
        holds = "holds" if check["holds"] else "missed"
        limit = f"{check['must']} {check['limit']:.2f}"
        table.add_row(check["promise"], f"{check['found']:.3f}", limit, holds)
    return table
