"""The figures of AP+-Tree (VLDB J.), section 5.2, measured again: claim beside result.

Keywords and places of messages are those of the workload `tweets` in the box of San Joaquin;
subscribers travel on a made-up road network there. A velocity of 1 is 30 to 60 km/h, half more on
main roads, and a move is what one drives in the paper's timestamp of 30 seconds. Sizes follow the
paper's table 3, with as many subscriptions as are asked for in place of its million.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypedDict

import numpy as np

from nearcast_lab.bench.moving import MovingReport, MovingSetup, measure_moving
from nearcast_lab.progress import Progress
from nearcast_lab.report import Report, claim, figure
from nearcast_lab.workloads.registry import array_workload
from nearcast_lab.workloads.space import SPACES

_PAPER = "AP+-Tree, VLDB J."
_TREE = "ap-plus-tree"
_VARIANTS = ("ap-plus-k", "ap-plus-s")
_QUADTREES = ("iq-plus-tree", "rq-plus-tree")
_GRIDS = ("ss-index", "kk-index")
_OTHERS = (*_QUADTREES, *_GRIDS)
_ALL = [_TREE, *_VARIANTS, *_OTHERS, "ours"]
_SPACE = "san-joaquin"
_AREA = 1e-4
_VELOCITIES = (0.5, 1.0, 2.0, 3.0, 4.0)
_MOBILITIES = (0.1, 0.2, 0.4, 0.6, 0.8)
_AREAS = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1)
_SIZES = (0.5, 1.0, 1.5, 2.0, 2.5)
_CURVES = (1e-4, 1e-3, 1e-2)
_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_VARIED: dict[str, tuple[str, Sequence[float]]] = {
    "22": ("share of the subscriptions that move", _MOBILITIES),
    "23": ("velocity", _VELOCITIES),
    "24": ("area of a region, as a share of the space", _AREAS),
    "25": ("subscriptions, as a multiple", _SIZES),
}
_UNITS = {"21c": "bytes a pair", "22": "ms of CPU"}


class MovingFinding(TypedDict):
    """What the paper says, what was measured, and whether that agrees."""

    figure: str
    claim: str
    result: str
    agrees: bool
    values: dict[str, list[float]]


def run_moving(
    subscriptions: int, moves: int, seed: int, progress: Progress
) -> list[MovingFinding]:
    """Measure all figures, with as many messages as subscriptions."""

    def measure(
        names: list[str], steps: list[float], size: int, area: float = _AREA, most: int = moves
    ) -> list[MovingReport]:
        roads = SPACES[_SPACE]
        plan = MovingSetup("tweets", size, size, most, steps, names, False, 2.0, seed, roads)
        options = {"min_area": str(area), "max_area": str(area), "space": _SPACE}
        return measure_moving(plan, array_workload("tweets", seed=seed, **options), progress)

    default = {r["design"]: r for r in measure(_ALL, [1.0], subscriptions)}
    findings = [
        _insertion(default),
        _updates(default),
        _matching(default),
        _variants(default),
        _incoming(default),
        _others(default),
        _memory(default),
    ]
    names = [_TREE, *_OTHERS, "ours"]
    shares = [int(share * subscriptions) for share in _MOBILITIES]
    runs = [measure(names, [1.0], subscriptions, most=share) for share in shares]
    totals = {
        name: [cost * count / 1e3 for cost, count in zip(costs, shares, strict=True)]
        for name, costs in _moves(runs).items()
    }
    fastest = "AP+-Tree is fastest"
    findings.append(_series("22, ms for 10 to 80 % of all to move", fastest, totals))
    by_velocity = measure(names, list(_VELOCITIES), subscriptions)
    velocities = {r["design"]: [s["move_us"] for s in r["steps"]] for r in by_velocity}
    findings.append(_series("23, velocity 0.5 to 4", fastest, velocities))
    runs = [measure(names, [1.0], subscriptions, area) for area in _AREAS]
    findings.append(_series("24, regions of 0.000001 to 10 %", fastest, _moves(runs)))
    runs = [measure(names, [1.0], int(subscriptions * factor)) for factor in _SIZES]
    findings.append(_series("25, 0.5 to 2.5 times as many", fastest, _moves(runs)))
    return findings


def report_of(subscriptions: int, findings: Sequence[MovingFinding]) -> Report:
    """Arrange findings for a page."""
    claims, figures = [], []
    for one in findings:
        number, _, title = one["figure"].partition(", ")
        unit = _UNITS.get(number, "us of CPU")
        claims.append(claim(_PAPER, number, one["claim"], one["result"], one["agrees"]))
        if number in _VARIED:
            figures.append(figure(_PAPER, number, title, *_VARIED[number], one["values"], unit))
        else:
            lines = {title: [value for (value,) in one["values"].values()]}
            designs = list(one["values"])
            figures.append(figure(_PAPER, number, title, "design", designs, lines, unit, True))
    about = f"{subscriptions:,} subscriptions that move on roads, and as many active messages."
    return Report("Moving subscriptions: AP+-Tree, section 5.2, again", about, claims, figures)


def curves_by_area(
    subscriptions: int, moves: int, seed: int, progress: Progress
) -> dict[str, list[tuple[float, float]]]:
    """What moves cost by how much area changes hands, for regions of several sizes.

    Boxes go a share of their side in any direction; subscriptions have one term, so that much
    comes and goes.
    """
    curves = {}
    for area in _CURVES:
        names = ["ours", "re-evaluate"]
        plan = MovingSetup(
            "one-term", subscriptions, subscriptions, moves, list(_STEPS), names, False, 2.0, seed
        )
        options = {"min_area": str(area), "max_area": str(area)}
        made = array_workload("one-term", seed=seed, **options)
        for report in measure_moving(plan, made, progress):
            costs = [step["move_us"] for step in report["steps"]]
            changed = [area * _changed(step) for step in _STEPS]
            line = f"{report['design']}, {100 * area:g} %"
            curves[line] = list(zip(changed, costs, strict=True))
    return curves


def _changed(step: float) -> float:
    """Average the area that changes hands when a box moves by `step`, as a share of its own."""
    turns = np.linspace(0.0, 2.0 * np.pi, 360, endpoint=False)
    left = (1.0 - step * np.abs(np.cos(turns))) * (1.0 - step * np.abs(np.sin(turns)))
    return float(2.0 * (1.0 - left.mean()))


Reports = dict[str, MovingReport]
Value = Callable[[MovingReport], float]


def _move(report: MovingReport) -> float:
    return report["steps"][0]["move_us"]


def _moves(runs: list[list[MovingReport]]) -> dict[str, list[float]]:
    names = [report["design"] for report in runs[0]]
    return {name: [_move(run[at]) for run in runs] for at, name in enumerate(names)}


def _each(reports: Reports, value: Value) -> dict[str, list[float]]:
    return {name: [value(report)] for name, report in reports.items()}


def _ratios(reports: Reports, names: tuple[str, ...], value: Value) -> dict[str, float]:
    """How many times the AP+-Tree's cost others have."""
    return {name: value(reports[name]) / value(reports[_TREE]) for name in names}


def _listed(ratios: dict[str, float]) -> str:
    return ", ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items())


def _insertion(reports: Reports) -> MovingFinding:
    def inserted(report: MovingReport) -> float:
        return report["insert_us"]

    slow = min(inserted(reports[name]) for name in (*_QUADTREES, _TREE))
    quick = max(inserted(reports[name]) for name in _GRIDS)
    return MovingFinding(
        figure="19a, message insertion",
        claim="IQ+, RQ+ and AP+-Tree take longer than SS- and KK-Index",
        result=f"at least {slow:.1f} us, and at most {quick:.1f}",
        agrees=slow > quick,
        values=_each(reports, inserted),
    )


def _updates(reports: Reports) -> MovingFinding:
    def updated(report: MovingReport) -> float:
        return report["steps"][0]["index_part_us"]

    ratios = _ratios(reports, _OTHERS, updated)
    return MovingFinding(
        figure="19b, moving a subscription in its index",
        claim="IQ+ and RQ+ take long, as they choose cells again; AP+-Tree does not",
        result=f"times AP+-Tree's: {_listed(ratios)}",
        agrees=min(ratios[name] for name in _QUADTREES) > 1,
        values=_each(reports, updated),
    )


def _matching(reports: Reports) -> MovingFinding:
    ratios = [reports[_TREE]["publish_us"] / reports[name]["publish_us"] for name in _VARIANTS]
    return MovingFinding(
        figure="20a, incoming messages",
        claim="AP+-Tree is a little slower than AP+k and AP+s, as it keeps the message too",
        result=f"{ratios[0]:.1f} and {ratios[1]:.1f} times their time",
        agrees=1.0 <= max(ratios) <= 2.0,
        values=_each(reports, lambda report: report["publish_us"]),
    )


def _variants(reports: Reports) -> MovingFinding:
    ratios = _ratios(reports, _VARIANTS, _move)
    return MovingFinding(
        figure="20b, moves",
        claim="AP+-Tree is nearly ten times as fast as AP+k and AP+s",
        result=f"times AP+-Tree's: {_listed(ratios)}",
        agrees=min(ratios.values()) >= 5,
        values=_each(reports, _move),
    )


def _incoming(reports: Reports) -> MovingFinding:
    ratios = _ratios(reports, (*_OTHERS, "ours"), lambda report: report["publish_us"])
    return MovingFinding(
        figure="21a, incoming messages",
        claim="AP+-Tree is fastest",
        result=f"times AP+-Tree's: {_listed(ratios)}",
        agrees=min(ratios[name] for name in _OTHERS) > 1,
        values=_each(reports, lambda report: report["publish_us"]),
    )


def _others(reports: Reports) -> MovingFinding:
    ratios = _ratios(reports, (*_OTHERS, "ours"), _move)
    return MovingFinding(
        figure="21b, moves",
        claim="AP+-Tree is fastest",
        result=f"times AP+-Tree's: {_listed(ratios)}",
        agrees=min(ratios[name] for name in _OTHERS) > 1,
        values=_each(reports, _move),
    )


def _memory(reports: Reports) -> MovingFinding:
    def size(report: MovingReport) -> float:
        return report["bytes_per_message"] + report["index_bytes_per_subscription"]

    ratios = _ratios(reports, (*_OTHERS, "ours"), size)
    return MovingFinding(
        figure="21c, index size",
        claim="AP+-Tree takes the least memory",
        result=f"AP+-Tree {size(reports[_TREE]):.0f} bytes a pair; times that: {_listed(ratios)}",
        agrees=min(ratios[name] for name in _OTHERS) > 1,
        values=_each(reports, size),
    )


def _series(figure: str, claim: str, values: dict[str, list[float]]) -> MovingFinding:
    tree = values[_TREE]
    best = [min(values[name][at] for name in _OTHERS) for at in range(len(tree))]
    wins = sum(a < b for a, b in zip(tree, best, strict=True))
    ours = [a / b for a, b in zip(tree, values["ours"], strict=True)]
    return MovingFinding(
        figure=figure,
        claim=claim,
        result=f"fastest of the paper's at {wins} of {len(tree)}; ours {min(ours):.2g} to "
        f"{max(ours):.2g} times as fast as AP+-Tree",
        agrees=wins == len(tree),
        values=values,
    )
