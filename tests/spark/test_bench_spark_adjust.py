"""The benchmark of drifting streams: its log, its figures, and one small run of the command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from nearcast.cli.main import main
from nearcast.spark.reports.report import BatchReport, Moved, WorkerReport
from nearcast_lab.bench.processes import Cpu
from nearcast_lab.bench.spark_adjust_report import (
    ArmRun,
    FedBatch,
    SparkAdjustOutcome,
    checks_of,
    interval_of,
)
from nearcast_lab.bench.spark_drift import CALM, OraclePlanner, write_log
from nearcast_lab.experiments.distributed_spark import latency_of


def test_a_plan_is_made_from_what_is_to_come(tmp_path: Path) -> None:
    """From messages of all intervals, and those who have subscribed by the middle of them."""
    log = write_log(tmp_path, "festival", subscriptions=60, intervals=2, batches=4, ratio=5, seed=1)
    assert len(log.calm) == CALM
    assert [len(each) for each in log.intervals] == [4, 4]
    assert log.events_per_batch == 15 * 12
    files = sorted(log.intervals[1][3].iterdir())
    assert sum(pq.read_metadata(file).num_rows for file in files) == log.events_per_batch
    foresight = OraclePlanner(log)
    for drifts, batches, came in ((False, CALM, CALM // 2), (True, 8, CALM + 4)):
        begun, messages, operations = foresight._look(drifts)
        ids = [int(id[1:]) for id in begun["id"].to_pylist()]
        first = 15 * came  # as many as came have gone
        assert sorted(ids) == list(range(first + 1, first + 61))
        assert messages.size == batches * 150
        assert operations == batches * 30
    for plan in (foresight.for_calm(3), foresight.for_drift(3)):
        assert (plan.kind, plan.workers) == ("grid", 3)


def fed(work: list[int], seconds: float = 1.0, moved: bool = False, cpu: float = 2.0) -> FedBatch:
    workers = [
        WorkerReport(number, load=count / 10, messages=count) for number, count in enumerate(work)
    ]
    carried = Moved(cells=1, subscriptions=5, messages=0, bytes=700) if moved else None
    report = BatchReport(1, 1, 9, 9, 0, 7, 0, {}, workers=workers, moved=carried)
    return FedBatch(seconds, Cpu(python=cpu), report, adjusting_s=0.25 if moved else 0.0)


def test_figures_follow_from_what_was_fed() -> None:
    """A drift has settled after the last batch that was uneven.

    Batches that carry something have that to do besides, and do not count there.
    """
    batches = [fed([4, 1, 1]), fed([4, 1, 1], 3.0, moved=True), fed([2, 2, 2]), fed([2, 3, 2])]
    auto = interval_of("regions", 3, 1, "auto", batches)
    assert auto["worst"] == 2.0
    assert auto["settled_after"] == 1
    assert auto["cpu_balance"] == pytest.approx(15 / 13)
    assert auto["work_balance"] == pytest.approx(15 / 13)
    assert (auto["moves"], auto["last_move"], auto["moved_bytes"]) == (1, 2, 700)
    assert (auto["moving_s"], auto["still_s"]) == ([3.0], [1.0, 1.0, 1.0])
    assert auto["cpu_s"] == 8.0
    assert auto["adjusting_cpu_s"] == pytest.approx(0.25)
    assert auto["updates"] == 28
    off = interval_of("regions", 3, 1, "off", [fed([4, 1, 1])] * 4)
    assert off["settled_after"] is None
    assert off["cpu_balance"] == pytest.approx(2.0)
    oracle = interval_of("regions", 3, 1, "oracle", [fed([2, 2, 2], cpu=1.5)] * 4)
    assert oracle["settled_after"] == 0
    runs = [ArmRun("regions", 3, name, 28, "x") for name in ("auto", "off", "oracle")]
    checks = {check["promise"]: check for check in checks_of([auto, off, oracle], runs)}
    assert [check["holds"] for check in checks.values()] == [True, False, False, True, True]
    assert checks["regions, 3 workers: CPU of adjusting by that of all"]["found"] == 0.25 / 8
    assert checks["regions, 3 workers: p99 of a batch that moves, by others"]["found"] == 3.0
    assert checks["regions, 3 workers: CPU above that of the oracle"]["found"] == pytest.approx(
        1 / 3
    )
    odd = [*runs[:2], ArmRun("regions", 3, "oracle", 28, "y")]
    assert not checks_of([auto, off, oracle], odd)[-1]["holds"]


@pytest.mark.soak
def test_the_command_says_what_it_found(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    """All arms find the same, with figures for each interval."""
    assert spark.streams.active == []
    sizes = ["--subscriptions", "200", "--batches", "4", "--intervals", "1", "--workers", "2"]
    assert main(["bench", "spark-adjust", "--drift", "festival", *sizes, "--json"]) == 0
    found: dict[str, Any] = json.loads(capfd.readouterr().out)
    assert [each["arm"] for each in found["intervals"]] == ["auto", "off", "oracle"]
    digests = {(run["updates"], run["digest"]) for run in found["runs"]}
    assert len(digests) == 1
    assert min(digests)[0] > 0
    assert all(each["cpu_s"] > 0 and each["updates"] > 0 for each in found["intervals"])
    assert found["bars"][-1]["holds"]
    assert spark.streams.active == []
    assert main(["bench", "spark-adjust", "--drift", "rain"]) == 2
    assert "expected one of regions, festival" in capfd.readouterr().err


def test_latencies_of_batches_that_move_cells_are_set_beside_others() -> None:
    """Undisturbed is what takes no longer than nearly all batches of a stream that stays."""
    usual = [fed([2, 2], 1.0 + 0.01 * number) for number in range(20)]
    moves = [fed([2, 2], seconds, moved=True) for seconds in (1.1, 1.15, 1.17, 3.0)]
    arms = {"auto": [*moves, *usual[:6]], "off": usual}
    intervals = [interval_of("festival", 2, 1, arm, batches) for arm, batches in arms.items()]
    found = latency_of(
        SparkAdjustOutcome(subscriptions=1, batches=1, intervals=intervals, runs=[], bars=[])
    )
    assert "4 of 10 batches moved cells; of these 75% took no longer" in found["found"]
    assert found["parts"] == {"80 % undisturbed": False}
    assert found["values"]["cells move"]["median"] == pytest.approx(1.16)
    assert found["values"]["nothing is adjusted"]["p99"] == pytest.approx(1.19, abs=0.01)
    still = [interval_of("festival", 2, 1, arm, usual) for arm in arms]
    found = latency_of(
        SparkAdjustOutcome(subscriptions=1, batches=1, intervals=still, runs=[], bars=[])
    )
    assert found["parts"] is None
    assert "cells move" not in found["values"]
