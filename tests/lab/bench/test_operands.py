"""`nearcast bench operands` measures every population, and notices a wrong answer."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from nearcast import Engine
from nearcast.cli.main import main
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.bench.operands import OperandsSetup, measure_operands
from nearcast_lab.workloads.interests import InterestsWorkload

SMALL = ["bench", "operands", "--subscriptions", "1000", "--batches", "1", "--rounds", "1"]


def test_every_part_is_measured(capsys: pytest.CaptureFixture[str]) -> None:
    """A report a population, a limit for each comparison, and two other ways for geofences."""
    assert main([*SMALL, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    names = [one["population"] for one in report["populations"]]
    assert names == [
        "terms", "terms and a property", "two terms", "a phrase", "one term", "a prefix",
        "geofences", "objects that move", "deals",
    ]  # fmt: skip
    assert len(report["checks"]) == 7
    assert len(report["peers"]) == 2
    assert report["single_p50_us"] > 0


def test_an_unknown_part_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says which parts there are."""
    assert main([*SMALL, "--parts", "colours"]) == 2
    assert "geofences" in capsys.readouterr().err


def test_a_lost_update_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that leaves out what it found fails the comparison with a sample."""
    publish = Engine.publish_table
    monkeypatch.setattr(Engine, "publish_table", lambda *some: _without_first(publish(*some)))
    with pytest.raises(DisagreementError, match="geofences"):
        measure_operands(OperandsSetup(1000, 1, 1, 1, ["geofences"]), lambda _: None)


def _without_first(updates: pa.Table) -> pa.Table:
    return updates.slice(len(updates) // 2)


def test_a_seed_gives_the_same_population() -> None:
    """Two workloads with one seed agree, and another seed gives other subscriptions."""
    one, same, other = (InterestsWorkload(seed).deals(50) for seed in (1, 1, 2))
    assert one == same
    assert one != other
