"""Top-k in a pipeline without Spark: the updates of `scan`, with the last bit of their scores."""

from __future__ import annotations

import json
import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from boolean_logs import records
from crashes import Crashes
from event_logs import logs, worlds
from naive import Given
from nearcast.cli.main import main
from nearcast.engine.settings import Settings
from nearcast.errors import SourceError, StateError
from nearcast.spark.driver.bucket_assignment import BucketAssignment, request_workers, spread
from nearcast.spark.driver.history import Upkeep
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.events import table_of
from nearcast.spark.io.files import Files
from nearcast.spark.reports.build_progress import (
    ALL_WORKERS,
    builds_under_way,
    progress_text,
    reporting_progress,
)
from nearcast.spark.reports.report import BatchReport, WorkerReport, read_reports, write_report
from nearcast.spark.workers.ranked_work import evenly
from nearcast.topk import Window
from ranked_logs import ranked_log
from ranked_pipeline import (
    Ranked,
    Twice,
    check_stops,
    scored,
    settings_of,
    take_through_crashes,
)

OFTEN = Upkeep(snapshot_every=5, rebase_every=4, most_steps=3)
RUNS = st.lists(
    st.tuples(
        st.integers(1, 24), st.sampled_from([1, 2, 4, 8]), st.sampled_from(["shared", "space-kd"])
    ),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=15, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(log=logs(), world=worlds, runs=RUNS, step=st.integers(1, 12), forget=st.booleans())
def test_any_steps_and_any_stops_give_the_updates_of_scan(
    log: list[dict[str, Any]],
    world: Given,
    runs: list[tuple[int, int, str]],
    step: int,
    forget: bool,
) -> None:
    """Boolean and top-k subscriptions in one stream, stopped and started with other workers."""
    starts = [
        (cut, partial(Ranked.start, scheme="shared", workers=workers, partitioner=partitioner))
        for cut, workers, partitioner in runs
    ]
    check_stops(log, settings_of(world), OFTEN, starts, step, 1 if forget else None)


def test_an_id_that_comes_again_as_its_message_expires_changes_nothing_for_who_has_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One event lets the old one go and brings the new one: the pair stays a result."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    top: dict[str, Any] = {
        "op": "subscribe",
        "query": "jazz",
        "point": [0, 0],
        "top": {"k": 2, "alpha": 0.5},
    }
    message: dict[str, Any] = {"op": "publish", "id": "m", "text": "jazz", "point": [1, 1]}
    log = [
        top | {"id": "s"}, message | {"at": 0.0}, message | {"at": 2.0},
        message | {"at": 4.0, "text": "blues"},
    ]  # fmt: skip
    chosen = Settings(window=Window(seconds=2.0))
    ranked = Ranked(tmp_path, chosen)
    ranked.start("shared", 2)
    ranked.take(table_of(records(log)))
    assert [each[:2] for each in ranked.output.updates] == [(1, "add"), (3, "remove")]
    assert ranked.output.updates == scored(log, chosen)[0]


WINDOWS = [pytest.param(Window(count=6), marks=pytest.mark.soak), Window(seconds=2.0)]


@pytest.mark.parametrize("window", WINDOWS)
def test_a_crash_at_any_point_loses_nothing_and_repeats_nothing(
    tmp_path: Path, crashes: Crashes, window: Window
) -> None:
    """It dies between any two changes of files, also while it builds and recovers."""
    chosen, size = Settings(window=window), 10
    log = ranked_log(15 * size)
    expected, refused = scored(log, chosen)
    table = table_of(records(log))
    ranked = Ranked(tmp_path, chosen, OFTEN)
    deaths = take_through_crashes(ranked, crashes, table, size, "shared", 7)
    assert ranked.output.updates == expected
    assert ranked.output.refused == refused
    assert deaths == crashes.deaths
    assert len(crashes.known) > 100


def test_a_task_that_is_run_again_says_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The step has changed what it holds already; it is not taken twice."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    chosen = Settings(window=Window(count=8))
    log = ranked_log(150, seed=4)
    ranked = Ranked(tmp_path, chosen)
    ranked.runner = Twice()
    ranked.start("shared", 2)
    table = table_of(records(log))
    for first in range(0, len(log), 30):
        ranked.take(table[first : first + 30])
    assert ranked.output.updates == scored(log, chosen)[0]


def test_thousands_of_changes_between_two_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One subscription moves and is replaced again and again within a step."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    top = {"k": 1, "alpha": 0.5}
    log: list[dict[str, Any]] = [
        {"op": "publish", "id": f"m{n}", "text": "tea cup", "point": [n, n]} for n in range(4)
    ]
    log.append({"op": "subscribe", "id": "t", "query": "tea", "point": [0, 0], "top": top})
    log += [{"op": "move", "id": "t", "point": [n % 5, n % 3]} for n in range(1500)]
    log += [
        {"op": "subscribe", "id": "t", "query": "cup", "point": [n % 4, 0], "top": top}
        for n in range(500)
    ]
    ranked = Ranked(tmp_path, Settings())
    ranked.start("shared", 1)
    ranked.take(table_of(records(log)), 1000)
    assert ranked.output.updates == scored(log, Settings())[0]


def test_messages_are_kept_only_while_they_are_in_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files go with the window, and are put together when they are many."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("nearcast.spark.driver.window_log._MOST_FILES", 8)
    chosen = Settings(window=Window(count=20))
    log = ranked_log(150, seed=5)
    ranked = Ranked(tmp_path, chosen)
    table = table_of(records(log))
    most = 0
    for step, first in enumerate(range(0, len(log), 3)):
        if step % 20 == 0:
            ranked.start("shared", 2)
        ranked.take(table[first : first + 3])
        most = max(most, len(list((tmp_path / "state" / "messages").iterdir())))
    assert ranked.output.updates == scored(log, chosen)[0]
    assert most <= 9


def test_damaged_messages_are_read_again_and_lost_ones_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates are right, or there are none."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    chosen = Settings(window=Window(count=30))
    log = ranked_log(120, seed=9)
    expected, _ = scored(log, chosen)
    table = table_of(records(log))
    ranked = Ranked(tmp_path, chosen)
    ranked.start("shared", 2)
    for first in range(0, 120, 30):
        ranked.take(table[first : first + 30])
        *_, path = sorted((tmp_path / "state" / "messages").iterdir())
        path.write_bytes(path.read_bytes()[:-1])
        ranked.start("shared", 2)
    assert ranked.output.updates == expected
    path.unlink()
    with pytest.raises(SourceError, match=r"message \d+ of the window is gone; restore it"):
        ranked.start("shared", 2)


def test_who_builds_is_seen_while_it_does(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """In words for a person, in the status as JSON, and not any more when it is done."""
    files, state = Files(str(tmp_path)), str(tmp_path)
    write_report(state, BatchReport(1, 1, 1, 1, 0, 0, 0, {"total": 1.0}))
    with reporting_progress(files, 3) as progress:
        progress(250, 1000)
        [one] = builds_under_way(files, time.time())
        assert (one.worker, one.done, one.of) == (3, 250, 1000)
        assert progress_text([one]).endswith("25% of 1,000 messages and subscriptions")
        assert main(["spark", "status", state, "--json"]) == 0
        assert json.loads(capfd.readouterr().out)["building"][0]["done"] == 250
        assert builds_under_way(files, time.time() + 3600) == []  # it must have been killed
        with reporting_progress(files, ALL_WORKERS) as total_progress:
            total_progress(3, 4)
            assert progress_text(builds_under_way(files, time.time())).endswith(
                "75% of 4 subscriptions"
            )
    assert builds_under_way(files, time.time()) == []


def test_a_state_is_for_one_history(tmp_path: Path) -> None:
    """Scores would change in the middle of a stream otherwise."""
    from nearcast.spark.stream import about_settings

    one, other = (settings_of(Given(history=texts)) for texts in (("a b",), ("a", "b")))
    PipelineState(str(tmp_path), about_settings(one))
    PipelineState(str(tmp_path), about_settings(one))
    for chosen in (other, Settings()):
        with pytest.raises(StateError, match="other settings \\(history: "):
            PipelineState(str(tmp_path), about_settings(chosen))


def test_buckets_change_hands_while_a_stream_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To more workers and to fewer, some buckets with each step, and without updates."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr(BucketAssignment.move, "__defaults__", (300,))
    chosen = Settings(window=Window(seconds=3.0))
    log = ranked_log(240, seed=6, names=40)
    expected, _ = scored(log, chosen)
    table = table_of(records(log))
    ranked = Ranked(tmp_path, chosen)
    ranked.start("shared", 2)
    moved = []
    for step, first in enumerate(range(0, len(log), 10)):
        assert ranked.pipeline is not None
        if step % 8 == 2:
            request_workers(ranked.pipeline.state, [5, 1, 4][step // 8])
        if step == 13:
            ranked.start("shared", 2)  # in the middle of it
        if step == 19:
            shutil.rmtree(tmp_path / "cache")
        ranked.take(table[first : first + 10])
        [report] = read_reports(ranked.pipeline.state.path, 1)
        moved.append(report.moved_buckets)
    assert ranked.output.updates == expected
    assert sum(count > 0 for count in moved) > 5
    assert len(report.rankers) == 4
    assert sum(one.rows for one in report.rankers) == report.rankings > 10


def test_a_busy_worker_gives_buckets_away(tmp_path: Path) -> None:
    """What it has more than the average, to all that have less, once it was so twice in a row."""
    assignment, state = BucketAssignment(4), PipelineState(str(tmp_path), {})
    loads = [WorkerReport(worker, load=load) for worker, load in enumerate([4.0, 1.0, 2.0, 1.0])]
    assignment.observe(loads)
    assert assignment.move(state) == 0
    assignment.observe(loads)
    assert [assignment.move(state, 90) for _ in range(3)] == [90, 38, 0]
    assert np.bincount(assignment.buckets).tolist() == [128, 320, 256, 320]


@pytest.mark.parametrize("workers", [1, 3, 4, 7])
def test_buckets_are_spread_evenly_and_few_move(workers: int) -> None:
    before = evenly(4)
    after = spread(before, workers)
    counts = np.bincount(after, minlength=workers)
    assert len(counts) == workers
    assert counts.max() - counts.min() <= 1
    stay = sum(min(256, count) for count in counts[:4].tolist())
    assert (after == before).sum() == stay
