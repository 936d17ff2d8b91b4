"""`nearcast bench partition`: its report, its table, its options."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nearcast.cli.main import main
from nearcast.partition.registry import PARTITIONERS

SMALL = [
    "--subscriptions", "400", "--messages", "300", "--sampled", "400", "--grid", "16x8",
    "--no-calibrate",
]  # fmt: skip


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert main(["bench", "partition", *SMALL, *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    read: dict[str, Any] = json.loads(captured.out)
    return read


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["bench", "partition", *SMALL, *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_all_partitioners_are_simulated_with_and_without_the_filter(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One run covers workloads, workers, partitioners and filters; hybrid is the measure."""
    names = list(PARTITIONERS)
    found = report(
        capsys, "--workload", "sts-q1,sts-q3", "--workers", "2,3", "--partitioner", ",".join(names)
    )
    assert found["check_ns"] > 0
    runs = [
        (
            one["workload"],
            one["simulated"]["workers"],
            one["partitioner"],
            one["simulated"]["wanted"],
        )
        for one in found["reports"]
    ]
    assert runs == [
        (workload, workers, name, wanted)
        for workload in ("sts-q1", "sts-q3")
        for workers in (2, 3)
        for name in names
        for wanted in (True, False)
    ]
    by_run = dict(zip(runs, found["reports"], strict=True))
    for (workload, workers, name, wanted), one in by_run.items():
        measure = by_run[workload, workers, "hybrid", True]["simulated"]["messages_per_s"]
        assert one["of_hybrid"] == pytest.approx(one["simulated"]["messages_per_s"] / measure)
        simulated = one["simulated"]
        assert one["if_even"] == pytest.approx(one["of_hybrid"] * simulated["balance"])
        assert simulated["balance"] >= 1.0
        assert (simulated["wanted_bytes"] > 0) == wanted
        if not wanted:
            filtered = by_run[workload, workers, name, True]["simulated"]
            assert filtered["workers_per_message"] <= simulated["workers_per_message"]


def test_promises_are_kept_track_of(capsys: pytest.CaptureFixture[str]) -> None:
    """With the numbers of workers that have limits, each figure is checked."""
    found = report(
        capsys, "--workload", "sts-q1", "--workers", "8", "--partitioner", "hybrid,auto",
        "--h2", "with",
    )  # fmt: skip
    ours = next(one for one in found["reports"] if one["partitioner"] == "auto")
    checks = {check["promise"].partition(": ")[2]: check for check in found["bars"]}
    assert checks["heaviest by the mean"]["found"] == ours["simulated"]["balance"]
    assert checks["seconds of planning"]["holds"]
    dominate = all(one["simulated"]["candidate_share"] >= 0.5 for one in found["reports"])
    assert ("bound by hybrid's" in checks) == dominate
    for check in checks.values():
        wide = check["found"] - check["limit"]
        assert check["holds"] == (wide >= 0 if check["must"] == "at least" else wide <= 0)


def test_figures_can_be_read_by_people(capsys: pytest.CaptureFixture[str]) -> None:
    """A table for each workload and number of workers, with a row for each partitioner."""
    chosen = ["--workload", "sts-q2", "--workers", "2", "--partitioner", "space-kd,hybrid"]
    assert main(["bench", "partition", *SMALL, *chosen]) == 0
    shown = capsys.readouterr().out
    assert "sts-q2, 2 workers" in shown
    assert "space-kd" in shown
    assert "a candidate 2.4 ns" in shown
    # Without the reference there is nothing to compare with.
    found = report(capsys, *chosen[:4], "--partitioner", "space-kd", "--h2", "without")
    assert [one["of_hybrid"] for one in found["reports"]] == [None]


def test_costs_are_measured_unless_told_otherwise(capsys: pytest.CaptureFixture[str]) -> None:
    """With --calibrate the costs are this machine's own."""
    found = report(
        capsys, "--calibrate", "--workload", "sts-q1", "--workers", "2", "--partitioner", "space-kd"
    )
    assert found["message_ns"] != 250.0
    assert min(found["check_ns"], found["message_ns"], found["operation_ns"]) > 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--workload", "tweets"], "--workload: 'tweets' given; expected one of sts-q1"),
        (["--partitioner", "best"], "--partitioner: 'best' given; expected one of"),
        (["--workers", "0"], "--workers: '0' given"),
        (["--grid", "16"], "--grid: '16' given; expected columns and rows, such as 512x256"),
        (["--grid", "0x4"], "--grid: '0x4' given"),
    ],
)
def test_what_is_wrong_is_said(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names, numbers and sizes are refused before anything is made."""
    assert said in complaint(capsys, *arguments)
