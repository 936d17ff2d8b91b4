"""Runs what is compared and planned here once, with little data, so that it is compiled."""

from __future__ import annotations

from nearcast.partition.registry import PARTITIONERS
from nearcast_lab.bench.adjust import AdjustSetup as Drift
from nearcast_lab.bench.adjust import measure_adjust
from nearcast_lab.bench.designs import DESIGNS
from nearcast_lab.bench.distribution import DistributionSetup as Spreads
from nearcast_lab.bench.distribution import measure_distribution
from nearcast_lab.bench.moving import FAR, measure_moving
from nearcast_lab.bench.moving import MovingSetup as Moves
from nearcast_lab.bench.partition import PartitionSetup as Plans
from nearcast_lab.bench.partition import measure_partition
from nearcast_lab.bench.safe_regions import measure_safe
from nearcast_lab.bench.timestamps import TimestampsSetup, measure_timestamps
from nearcast_lab.bench.topk import OURS, measure_matching, measure_run
from nearcast_lab.bench.topk import TopkSetup as Streams
from nearcast_lab.workloads.registry import array_workload
from nearcast_lab.workloads.space import SPACES
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import TopkArrays

_FEW = 300
_WORKLOAD = {"vocabulary": "500", "max_area": "0.2", "min_area": "0.05"}


def _progress(_: str) -> None:
    """Report nothing."""


def rehearse_moving() -> None:
    """Every way to keep subscriptions that move and messages that last."""
    made = array_workload("tweets", seed=1, **_WORKLOAD)
    plan = Moves("tweets", _FEW, _FEW, 100, [0.1, FAR], list(DESIGNS), False, 1.0, 1)
    measure_moving(plan, made, _progress)
    roads = TimestampsSetup(
        _FEW, _FEW, 30, 2, ["ours"], 1, SPACES["oldenburg"], 100, extent=SPACES["world"]
    )  # fmt: skip
    measure_timestamps(roads, array_workload("local-tweets", seed=1, **_WORKLOAD), _progress)
    measure_safe(roads, made, _progress)


def rehearse_topk() -> None:
    """Skype beside the core: each way to find who is affected, each buffer."""
    made = TopkArrays(1, TopkOptions())
    methods = [OURS, "taat+kmax", "ciq+skyband", "igpt+cskyband"]
    plan = Streams(_FEW, _FEW, 2 * _FEW, methods, ["taat", "ciq", "igpt"], sample=10, check=1)
    queries = made.subscriptions(0, _FEW)
    for method in methods:
        _, core = measure_run(plan, made, method, queries, _progress)
        if method == OURS:
            measure_matching(plan, made, core, queries, _progress)


def rehearse_planning() -> None:
    """Every plan for boolean subscriptions, what adjusts plans, and every spread for top-k."""
    measure_partition(
        Plans(["sts-q3"], [4], list(PARTITIONERS), _FEW, _FEW, _FEW, columns=16, rows=8), _progress
    )
    measure_adjust(Drift([4], _FEW, _FEW, intervals=1, looks=2, columns=16, rows=8), _progress)
    measure_distribution(
        Spreads(["gn"], [4], subscriptions=_FEW, window=1000, messages=_FEW, vocabulary=2000),
        _progress,
    )
