"""What a paper says beside what was measured, judged by predicates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypedDict

from nearcast_lab.report import Verdict


class SkypeClaim(TypedDict):
    """What the paper says, what was measured, and what follows: `parts` are what was judged."""

    figure: str
    claim: str
    measured: str
    parts: dict[str, bool]
    verdict: Verdict
    why: str


def claim_of(
    figure: str, claim: str, measured: str, parts: dict[str, bool], why: str = ""
) -> SkypeClaim:
    """Judge a claim by its parts, each named; a reason is only given where one does not hold."""
    held = list(parts.values())
    verdict: Verdict = "holds" if all(held) else "partly" if any(held) else "fails"
    return {
        "figure": figure,
        "claim": claim,
        "measured": measured,
        "parts": {name: bool(part) for name, part in parts.items()},
        "verdict": verdict,
        "why": "" if verdict == "holds" else why,
    }


def at_most(values: Sequence[float], others: Sequence[float], factor: float = 1.0) -> bool:
    """Whether each value is at most that factor of the other at its place."""
    return all(one <= factor * other for one, other in zip(values, others, strict=True))


def rises(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether no value is below the one before it, by more than a share of it."""
    return all(after >= before * (1.0 - slack) for before, after in pairwise(values))


def falls(values: Sequence[float], slack: float = 0.0) -> bool:
    """Whether no value is above the one before it, by more than a share of it."""
    return all(after <= before * (1.0 + slack) for before, after in pairwise(values))


def listed(values: Sequence[float], unit: str = "") -> str:
    """Values in a row, with as many digits as they need."""
    return ", ".join(f"{v:.2f}" if v < 10 else f"{v:,.0f}" for v in values) + unit
