"""Workers that rank and have too much to do are relieved, and nothing goes back and forth."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from boolean_logs import records
from nearcast.arrays.slots import as_secret
from nearcast.engine.settings import Settings
from nearcast.geo import Box
from nearcast.spark.driver.bucket_assignment import BucketAssignment
from nearcast.spark.driver.ranking import RankingDriver
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.events import table_of
from nearcast.spark.reports.report import BatchReport, WorkerReport, read_reports
from nearcast.spark.workers.ranked_work import BUCKETS, buckets_of
from nearcast.topk import Window
from ranked_pipeline import Ranked, Weighing, scored

CHOSEN = Settings(window=Window(count=30), space=Box(-10, -10, 10, 10))
SUBSCRIPTIONS = 40
WORDS = ["jazz", "blues", "tea", "cup", "sale"]


@pytest.fixture(autouse=True)
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what nodes keep in a folder of the test, and flush nothing."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.fsync", lambda _: None)


def _subscribed(ids: list[str], some: np.random.Generator) -> list[dict[str, Any]]:
    return [
        {"op": "subscribe", "id": id, "query": " ".join(some.choice(WORDS, 2, replace=False)),
         "point": _place(some), "top": {"k": 2, "alpha": 0.5}}
        for id in ids
    ]  # fmt: skip


def _published(
    step: int, some: np.random.Generator, count: int = 2, corner: bool = False
) -> list[dict[str, Any]]:
    return [
        {"op": "publish", "id": f"m{step}-{n}", "text": " ".join(some.choice(WORDS, 3)),
         "point": _place(some, corner)}
        for n in range(count)
    ]  # fmt: skip


def _place(some: np.random.Generator, corner: bool = False) -> list[float]:
    width, west = (2, 7) if corner else (20, -10)
    place: list[float] = (some.random(2) * width + west).tolist()
    return place


def _run(ranked: Ranked, steps: list[list[dict[str, Any]]]) -> list[BatchReport]:
    """Take steps; give the report of each, and see that updates are those of `scan`."""
    for events in steps:
        ranked.take(table_of(records(events)))
    log = [event for events in steps for event in events]
    expected, refused = scored(log, CHOSEN)
    assert ranked.output.updates == expected
    assert len(expected) > len(steps)
    assert not refused
    assert ranked.pipeline is not None
    return read_reports(ranked.pipeline.state.path)


def test_subscriptions_are_spread_again_when_all_of_them_have_moved_to_one_worker(
    tmp_path: Path,
) -> None:
    """They are spread by their places; then all of them go where one worker is."""
    some = np.random.default_rng(1)
    ids = [f"s{n}" for n in range(SUBSCRIPTIONS)]
    steps = [_subscribed(ids, some) + _published(0, some, 8)]
    steps.append([{"op": "move", "id": id, "point": _place(some, corner=True)} for id in ids])
    steps += [_published(step, some, 8, corner=True) for step in range(2, 12)]
    ranked = Ranked(tmp_path, CHOSEN)
    ranked.runner = Weighing(lambda report: 0.01 * report.rows)
    ranked.start("location", 4, adjust=True)
    reports = _run(ranked, steps)
    held = [sorted(one.rows for one in each.rankers) for each in reports]
    assert max(held[1]) < SUBSCRIPTIONS // 2
    assert held[2] == [0, 0, 0, SUBSCRIPTIONS]
    assert [each.spread for each in reports] == [1] * 5 + [2] * 7
    assert [each.recalled for each in reports] == [0] * 5 + [SUBSCRIPTIONS] + [0] * 6
    assert max(held[5]) <= SUBSCRIPTIONS // 2


@pytest.mark.parametrize(("way", "spread_with"), [("location", [0, 3, 15]), ("hashing", [0])])
def test_what_no_spread_can_even_out_is_tried_more_and_more_rarely(
    tmp_path: Path, way: str, spread_with: list[int]
) -> None:
    """One worker always has most to do; by a hash of the id nothing would change at all."""
    some = np.random.default_rng(2)
    steps = [_subscribed([f"s{n}" for n in range(10)], some) + _published(0, some)]
    steps += [_published(step, some) for step in range(1, 18)]
    ranked = Ranked(tmp_path, CHOSEN)
    ranked.runner = Weighing(lambda report: 1.0 if report.worker == 0 else 0.1)
    ranked.start(way, 3, adjust=True)
    reports = _run(ranked, steps)
    counts = [0, *(each.spread for each in reports)]
    assert np.flatnonzero(np.diff(counts)).tolist() == spread_with


def test_buckets_go_from_a_busy_worker_to_idle_ones_until_it_is_even(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All subscriptions are in buckets of the first worker; the others have nothing to do."""
    monkeypatch.setattr(RankingDriver, "at_once", BUCKETS)
    some = np.random.default_rng(3)
    ids = np.array([f"s{n}" for n in range(400)])
    ranked = Ranked(tmp_path, CHOSEN)
    ranked.runner = Weighing(lambda report: 0.01 * report.rows)
    ranked.start("shared", 3, adjust=True)
    assert ranked.pipeline is not None
    buckets = buckets_of(pa.array(ids), as_secret(ranked.pipeline.state.secret))
    first = ids[buckets < BUCKETS // 3].tolist()
    steps = [_subscribed(first, some) + _published(0, some)]
    steps += [_published(step, some) for step in range(1, 20)]
    reports = _run(ranked, steps)
    assert [one.rows for one in reports[0].rankers] == [len(first), 0, 0]
    rows = [one.rows for one in reports[-1].rankers]
    assert sum(rows) == len(first) > 100
    assert max(rows) < 1.2 * len(first) / 3
    moved = [each.moved_buckets > 0 for each in reports]
    assert 2 <= sum(moved) <= 5
    assert not any(moved[14:])


def test_a_bucket_that_is_all_of_the_load_does_not_go_round_for_ever(tmp_path: Path) -> None:
    """Whoever has it is the busiest, and gives it away more and more rarely."""
    assignment, state, hot = BucketAssignment(2), PipelineState(str(tmp_path), {}), 5
    moves = []
    for step in range(100):
        loads = [0.1, 0.1]
        loads[assignment.buckets[hot]] = 1.0
        assignment.observe([WorkerReport(worker, load=load) for worker, load in enumerate(loads)])
        if assignment.move(state, BUCKETS):
            moves.append(step)
    assert 2 <= len(moves) <= 6
