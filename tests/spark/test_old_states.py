"""States that earlier versions wrote are taken over."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from boolean_logs import scanned
from nearcast.engine.settings import Settings
from nearcast.topk import Window
from roaming_logs import roaming_log
from small_pipeline import Small, write_events

GOLDEN = Path(__file__).parents[1] / "golden"
FIRST = GOLDEN / "pipeline-1.tar.gz"
"""The state of a pipeline of two workers after the log in it, written when nothing lasted yet."""


@pytest.mark.parametrize("replan", [False, True])
def test_a_state_of_the_first_version_goes_on_with_lasting_messages(
    tmp_path: Path, replan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    with tarfile.open(FIRST) as archive:
        archive.extractall(tmp_path, filter="data")
    before = json.loads((tmp_path / "log.json").read_text())
    after = [fields | {"at": fields["at"] + 1000} for fields in roaming_log(1, 60)]
    small = Small(tmp_path)
    small.partitioner, small.workers = "space-kd", 2
    expected, _ = scanned([*before, *after], small.settings)
    for batch, path in enumerate(write_events(tmp_path / "in", after, 2, 10)):
        feed = small.open(replan=replan and batch == 0)
        small.take(feed, 10 + batch, [path])
    fresh = {update for update in expected if update[0] >= len(before)}
    small.check(fresh)
    assert {op for _, op, _, _ in fresh} == {"add", "remove"}
    assert json.loads((tmp_path / "state" / "about.json").read_text())["version"] == 6


TOP: dict[str, Any] = {
    "op": "subscribe",
    "id": "t9",
    "query": "jazz",
    "point": [0, 0],
    "top": {"k": 2, "alpha": 1},
}
BOX: dict[str, Any] = {"type": "Box", "bbox": [-5, -5, 5, 5]}
JAZZ: dict[str, Any] = {"op": "publish", "text": "jazz", "point": [1, 1]}


@pytest.mark.parametrize("version", [3, 4])
def test_a_state_knows_what_is_in_its_window(
    tmp_path: Path, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of version 3 ranks; one of version 4 has messages with an end in the window instead."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    with tarfile.open(GOLDEN / f"pipeline-{version}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    before = json.loads((tmp_path / "log.json").read_text())
    after: list[dict[str, Any]] = [
        JAZZ | {"id": "e0", "at": 40.0},  # in the window of version 4, and ended
        JAZZ | {"id": "e1"},  # there, and active
        JAZZ | {"id": "q11"},  # in both windows, without an end: it is replaced
        {"op": "move", "id": "t1", "point": [0, 1]},
        TOP,
        JAZZ | {"id": "ends", "ttl": 5},
        *(JAZZ | {"id": f"n{n}", "point": [n / 8, 1]} for n in range(8)),
        TOP,
        JAZZ | {"id": "last", "point": [0, 0]},
    ]
    small = Small(tmp_path, Settings(Window(count=8)))
    expected, refused = scanned([*before, *after], small.settings)
    for batch, path in enumerate(write_events(tmp_path / "in", after, 2, 4)):
        small.take(small.open(), 10 + batch, [path])
    small.check({update for update in expected if update[0] >= len(before)})
    assert small.refused() == {place for place in refused if place >= len(before)}
    assert json.loads((tmp_path / "state" / "about.json").read_text())["version"] == 6


@pytest.mark.parametrize("workers", [1, 2])
def test_a_state_without_a_secret_goes_on_with_its_hashes(
    tmp_path: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It knows its subscriptions, its messages and what its plan divides by them."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    with tarfile.open(GOLDEN / "pipeline-5.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    before = json.loads((tmp_path / "log.json").read_text())
    words = ["jazz", "blues pizza", "sale", "über", "red jazz", "pizzas", "jazz ski"]
    after: list[dict[str, Any]] = [
        *({"op": "publish", "id": f"n{n}", "text": text, "point": [1, 1], "at": 31.0}
          for n, text in enumerate(words)),
        JAZZ | {"id": "q18"},  # active: it is replaced
        {"op": "retract", "id": "q15"},
        {"op": "subscribe", "id": "s1", "query": "über jazz", "region": BOX},
        {"op": "subscribe", "id": "t2", "query": "jazz", "region": BOX},  # another kind
        {"op": "unsubscribe", "id": "s3"},
        {"op": "move", "id": "s0", "region": BOX},
        {"op": "move", "id": "s2", "region": {"type": "Box", "bbox": [0, 0, 5, 5]}},
        {"op": "move", "id": "t1", "point": [1, 1]},
        JAZZ | {"id": "n9", "text": "jazz blues über"},
    ]  # fmt: skip
    small = Small(tmp_path, Settings(Window(count=8)))
    small.partitioner, small.workers = ("text-frequency", 2) if workers == 2 else ("shared", 1)
    expected, refused = scanned([*before, *after], small.settings)
    for batch, path in enumerate(write_events(tmp_path / "in", after, 4, 4)):
        feed = small.open(replan=workers == 1 and not batch)
        small.take(feed, 10 + batch, [path])
    fresh = {update for update in expected if update[0] >= len(before)}
    small.check(fresh)
    assert {op for _, op, _, _ in fresh} == {"add", "remove", "change"}
    assert small.refused() == {place for place in refused if place >= len(before)} != set()
    assert feed.pipeline.state.secret == b""
