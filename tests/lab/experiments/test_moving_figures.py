"""`nearcast experiment moving` says for every figure what the paper claims and what was found."""

import json
from pathlib import Path

import pytest

from nearcast.cli.main import main
from nearcast_lab.experiments.moving import DATASETS, MovingScale, _Roads


def test_every_figure_has_a_claim_and_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "moving.html"
    arguments = ["experiment", "moving", "--subscriptions", "150", "--moves", "40", "--json"]
    assert main([*arguments, "--output", str(page)]) == 0
    findings = json.loads(capsys.readouterr().out)
    numbers = [finding["figure"].split(",")[0] for finding in findings]
    assert numbers == [
        *("19a", "19b", "20a", "20b", "21a", "21b", "21c", "22"),
        *("23a", "24a", "25a", "23b", "24b", "25b"),
        *("26a", "26b", "27a", "27b"),
    ]
    found = dict(zip(numbers, findings, strict=True))
    for finding in findings:
        assert finding["claim"]
        assert finding["result"]
        assert finding["agrees"] == all(finding["parts"].values())
        assert finding["agrees"] or finding["why"]
        lengths = {len(values) for values in finding["values"].values()}
        assert lengths == {1 if finding["varied"] == "design" else len(finding["points"])}
    for number in ("19a", "20b", "21b", "22", "23b", "25a", "26a"):
        assert all(value > 0 for values in found[number]["values"].values() for value in values)
    for number in ("26b", "27b"):
        everybody, safe = found[number]["values"].values()
        assert all(0 <= some < all_ for some, all_ in zip(safe, everybody, strict=True))
    assert found["21b"]["points"] == list(DATASETS)
    assert set(found["21b"]["parts"]) == {*DATASETS, "30 times on GN"}
    assert list(found["24b"]["parts"]) == ["1e-06 %", "0.0001 %", "0.01 %", "1 %", "10 %"]
    assert list(found["26b"]["values"]) == ["ap-plus-tree", "ap-plus-tree-safe"]
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == len(findings)
    assert all(f"<td>{finding['claim']}</td>" in text for finding in findings)
    assert all(f">{axis}</text>" in text for axis in ("design", "dataset", "velocity"))
    assert "nearcast experiment moving --subscriptions 150 --moves 40" in text


def test_timestamps_follow_from_moves_unless_they_are_given() -> None:
    """As many as have that many moves, and the paper's hundred where it is asked for."""
    roads = _Roads(MovingScale(1000, 5000, 1), lambda _: None)
    assert roads.setup("TWEETS-ODB", []).timestamps == 25
    assert roads.setup("TWEETS-ODB", [], mobility=0.8).timestamps == 7
    paper = _Roads(MovingScale(1000, 5000, 1, timestamps=100), lambda _: None)
    assert paper.setup("GN-SAN", [], mobility=0.8).timestamps == 100
    assert paper.setup("GN-SAN", []).arrivals == 100


def test_the_cost_by_area_that_changes_hands_is_drawn(tmp_path: Path) -> None:
    plot = tmp_path / "moves.svg"
    arguments = ["experiment", "moving", "--subscriptions", "120", "--moves", "10"]
    assert main([*arguments, "--plot", str(plot)]) == 0
    drawn = plot.read_text()
    assert all(
        f"{name}, {area} %" in drawn for name in ("ours", "re-evaluate") for area in ("1", "0.01")
    )
