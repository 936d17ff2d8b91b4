"""Section VI of PS2Stream (ICDE 2017): what its figures claim, and what is simulated here.

Workers are simulated (`partition.simulate`): what each has to do is counted by the worker's own
index, and a bound is the messages a second that the heaviest worker allows. So partitioning,
memory, selection and the effect of adjustment can be simulated; latency takes a stream on Spark
(`distributed_spark`). Data are made up (`nearcast generate sts-q1`), not the paper's tweets: ratios
are compared, not rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from nearcast_lab.bench import adjust, partition
from nearcast_lab.bench.partition import PartitionReport
from nearcast_lab.progress import Progress
from nearcast_lab.report import OWN, Report, claim, figure
from nearcast_lab.workloads.sts_arrays import LOCAL, STS_WORKLOADS

PAPER = "PS2Stream, ICDE 2017"
TEXT = ("text-frequency", "text-hypergraph", "text-metric")
SPACE = ("space-grid", "space-kd", "space-rtree")
_COMPARED = ("text-metric", "space-kd", "hybrid", "auto")
_AS_GOOD = 0.97  # of the best: as good


class DistributedScale(NamedTuple):
    """How large, and with which data."""

    subscriptions: int = 100_000
    messages: int = 40_000
    workers: Sequence[int] = (8, 16, 32)
    intervals: int = 3
    columns: int = 256
    rows: int = 128
    seed: int = 1


class DistributedFinding(TypedDict):
    """What the paper says, what was found, and what follows from it.

    `parts` are predicates by name, of which all, some or none hold: None if nothing was measured.
    `values` has for each method a number for each kind of run.
    """

    figure: str
    claim: str
    found: str
    parts: dict[str, bool] | None
    unit: str
    values: dict[str, dict[str, float]]


def measure(
    scale: DistributedScale, progress: Progress, latency: DistributedFinding | None = None
) -> list[DistributedFinding]:
    """Simulate everything; what a migration does to latencies is measured elsewhere, if at all."""
    first = scale.workers[0]
    all_at = _Runs(_simulated(scale, [*TEXT, *SPACE, "hybrid", "auto"], [first], progress))
    by_place = _Runs(_simulated(scale, _COMPARED[:3], [first], progress, tuple(LOCAL)))
    rest = _simulated(scale, _COMPARED, scale.workers[1:], progress) if scale.workers[1:] else []
    growing = _Runs([*all_at.reports, *rest])
    drift = adjust.measure_adjust(
        adjust.AdjustSetup(
            [first], scale.subscriptions, scale.messages, scale.intervals, 2, scale.columns,
            scale.rows, seed=scale.seed,
        ),
        progress,
    )  # fmt: skip
    return [
        _baselines(all_at, first, "sts-q1", "6a, 6c", SPACE, TEXT),
        _baselines(all_at, first, "sts-q2", "6b, 6d", TEXT, SPACE),
        _best_baselines(all_at, first),
        _hybrid(all_at, first),
        _by_place(by_place, first),
        _ours(all_at, first),
        _dispatchers(all_at, first),
        _workers(all_at, first),
        _scaling(growing, scale.workers),
        _selection_time(drift),
        _migration_cost(drift),
        _adjustment(drift),
        latency or NOT_MEASURED,
        DistributedFinding(
            figure="8",
            claim="tuples stay 15 to 25 ms in the system, least with hybrid",
            found="not compared: Spark takes events by the batch; `nearcast bench spark` says how "
            "long these take here",
            parts=None,
            unit="",
            values={},
        ),
    ]


def report_of(scale: DistributedScale, findings: Sequence[DistributedFinding]) -> Report:
    """Arrange findings for a page: a group of bars for each kind of run, a bar for each method."""
    claims = [
        claim(
            OWN if one["claim"].startswith("(not in the paper)") else PAPER,
            one["figure"], one["claim"], one["found"],
            None if one["parts"] is None else list(one["parts"].values()),
        )
        for one in findings
    ]  # fmt: skip
    figures = []
    for one in findings:
        if one["values"]:
            runs = list(next(iter(one["values"].values())))
            lines = {name: [each[run] for run in runs] for name, each in one["values"].items()}
            figures.append(
                figure(PAPER, one["figure"], one["claim"], "run", runs, lines, one["unit"], True)
            )
    about = (
        f"{scale.subscriptions:,} subscriptions, {scale.messages:,} messages, seed {scale.seed}; "
        "simulated with the workers' own index. With H2 messages go only where a subscription asks "
        "for one of their terms."
    )
    return Report("PS2Stream, section VI, measured again", about, claims, figures)


def _simulated(
    scale: DistributedScale,
    names: Sequence[str],
    workers: Sequence[int],
    progress: Progress,
    workloads: Sequence[str] = tuple(STS_WORKLOADS),
) -> list[PartitionReport]:
    arrangement = partition.PartitionSetup(
        workloads=workloads,
        workers=workers,
        partitioners=names,
        subscriptions=scale.subscriptions,
        messages=scale.messages,
        sampled=2 * scale.messages,
        columns=scale.columns,
        rows=scale.rows,
        measure=False,
        seed=scale.seed,
    )
    return partition.measure_partition(arrangement, progress)["reports"]


NOT_MEASURED = DistributedFinding(
    figure="12c, 15",
    claim="80 % of the tuples are not disturbed by a migration",
    found="a simulator has no latency: add --spark",
    parts=None,
    unit="",
    values={},
)
"""What a migration does to latencies, where that was not measured."""


class _Runs:
    """Simulated plans, found again by what they are."""

    def __init__(self, reports: list[PartitionReport]) -> None:
        self.reports = reports

    def get(self, workload: str, workers: int, name: str, h2: bool = True) -> PartitionReport:
        return next(
            each
            for each in self.reports
            if (each["workload"], each["partitioner"]) == (workload, name)
            and (each["simulated"]["workers"], each["simulated"]["wanted"]) == (workers, h2)
        )

    def bound(self, workload: str, workers: int, name: str, h2: bool = True) -> float:
        """Messages a second, in millions."""
        return self.get(workload, workers, name, h2)["simulated"]["messages_per_s"] / 1e6

    def bounds(
        self, names: Sequence[str], workloads: Sequence[str], workers: int
    ) -> dict[str, dict[str, float]]:
        """The bounds of several methods, with H2 and without."""
        return {
            name: {
                f"{workload}{filtered}": self.bound(workload, workers, name, h2)
                for workload in workloads
                for h2, filtered in ((True, ""), (False, " without H2"))
            }
            for name in names
        }


def _best(runs: _Runs, workload: str, workers: int, names: Sequence[str], h2: bool) -> float:
    return max(runs.bound(workload, workers, name, h2) for name in names)


def _baselines(
    runs: _Runs,
    workers: int,
    workload: str,
    figure: str,
    ahead: Sequence[str],
    behind: Sequence[str],
) -> DistributedFinding:
    ratios = [
        _best(runs, workload, workers, ahead, h2) / _best(runs, workload, workers, behind, h2)
        for h2 in (True, False)
    ]
    one, other = ("text", "space") if ahead is TEXT else ("space", "text")
    return DistributedFinding(
        figure=f"{figure} ({workload})",
        claim=f"partitioning by {one} is ahead of partitioning by {other}",
        found=f"by {one} {ratios[0]:.2f} times with H2, {ratios[1]:.2f} times without",
        parts={"with H2": ratios[0] > 1.0, "without H2": ratios[1] > 1.0},
        unit="million messages a second",
        values=runs.bounds([*ahead, *behind], [workload], workers),
    )


def _best_baselines(runs: _Runs, workers: int) -> DistributedFinding:
    def wins(name: str, names: Sequence[str]) -> int:
        return sum(
            runs.bound(workload, workers, name)
            >= _AS_GOOD * _best(runs, workload, workers, names, True)
            for workload in ("sts-q1", "sts-q2")
        )

    metric, kd = wins("text-metric", TEXT), wins("space-kd", SPACE)
    return DistributedFinding(
        figure="6",
        claim="metric is the best of the text baselines, kd-tree of the space baselines",
        found=f"best or as good on {metric} and {kd} of 2 workloads",
        parts={"metric on both": metric == 2, "kd-tree on both": kd == 2},
        unit="million messages a second",
        values=runs.bounds([*TEXT, *SPACE], ["sts-q1", "sts-q2"], workers),
    )


def _by_place(runs: _Runs, workers: int) -> DistributedFinding:
    """The cause of 7c, taken away: words depend on place, so that phase 1 finds differences."""
    rivals, names = ("text-metric", "space-kd"), list(LOCAL)
    gains = {
        name: runs.bound(name, workers, "hybrid") / _best(runs, name, workers, rivals, True)
        for name in names
    }
    return DistributedFinding(
        figure="7, words by place",
        claim="hybrid has 30 % more throughput where messages and subscriptions differ by region",
        found="words depend on place, and in half of the regions subscriptions ask for those of "
        "another: hybrid has "
        + ", ".join(f"{gain:.2f}" for gain in gains.values())
        + " times the better of metric and kd-tree (" + ", ".join(gains) + ")",
        parts={name: gain >= 1.25 for name, gain in gains.items()},
        unit="million messages a second",
        values=runs.bounds(["hybrid", *rivals], names, workers),
    )  # fmt: skip


def _hybrid(runs: _Runs, workers: int) -> DistributedFinding:
    rivals = ("text-metric", "space-kd")
    gains = [
        runs.bound("sts-q3", workers, "hybrid", True) / _best(runs, "sts-q3", workers, rivals, h2)
        for h2 in (True, False)
    ]
    return DistributedFinding(
        figure="7c",
        claim="on Q3 hybrid has 30 % more throughput than metric and kd-tree",
        found=f"{gains[0]:.2f} times the better of both; {gains[1]:.2f} times if these lack H2",
        parts={"if these lack H2": gains[1] >= 1.25, "with H2 for all": gains[0] >= 1.25},
        unit="million messages a second",
        values=runs.bounds(["hybrid", *rivals], ["sts-q1", "sts-q2", "sts-q3"], workers),
    )


def _ours(runs: _Runs, workers: int) -> DistributedFinding:
    gains = [
        runs.bound(workload, workers, "auto") / runs.bound(workload, workers, "hybrid")
        for workload in ("sts-q1", "sts-q2", "sts-q3")
    ]
    return DistributedFinding(
        figure="7, ours beside it",
        claim="(not in the paper) planning by the real cost of the workers' index",
        found="auto has " + ", ".join(f"{gain:.2f}" for gain in gains) + " times hybrid's bound",
        parts=None,
        unit="million messages a second",
        values=runs.bounds(["auto", "hybrid"], ["sts-q1", "sts-q2", "sts-q3"], workers),
    )


def _dispatchers(runs: _Runs, workers: int) -> DistributedFinding:
    values = {
        name: {
            workload: _megabytes(runs.get(workload, workers, name))
            for workload in ("sts-q1", "sts-q2", "sts-q3")
        }
        for name in ("hybrid", "text-metric", "space-kd")
    }
    most = max(max(each.values()) for each in values.values())
    least = all(
        values["space-kd"][workload] <= _least(values, workload) / _AS_GOOD
        for workload in values["space-kd"]
    )
    return DistributedFinding(
        figure="9",
        claim="a dispatcher needs less than 1,000 MB, and least with a kd-tree",
        found=f"at most {most:.0f} MB; kd-tree {'needs' if least else 'does not need'} least",
        parts={"less than 1,000 MB": most < 1000, "least with a kd-tree": least},
        unit="MB",
        values=values,
    )


def _megabytes(report: PartitionReport) -> float:
    return (report["simulated"]["plan_bytes"] + report["simulated"]["wanted_bytes"]) / 1e6


def _least(values: Mapping[str, Mapping[str, float]], column: str) -> float:
    return min(each[column] for each in values.values())


def _workers(runs: _Runs, workers: int) -> DistributedFinding:
    values = {
        name: {
            workload: runs.get(workload, workers, name)["simulated"]["replication"]
            for workload in ("sts-q1", "sts-q2", "sts-q3")
        }
        for name in ("hybrid", "text-metric", "space-kd", "auto")
    }
    wins = sum(
        values["hybrid"][workload] * _AS_GOOD <= _least(values, workload)
        for workload in values["hybrid"]
    )
    return DistributedFinding(
        figure="10",
        claim="workers need least memory with hybrid, in most cases",
        found=f"fewest copies of subscriptions on {wins} of 3 workloads",
        parts={"on 2 of 3": wins >= 2},
        unit="copies of each subscription",
        values=values,
    )


def _scaling(runs: _Runs, workers: Sequence[int]) -> DistributedFinding:
    values = {
        name: {f"{count} workers": runs.bound("sts-q3", count, name) for count in workers}
        for name in _COMPARED
    }
    ahead = sum(
        values["hybrid"][column]
        >= _AS_GOOD * max(values[name][column] for name in ("text-metric", "space-kd"))
        for column in values["hybrid"]
    )
    grows = list(values["hybrid"].values())
    return DistributedFinding(
        figure="11 (sts-q3)",
        claim="hybrid is best in most cases and scales with the number of workers",
        found=f"best or as good at {ahead} of {len(workers)}; {grows[-1] / grows[0]:.1f} times "
        f"the bound with {workers[-1] / workers[0]:.0f} times the workers",
        parts={
            "best in most cases": 2 * ahead > len(workers),
            "grows with every step": grows == sorted(grows),
        },
        unit="million messages a second",
        values=values,
    )


def _selected(drift: adjust.AdjustOutcome, field: str, load: str) -> dict[str, float]:
    chosen = [each for each in drift["selections"] if each["load"] in (load, "real")]
    kept = {each["method"]: each for each in chosen if each["load"] == load}
    ours = next(each for each in chosen if each["method"] == "ours")
    return {
        name: float(each[field])  # type: ignore[literal-required]  # one of its numbers
        for name, each in (kept | {"ours": ours}).items()
        if name in ("DP", "GR", "SI", "RA", "ours")
    }


def _selection_time(drift: adjust.AdjustOutcome) -> DistributedFinding:
    times = _selected(drift, "ms", "definition 3")
    slowest = max(times[name] for name in ("GR", "SI", "RA"))
    return DistributedFinding(
        figure="12a, 13",
        claim="DP takes far longer to select cells than GR, SI and RA, which are all quick",
        found=f"DP {times['DP'] / slowest:.0f} times as long as the slowest of them",
        parts={"10 times as long": times["DP"] > 10 * slowest},
        unit="ms",
        values={name: {"selection": time} for name, time in times.items()},
    )


def _migration_cost(drift: adjust.AdjustOutcome) -> DistributedFinding:
    sizes = {load: _selected(drift, "by_definition", load) for load in ("definition 3", "real")}
    carried = _selected(drift, "carried", "real")
    saved = {load: 1 - each["GR"] / min(each["SI"], each["RA"]) for load, each in sizes.items()}
    shown = {f"cells selected by load: {load}": each for load, each in sizes.items()}
    shown["carried, of cells selected by load: real"] = carried
    return DistributedFinding(
        figure="12b, 14",
        claim="GR carries 30 to 40 % less than SI and RA",
        found=f"{saved['definition 3']:.0%} less by definition 3, {saved['real']:.0%} less by the "
        f"real load of cells; ours {carried['ours'] / carried['GR']:.2f} of what GR really carries",
        parts={"30 % less than both": saved["definition 3"] >= 0.3},
        unit="kB",
        values={name: {run: each[name] / 1e3 for run, each in shown.items()} for name in carried},
    )


def _adjustment(drift: adjust.AdjustOutcome) -> DistributedFinding:
    by: dict[str, list[float]] = {}
    for step in drift["steps"]:
        by.setdefault(step["method"], []).append(step["messages_per_s"] / 1e6)
    means = {method: float(np.mean(each)) for method, each in by.items()}
    gains = {name: means[name] / means["none"] - 1 for name in ("published", "ours", "rebuild")}
    return DistributedFinding(
        figure="16",
        claim="with adjustment the throughput is 26 % higher, when a tenth of the regions switches",
        found=f"{gains['published']:+.0%} as published, {gains['ours']:+.0%} by ours, "
        f"{gains['rebuild']:+.0%} with a new plan each time",
        parts={
            "higher": gains["published"] > 0,
            "20 % higher": gains["published"] >= 0.2,
        },
        unit="million messages a second",
        values={
            method: {f"interval {number}": bound for number, bound in enumerate(each, start=1)}
            for method, each in by.items()
        },
    )
