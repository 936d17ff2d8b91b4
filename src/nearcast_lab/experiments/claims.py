"""What Skype says beside what was measured, and the predicates that judge it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from nearcast_lab.report import OWN, Claim, claim

SKYPE_PAPER = "Skype, VLDB J."


def claim_of(
    figure: str, says: str, measured: str, parts: Mapping[str, bool], why: str = ""
) -> Claim:
    """Judge a claim of the paper by its parts, each named; of figure `none` it is our own."""
    return claim(OWN if figure == "none" else SKYPE_PAPER, figure, says, measured, parts, why)


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
