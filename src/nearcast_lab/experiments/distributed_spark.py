"""Figures 12c and 15 of PS2Stream: what a migration does to latencies, measured on Spark.

A stream is fed batch by batch, so an event is answered when its batch is: batches with which cells
change hands are set beside those of a stream that follows the same drift and moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nearcast_lab.bench.spark_adjust import SparkAdjustSetup, measure_spark_adjust
from nearcast_lab.experiments.distributed import NOT_MEASURED

if TYPE_CHECKING:
    from nearcast_lab.bench.spark_adjust_report import SparkAdjustOutcome
    from nearcast_lab.experiments.distributed import DistributedFinding, DistributedScale
    from nearcast_lab.progress import Progress

_WORKERS, _BATCHES = 4, 24
_MOST_SUBSCRIPTIONS = 50_000
_UNDISTURBED = 0.8


def measure_latency(scale: DistributedScale, progress: Progress) -> DistributedFinding:
    """Let a stream adjust itself on Spark while its load drifts."""
    return latency_of(
        measure_spark_adjust(
            SparkAdjustSetup(
                workers=[_WORKERS],
                drifts=["festival"],
                subscriptions=min(scale.subscriptions, _MOST_SUBSCRIPTIONS),
                intervals=scale.intervals,
                batches=_BATCHES,
                seed=scale.seed,
            ),
            progress,
        )
    )


def latency_of(outcome: SparkAdjustOutcome) -> DistributedFinding:
    """Compare batches that moved something with those of a stream that never does."""
    moving, still, usual = (
        [
            second
            for each in outcome["intervals"]
            if each["arm"] == arm
            for second in (each["moving_s"] if moves else each["still_s"])
        ]
        for arm, moves in (("auto", True), ("auto", False), ("off", False))
    )
    named = {"cells move": moving, "the others": still, "nothing is adjusted": usual}
    values = {name: _quantiles(seconds) for name, seconds in named.items() if seconds}
    found = "nothing had to be moved in so short a stream"
    parts: dict[str, bool] | None = None
    if moving:
        longest = float(np.quantile(usual, 0.99))
        undisturbed = float(np.mean(np.array(moving) <= longest))
        found = (
            f"on Spark {len(moving)} of {len(moving) + len(still)} batches moved cells; of these "
            f"{undisturbed:.0%} took no longer than 99% of those of a stream that moves nothing "
            f"(median {values['cells move']['median']:.2f} s and "
            f"{values['nothing is adjusted']['median']:.2f} s)"
        )
        parts = {"80 % undisturbed": undisturbed >= _UNDISTURBED}
    return {
        **NOT_MEASURED,
        "found": found,
        "parts": parts,
        "unit": "seconds a batch",
        "values": values,
    }


def _quantiles(seconds: Sequence[float]) -> dict[str, float]:
    return {
        name: float(np.quantile(seconds, share)) for name, share in (("median", 0.5), ("p99", 0.99))
    }
