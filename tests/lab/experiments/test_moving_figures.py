"""`nearcast experiment moving` says for every figure what the paper claims and what was found."""

import json
from pathlib import Path

import pytest

from nearcast.cli.main import main


def test_every_figure_has_a_claim_and_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "moving.html"
    arguments = ["experiment", "moving", "--subscriptions", "150", "--moves", "40", "--json"]
    assert main([*arguments, "--output", str(page)]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert [finding["figure"].split(",")[0] for finding in findings] == [
        *("19a", "19b", "20a", "20b", "21a", "21b", "21c", "22", "23", "24", "25")
    ]
    for finding in findings:
        assert finding["claim"]
        assert finding["result"]
        assert all(value > 0 for values in finding["values"].values() for value in values)
    assert [len(values) for values in findings[-1]["values"].values()] == [5] * 6
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == len(findings)
    assert all(f"<td>{finding['claim']}</td>" in text for finding in findings)
    assert all(f">{axis}</text>" in text for axis in ("design", "velocity", "ms of CPU"))


def test_the_cost_by_area_that_changes_hands_is_drawn(tmp_path: Path) -> None:
    plot = tmp_path / "moves.svg"
    arguments = ["experiment", "moving", "--subscriptions", "120", "--moves", "10"]
    assert main([*arguments, "--plot", str(plot)]) == 0
    drawn = plot.read_text()
    assert all(
        f"{name}, {area} %" in drawn for name in ("ours", "re-evaluate") for area in ("1", "0.01")
    )
