"""What the experiment on boolean subscriptions finds: figures, and claims beside results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from nearcast_lab.charts import Figure
from nearcast_lab.report import Claim, Report

AP_TREE = "AP-Tree, ICDE 2015"
AP_PLUS = "AP-Tree, VLDB J."
LFILTER = "LFilter, CIKM 2015"
OURS = "rarest-term"


class BooleanReport(TypedDict):
    """All that was found, and with what."""

    scale: str
    subscriptions: int
    messages: int
    seed: int
    machine: str
    cpu_s: float
    notes: list[str]
    claims: list[Claim]
    figures: list[Figure]


Findings = tuple[list[Figure], list[Claim]]


def report_of(found: BooleanReport) -> Report:
    """Arrange what was found for a page."""
    about = (
        f"Scale {found['scale']}: {found['subscriptions']:,} subscriptions where nothing else "
        f"is said, up to {found['messages']:,} messages a point, seed {found['seed']}. "
        f"{found['machine']}. {found['cpu_s']:,.0f} s of CPU."
    )
    title = "Boolean subscriptions: the papers' figures, measured again"
    return Report(title, about, found["claims"], found["figures"], found["notes"])


def times_faster(slow: float, fast: float) -> str:
    """Write how many times faster something is."""
    return f"{slow / fast:.2f}x" if slow < 10 * fast else f"{slow / fast:.0f}x"


def each(values: Sequence[float], unit: str = "") -> str:
    """Write measured values one after another."""
    written = (f"{value:.1f}" if value < 100 else f"{value:,.0f}" for value in values)
    return " -> ".join(written) + (f" {unit}" if unit else "")
