"""`nearcast bench adjust`: its report, its tables, its options."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nearcast.cli.main import main
from nearcast_lab.bench.adjust import METHODS

SMALL = [
    "--subscriptions", "1500", "--messages", "800", "--grid", "32x16", "--workers", "2",
    "--intervals", "2", "--looks", "1",
]  # fmt: skip


def test_every_method_follows_the_same_drift(capsys: pytest.CaptureFixture[str]) -> None:
    """Bounds, bytes and checks of every method and interval, and selections for one gap."""
    assert main(["bench", "adjust", *SMALL, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    found: dict[str, Any] = json.loads(captured.out)
    runs = [(step["interval"], step["method"]) for step in found["steps"]]
    assert runs == [(interval, method) for interval in (1, 2) for method in METHODS]
    for step in found["steps"]:
        assert step["messages_per_s"] > 0
        assert step["balance"] >= 1.0
        if step["method"] == "none":
            assert step["carried_bytes"] == 0
        if step["method"] == "rebuild":
            assert step["of_rebuild"] == 1.0
    selected = {(each["method"], each["load"]): each for each in found["selections"]}
    ways = [(way, load) for load in ("real", "definition 3") for way in ("DP", "GR", "SI", "RA")]
    assert list(selected) == [*ways, ("ours, to one", "real"), ("ours", "real")]
    for load in ("real", "definition 3"):
        sizes = {way: selected[way, load]["by_definition"] for way in ("DP", "GR", "SI", "RA")}
        assert sizes["GR"] <= min(sizes["SI"], sizes["RA"])
    for each in (*selected.values(), *found["large_selections"]):
        assert 0 < each["carried"] <= each["by_definition"]
        assert each["cells"] <= each["of_cells"]
    checks = {check["promise"]: check for check in found["bars"]}
    halved = checks["2 workers: bytes carried by ours by GR"]
    assert halved["found"] == pytest.approx(
        selected["ours", "real"]["carried"] / selected["GR", "real"]["carried"]
    )
    for check in checks.values():
        assert check["must"] == "at most"
        assert check["holds"] == (check["found"] <= check["limit"])
    assert "2 workers, interval 2: part of the bytes carried" in checks


def test_figures_can_be_read_by_people(capsys: pytest.CaptureFixture[str]) -> None:
    """Tables of selections, of the drift and of the checks; one method will do."""
    assert main(["bench", "adjust", *SMALL[:-3], "1", "--looks", "1", "--method", "ours"]) == 0
    shown = capsys.readouterr().out
    for title in ("selection for the same gaps, 2 workers", "selection from all cells", "drift"):
        assert title in shown
    assert "must be" in shown


def test_what_is_wrong_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """A method without a name here is refused before anything is made."""
    assert main(["bench", "adjust", *SMALL, "--method", "magic"]) == 2
    said = capsys.readouterr().err
    assert "--method: 'magic' given; expected one of none, published, published-real, ours" in said
