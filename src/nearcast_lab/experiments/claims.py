"""What a paper says beside what was measured."""

from __future__ import annotations

from typing import TypedDict


class SkypeClaim(TypedDict):
    """What the paper says, what was measured, and whether that agrees."""

    figure: str
    claim: str
    measured: str
    holds: bool
    why: str


def claim_of(figure: str, claim: str, measured: str, holds: bool, why: str) -> SkypeClaim:
    """Put a claim together; a reason is only given where it does not hold."""
    return {
        "figure": figure,
        "claim": claim,
        "measured": measured,
        "holds": bool(holds),
        "why": "" if holds else why,
    }
