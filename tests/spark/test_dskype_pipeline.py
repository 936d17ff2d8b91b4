"""Distributed top-k in a pipeline without Spark: the updates of `scan`, by every mechanism."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from boolean_logs import records
from crashes import Crashes
from event_logs import logs, worlds
from naive import Given
from nearcast.engine.settings import Settings
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.spark.driver.bucket_assignment import request_workers
from nearcast.spark.driver.history import Upkeep
from nearcast.spark.events import table_of
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
        st.integers(1, 24), st.sampled_from([1, 2, 4, 8]), st.sampled_from([*MECHANISMS, "shared"])
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=10, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(log=logs(), world=worlds, runs=RUNS, step=st.integers(1, 12), forget=st.booleans())
def test_any_mechanism_and_any_stops_give_the_updates_of_scan(
    log: list[dict[str, Any]],
    world: Given,
    runs: list[tuple[int, int, str]],
    step: int,
    forget: bool,
) -> None:
    """Stopped and started with other mechanisms and other numbers of workers."""
    starts = [
        (cut, partial(Ranked.start, scheme=scheme, workers=workers))
        for cut, workers, scheme in runs
    ]
    check_stops(log, settings_of(world), OFTEN, starts, step, 5 if forget else None)


@pytest.mark.soak
@pytest.mark.parametrize("window", [Window(count=25), Window(seconds=6.0)])
@pytest.mark.parametrize("workers", [1, 2, 4, 8])
@pytest.mark.parametrize("scheme", MECHANISMS)
def test_every_mechanism_with_any_number_of_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, workers: int, window: Window
) -> None:
    """A longer log, in steps of any size, with buffers that are cut and run empty."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.fsync", lambda _: None)
    chosen = Settings(window=window)
    log = ranked_log(1500, seed=workers, names=60)
    table = table_of(records(log))
    ranked = Ranked(tmp_path, chosen, OFTEN)
    ranked.start(scheme, workers)
    sizes, first = random.Random(workers), 0
    while first < len(log):
        size = sizes.choice([1, 10, 60, 200])
        ranked.take(table[first : first + size])
        first += size
    assert ranked.output.updates == scored(log, chosen)[0]


@pytest.fixture
def quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what nodes keep in a folder of the test, and flush nothing."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.fsync", lambda _: None)


def test_a_crash_at_any_point_loses_nothing_and_repeats_nothing(
    tmp_path: Path, crashes: Crashes
) -> None:
    """It dies between any two changes of files, also while buffers are asked for."""
    chosen, size = Settings(window=Window(count=6)), 12
    log = ranked_log(6 * size, seed=8)
    expected, _ = scored(log, chosen)
    table = table_of(records(log))
    ranked = Ranked(tmp_path, chosen, OFTEN)
    deaths = take_through_crashes(ranked, crashes, table, size, "prefix", 4)
    assert ranked.output.updates == expected
    assert deaths == crashes.deaths
    assert len(crashes.known) > 60


@pytest.mark.usefixtures("quick")
def test_a_task_that_is_run_again_says_the_same(tmp_path: Path) -> None:
    """The step has changed what it holds already; it is not taken twice."""
    chosen = Settings(window=Window(count=8))
    log = ranked_log(120, seed=4)
    ranked = Ranked(tmp_path, chosen)
    ranked.runner = Twice()
    ranked.start("keyword", 2)
    table = table_of(records(log))
    for first in range(0, len(log), 30):
        ranked.take(table[first : first + 30])
    assert ranked.output.updates == scored(log, chosen)[0]


@pytest.mark.usefixtures("quick")
def test_workers_become_more_and_fewer_while_a_stream_runs(tmp_path: Path) -> None:
    """All buffers are rebuilt then, without updates, and files of old steps are removed."""
    chosen = Settings(window=Window(seconds=3.0))
    log = ranked_log(240, seed=6, names=40)
    table = table_of(records(log))
    ranked = Ranked(tmp_path, chosen)
    ranked.start("location", 2)
    assert ranked.pipeline is not None
    found = []
    for step, first in enumerate(range(0, len(log), 20)):
        if step in (3, 6):
            request_workers(ranked.pipeline.state, {3: 5, 6: 1}[step])
        ranked.take(table[first : first + 20])
        report = max((tmp_path / "state" / "reports").glob("*.json")).read_bytes()
        found.append(len(json.loads(report)["rankers"]))
        assert len(list((tmp_path / "state" / "ranked").iterdir())) <= 2
    assert ranked.output.updates == scored(log, chosen)[0]
    assert found[2:8] == [2, 5, 5, 5, 1, 1]
