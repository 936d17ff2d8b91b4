"""`nearcast bench moving` measures every design and notices one that is wrong."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearcast.active import ActiveChanges
from nearcast.cli.main import main
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.bench.designs import Design

SMALL = ["bench", "moving", "--subscriptions", "300", "--messages", "300", "--moves", "120"]
OPTIONS = ["--workload", "tweets:vocabulary=500,max_area=0.2,min_area=0.05", "--check"]


def test_all_designs_are_measured_and_agree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One report a design, with a row for each step, and a plot of those that have a length."""
    plot = tmp_path / "moves.svg"
    names = "ours,keyword-lists,ap-plus-tree"
    arguments = [*SMALL, *OPTIONS, "--design", names, "--json", "--plot", str(plot)]
    assert main(arguments) == 0
    reports = json.loads(capsys.readouterr().out)
    assert [report["design"] for report in reports] == names.split(",")
    for report in reports:
        assert [step["step"] for step in report["steps"]] == ["0.01", "0.1", "far"]
        assert all(step["moves"] == 100 for step in report["steps"])
        assert report["cycles_per_cpu_s"] > 0
    assert reports[0]["steps"][2]["results_per_move"] > 0
    after = [report["matching_after"] for report in reports]
    assert after[1:] == [None, None]
    assert set(after[0]) == {"small_moves", "far_jumps", "tidied", "merged", "merge_us"}
    assert after[0]["merged"]["blocks"] == 1.0
    assert "ap-plus-tree" in plot.read_text()


def test_a_wrong_design_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--check` an update too few is an error."""
    right = Design.changes

    def wrong(self: Design, *arguments: object) -> ActiveChanges:
        found = right(self, *arguments)  # type: ignore[arg-type]  # passed on as they came
        return ActiveChanges(found.events[1:], found.slots[1:], found.ops[1:])

    monkeypatch.setattr(Design, "changes", wrong)
    monkeypatch.setenv("NEARCAST_DEBUG", "1")
    with pytest.raises(DisagreementError):
        main([*SMALL, *OPTIONS, "--design", "ours", "--step", "far"])


@pytest.mark.parametrize("wrong", [["--design", "best"], ["--step", "0"], ["--step", "x"]])
def test_bad_arguments_are_refused_in_one_line(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and what would be right."""
    assert main([*SMALL, *wrong]) == 2
    assert "expected" in capsys.readouterr().err
