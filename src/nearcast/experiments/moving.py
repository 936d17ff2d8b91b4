"""The figures of AP+-Tree (VLDB J.), section 5.2, measured again: claim beside result.

Subscriptions and messages are those of the workload `tweets`; a move goes a share of the region's
side in a random direction, in place of a road network, so that its length can be varied alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypedDict

from nearcast.bench.moving import MovingReport, Plan, Tell, measure_moving
from nearcast.workloads.registry import array_workload

_TREE = "ap-plus-tree"
_VARIANTS = ("ap-plus-k", "ap-plus-s")
_OTHERS = ("ss-index", "cell-term-hash")
_ALL = [_TREE, *_VARIANTS, *_OTHERS, "ours"]
_STEP = 0.1
_VELOCITIES = (0.5, 1.0, 2.0, 3.0, 4.0)
_AREAS = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1)
_SIZES = (0.5, 1.0, 1.5, 2.0, 2.5)


class Finding(TypedDict):
    """What the paper says, what was measured, and whether that agrees."""

    figure: str
    claim: str
    result: str
    agrees: bool
    values: dict[str, list[float]]


def run_moving(subscriptions: int, moves: int, seed: int, tell: Tell) -> list[Finding]:
    """Measure all figures with so many subscriptions and as many messages."""

    def measure(names: list[str], steps: list[float], size: int, area: float) -> list[MovingReport]:
        plan = Plan("tweets", size, size, moves, steps, names, False, 2.0, seed)
        options = {"min_area": str(area), "max_area": str(area)}
        made = array_workload("tweets", seed=seed, **options)
        return measure_moving(plan, made, tell)

    default = {r["design"]: r for r in measure(_ALL, [_STEP], subscriptions, 1e-4)}
    findings = [
        _variants(default),
        _matching(default),
        _others(default),
        _memory(default),
    ]
    names = [_TREE, "ss-index", "ours"]
    steps = [_STEP * factor for factor in _VELOCITIES]
    by_velocity = measure(names, steps, subscriptions, 1e-4)
    findings.append(
        _series(
            "23, velocity 0.5 to 4",
            "AP+-Tree is fastest at every velocity",
            {r["design"]: [s["move_us"] for s in r["steps"]] for r in by_velocity},
        )
    )
    by_area = [measure(names, [_STEP], subscriptions, area) for area in _AREAS]
    findings.append(
        _series(
            "24, regions of 0.000001 to 10 %", "AP+-Tree is fastest at every size", _moves(by_area)
        )
    )
    by_size = [measure(names, [_STEP], int(subscriptions * f), 1e-4) for f in _SIZES]
    findings.append(
        _series(
            "25, 0.5 to 2.5 times as many", "AP+-Tree is fastest at any number", _moves(by_size)
        )
    )
    return findings


Reports = dict[str, MovingReport]


def _move(report: MovingReport) -> float:
    return report["steps"][0]["move_us"]


def _moves(runs: list[list[MovingReport]]) -> dict[str, list[float]]:
    names = [report["design"] for report in runs[0]]
    return {name: [_move(run[at]) for run in runs] for at, name in enumerate(names)}


def _each(reports: Reports, value: Callable[[MovingReport], float]) -> dict[str, list[float]]:
    return {name: [value(report)] for name, report in reports.items()}


def _variants(reports: Reports) -> Finding:
    ratios = [_move(reports[name]) / _move(reports[_TREE]) for name in _VARIANTS]
    return Finding(
        figure="20b, moves",
        claim="AP+-Tree is nearly ten times as fast as AP+k and AP+s",
        result=f"{ratios[0]:.1f} and {ratios[1]:.1f} times",
        agrees=min(ratios) >= 5,
        values=_each(reports, _move),
    )


def _matching(reports: Reports) -> Finding:
    ratios = [reports[_TREE]["publish_us"] / reports[name]["publish_us"] for name in _VARIANTS]
    return Finding(
        figure="20a, incoming messages",
        claim="AP+-Tree is a little slower than AP+k and AP+s, as it keeps the message too",
        result=f"{ratios[0]:.1f} and {ratios[1]:.1f} times their time",
        agrees=1.0 <= max(ratios) <= 2.0,
        values=_each(reports, lambda report: report["publish_us"]),
    )


def _others(reports: Reports) -> Finding:
    ratio = _move(reports["ss-index"]) / _move(reports[_TREE])
    ours = _move(reports[_TREE]) / _move(reports["ours"])
    return Finding(
        figure="21b, moves",
        claim="AP+-Tree is faster than SS-Index",
        result=f"{ratio:.2f} times as fast; ours {ours:.0f} times as fast as AP+-Tree",
        agrees=ratio > 1,
        values=_each(reports, _move),
    )


def _memory(reports: Reports) -> Finding:
    def size(report: MovingReport) -> float:
        return report["bytes_per_message"] + report["index_bytes_per_subscription"]

    least = min(reports, key=lambda name: size(reports[name]))
    return Finding(
        figure="21c, index size",
        claim="AP+-Tree takes the least memory",
        result=f"{least} takes the least; AP+-Tree {size(reports[_TREE]):.0f} bytes a pair",
        agrees=least == _TREE,
        values=_each(reports, size),
    )


def _series(figure: str, claim: str, values: dict[str, list[float]]) -> Finding:
    tree = values[_TREE]
    wins = sum(a < b for a, b in zip(tree, values["ss-index"], strict=True))
    ours = [a / b for a, b in zip(tree, values["ours"], strict=True)]
    return Finding(
        figure=figure,
        claim=claim,
        result=f"faster than SS-Index at {wins} of {len(tree)}; ours {min(ours):.0f} to "
        f"{max(ours):.0f} times as fast as AP+-Tree",
        agrees=wins == len(tree),
        values=values,
    )
