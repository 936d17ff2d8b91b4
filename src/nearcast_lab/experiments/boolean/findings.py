"""What an experiment finds: figures, and claims beside what was measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypedDict

AP_TREE = "AP-Tree, ICDE 2015"
AP_PLUS = "AP-Tree, VLDB J."
LFILTER = "LFilter, CIKM 2015"
OURS = "rarest-term"

Verdict = Literal["holds", "partly", "fails"]


class Figure(TypedDict):
    """One picture: lines over the same points, or bars beside each other."""

    paper: str
    number: str
    title: str
    across: str
    unit: str
    points: list[str]
    lines: dict[str, list[float]]
    bars: bool


class BooleanClaim(TypedDict):
    """What a paper says, what was measured, and what follows."""

    paper: str
    figure: str
    claim: str
    measured: str
    verdict: Verdict
    why: str


class BooleanReport(TypedDict):
    """All that was found, and with what."""

    scale: str
    subscriptions: int
    messages: int
    seed: int
    machine: str
    cpu_s: float
    notes: list[str]
    claims: list[BooleanClaim]
    figures: list[Figure]


Findings = tuple[list[Figure], list[BooleanClaim]]
Lines = Mapping[str, Sequence[float]]


def figure(
    paper: str, number: str, title: str, across: str, points: Sequence[object], lines: Lines,
    unit: str = "us a message", bars: bool = False,
) -> Figure:  # fmt: skip
    """Describe a figure."""
    return Figure(
        paper=paper,
        number=number,
        title=title,
        across=across,
        unit=unit,
        points=[str(point) for point in points],
        lines={name: [float(value) for value in values] for name, values in lines.items()},
        bars=bars,
    )


def claim(
    paper: str, number: str, says: str, measured: str, holds: bool | Sequence[bool], why: str = ""
) -> BooleanClaim:
    """Judge a claim: of several parts, some may hold."""
    parts = [holds] if isinstance(holds, bool) else list(holds)
    verdict: Verdict = "holds" if all(parts) else "partly" if any(parts) else "fails"
    return BooleanClaim(
        paper=paper,
        figure=number,
        claim=says,
        measured=measured,
        verdict=verdict,
        why="" if verdict == "holds" else why,
    )


def times_faster(slow: float, fast: float) -> str:
    """Write how many times faster something is."""
    return f"{slow / fast:.2f}x" if slow < 10 * fast else f"{slow / fast:.0f}x"


def each(values: Sequence[float], unit: str = "") -> str:
    """Write measured values one after another."""
    written = (f"{value:.1f}" if value < 100 else f"{value:,.0f}" for value in values)
    return " -> ".join(written) + (f" {unit}" if unit else "")
