"""A pipeline without Spark gives the updates and refusals of `scan` for any log of the contract."""

from __future__ import annotations

import json
import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from boolean_logs import records
from event_logs import logs, worlds
from naive import Given
from nearcast.engine.settings import Settings
from nearcast.partition.registry import PARTITIONERS
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.spark.driver.history import Upkeep
from nearcast.spark.events import table_of
from nearcast.topk import Window
from ranked_pipeline import Ranked, Twice, scored, settings_of

BOX = {"type": "Box", "bbox": [0, 0, 4, 4]}
SOON = Upkeep(snapshot_every=12, rebase_every=25, most_steps=4)
STARTS = st.lists(
    st.tuples(
        st.integers(1, 24),
        st.sampled_from(sorted(PARTITIONERS)),
        st.sampled_from(["shared", *MECHANISMS]),
        st.sampled_from([1, 2, 4]),
    ),
    min_size=1,
    max_size=3,
)


# A failure is shown as it was found: to shrink one takes minutes.
@settings(
    deadline=None,
    max_examples=40,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(worlds, logs(rich=True), STARTS, st.sampled_from([1, 3, 7]), st.booleans())
def test_any_log_in_any_way(
    world: Given,
    log: list[dict[str, Any]],
    starts: list[tuple[int, str, str, int]],
    step: int,
    forget: bool,
) -> None:
    """Stopped and started with another partitioner, mechanism and number of workers."""
    check(log, settings_of(world), starts, step, forget)


def check(
    log: list[dict[str, Any]],
    chosen: Settings,
    starts: list[tuple[int, str, str, int]],
    step: int,
    forget: bool,
) -> int:
    """Take a log in steps, and compare; give how many updates there were."""
    expected, refused = scored(log, chosen)
    table = table_of(records(log))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        cache = Path(folder) / "cache"
        patch.setenv("NEARCAST_CACHE", str(cache))
        patch.setattr("os.fsync", lambda _: None)  # which takes most of the time
        ranked = Ranked(Path(folder), chosen, SOON)
        edges = sorted({0, len(log), *(min(cut, len(log)) for cut, *_ in starts)})
        for number, (begin, end) in enumerate(pairwise(edges)):
            _, partitioner, way, workers = starts[number % len(starts)]
            ranked.start(way, workers, partitioner)
            for first in range(begin, end, step):
                ranked.take(table[first : min(first + step, end)])
                if forget:
                    shutil.rmtree(cache, ignore_errors=True)
    assert ranked.output.refused == refused
    assert ranked.output.updates == expected
    return len(expected)


def published(id: str, lon: float, at: float, **more: Any) -> dict[str, Any]:
    return {"op": "publish", "id": id, "text": "a b", "point": [lon, 1], "at": at} | more


OBJECTS: list[dict[str, Any]] = [
    {"op": "subscribe", "id": "left", "region": BOX},
    {
        "op": "subscribe",
        "id": "both",
        "query": "*",
        "region": {"type": "Box", "bbox": [0, 0, 9, 9]},
    },
    {"op": "subscribe", "id": "fast", "query": "speed:>5"},
    {"op": "subscribe", "id": "top", "query": "a", "point": [0, 0], "top": {"k": 1, "alpha": 1.0}},
    published("o", 1, 0, ttl=9, properties={"speed": 3}),
    published("o", 2, 1, ttl=9, properties={"speed": 7}),
    published("o", 6, 2, ttl=9, properties={"speed": 7}),
    {"op": "subscribe", "id": "late", "query": '"a b"', "region": BOX, "at": 3},
    published("o", 3, 4, ttl=2),
    published("p", 4, 4, ttl=9),
    {"op": "move", "id": "late", "region": {"type": "Box", "bbox": [3.5, 0, 4, 4]}},
    {"op": "retract", "id": "p", "at": 5},
    {"op": "retract", "id": "p"},
    published("q", 1, 7),
]


@pytest.mark.parametrize("partitioner", sorted(PARTITIONERS))
@pytest.mark.parametrize("step", [1, 4, 99])
def test_objects_that_report_again_and_again(partitioner: str, step: int) -> None:
    """They enter, go on inside and leave; in one step or in many."""
    assert check(OBJECTS, Settings(), [(99, partitioner, "shared", 3)], step, False) > 15


@pytest.mark.parametrize("way", ["shared", *MECHANISMS])
def test_a_mechanism_goes_over_when_the_window_becomes_uneven(way: str) -> None:
    """Until then it ranks by itself; afterwards also messages that end, change and are filtered."""
    plain = [
        {"op": "subscribe", "id": f"t{n}", "query": "a", "point": [n, 0],
         "top": {"k": 2, "alpha": 0.5}} for n in range(4)
    ] + [published(f"m{n}", n, n) for n in range(6)]  # fmt: skip
    rich = [
        published("m4", 0, 6),
        published("n1", 1, 7, ttl=2),
        {"op": "subscribe", "id": "t9", "query": "a", "point": [1, 1], "filter": "x:1",
         "top": {"k": 3, "alpha": 0.5, "scale": 1e6, "min_score": 0.1}},
        published("n2", 1, 8, properties={"x": 1}),
        {"op": "move", "id": "t9", "region": BOX},
        {"op": "move", "id": "t9", "point": [2, 2]},
        {"op": "retract", "id": "n2", "at": 10},
        {"op": "unsubscribe", "id": "t0", "at": 11},
    ]  # fmt: skip
    log = json.loads(json.dumps(plain + rich))
    starts = [(99, "shared", way, 2)]
    assert check(log, Settings(window=Window(count=5)), starts, 3, False) > 20
    assert check(log, Settings(window=Window(seconds=4.0)), starts, 3, True) > 20


def test_a_task_that_is_run_again_says_the_same() -> None:
    """Whatever it changed in its process the first time."""
    table = table_of(records(OBJECTS))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("NEARCAST_CACHE", str(Path(folder) / "cache"))
        ranked = Ranked(Path(folder), Settings())
        ranked.runner = Twice()
        ranked.start("shared", 2, "space-grid")
        for first in range(0, len(OBJECTS), 5):
            ranked.take(table[first : first + 5])
    assert ranked.output.updates == scored(OBJECTS, Settings())[0]
