"""What the figures of Skype's section 8.1 are measured with: sizes, texts, one run of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypedDict

from nearcast_lab.bench.topk import TopkRun, TopkSetup, measure_run
from nearcast_lab.progress import Progress
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import TopkArrays

SKYPE, RIVAL = "igpt+cskyband", "ciq+kmax"
"""The whole system of the paper, cell by cell as algorithm 1 has it, and the best of its rivals."""

TEXTS: Mapping[str, dict[str, Any]] = {
    "tweets": {"terms": 9, "vocabulary": 1_700_000},
    "gn": {"terms": 7, "vocabulary": 208_000},
    "yelp": {"terms": 37, "vocabulary": 85_000},
}
"""Texts with the lengths and vocabularies of the paper's (table 3), their words independent."""


class Series(TypedDict):
    """One point of a figure: what was varied, what it cost, and what was counted."""

    figure: str
    varied: str
    method: str
    value: float
    arriving_us: float
    expiring_us: float
    buffer_size: float
    visited: float
    reevaluations_per_1000: float


class TopkScale(NamedTuple):
    """How large, and with which data."""

    subscriptions: int = 20_000
    window: int = 20_000
    turnovers: float = 2.0
    sample: int = 300
    seed: int = 1
    shift: float = 40.0
    vocabulary: int = 1_700_000

    def options(self, **others: Any) -> TopkOptions:
        """The workload of the paper, with something varied."""
        return TopkOptions(shift=self.shift, **({"vocabulary": self.vocabulary} | others))


def stream(
    scale: TopkScale,
    method: str,
    progress: Progress,
    varied: Mapping[str, Any] | None = None,
    timed: bool = False,
) -> TopkRun:
    """Run a stream through a method, with a size or an option of the workload varied."""
    sizes = {"subscriptions": scale.subscriptions, "window": scale.window}
    others = dict(varied or {})
    sizes |= {name: int(others.pop(name)) for name in list(others) if name in sizes}
    data = TopkArrays(scale.seed, scale.options(**others))
    messages = int(scale.turnovers * sizes["window"])
    plan = TopkSetup(sizes["subscriptions"], sizes["window"], messages, [method], timed=timed)
    queries = data.subscriptions(0, plan.subscriptions)
    return measure_run(plan, data, method, queries, progress)[0]


def whole(run: TopkRun) -> float:
    """What a message costs altogether, in microseconds."""
    return run["arriving_us"] + run["expiring_us"]


def point(figure: str, varied: str, value: float, run: TopkRun) -> Series:
    """A point of a figure."""
    return {
        "figure": figure,
        "varied": varied,
        "method": run["method"],
        "value": value,
        "arriving_us": run["arriving_us"],
        "expiring_us": run["expiring_us"],
        "buffer_size": run["buffer_size"],
        "visited": run["visited_per_message"],
        "reevaluations_per_1000": run["reevaluations_per_1000"],
    }
