"""A log replayed by a pipeline: updates, refusals and stops as `scan` has them."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mixed_logs import mixed_log, with_news
from nearcast.engine import Engine, Quarantine, Settings, stop_at, update_line
from nearcast.engine.replay import Refusal, replay
from nearcast.errors import QueryError, SourceError
from nearcast.events import Record, open_log
from nearcast.events.bodies import NOTHING, Include
from nearcast.geo import Box
from nearcast.spark.inline import InlineRunner
from nearcast.spark.replay import replay_steps
from nearcast.topk import Window

BOX = {"type": "Box", "bbox": [0, 0, 1, 1]}


def write(path: Path, log: list[dict[str, Any]]) -> Path:
    """Write a log with blank lines in it, and some lines that are no JSON."""
    lines = []
    for number, fields in enumerate(log):
        lines += [json.dumps(fields), *([""] if number % 7 == 0 else [])]
        lines += ['{"op":'] if number % 23 == 5 else []
    path.write_text("\n".join(lines))
    return path


def by_scan(
    path: Path, settings: Settings, refuse: Refusal, out: list[bytes], include: Include = NOTHING
) -> None:
    window, space = settings.window, settings.space
    engine = Engine(
        index="scan", window_count=window.count, window_seconds=window.seconds, space=space
    )
    with open_log(path) as log:
        for position, updates in replay(log, engine, refuse):
            out.extend(update_line(position, update, include) for update in updates)


def by_pipeline(
    path: Path,
    settings: Settings,
    refuse: Refusal,
    out: list[bytes],
    step_records: int = 40,
    include: Include = NOTHING,
) -> None:
    with open_log(path) as log:
        found = replay_steps(
            log, refuse, runner=InlineRunner(), settings=settings, workers=3,
            partitioner="space-grid", folder=path.with_suffix(".folder"),
            step_records=step_records, include=include,
        )  # fmt: skip
        for position, updates in found:
            out.extend(update_line(position, update, include) for update in updates)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


SETTINGS = [
    Settings(),
    Settings(window=Window(count=3)),
    Settings(window=Window(seconds=2.0)),
    Settings(space=Box(-1, -1, 2, 2)),
]


@pytest.mark.parametrize("seed", range(4))
def test_updates_and_quarantine_are_those_of_scan_to_the_byte(
    tmp_path: Path, seed: int, cache: Path
) -> None:
    path = write(tmp_path / "log.jsonl", with_news(mixed_log(seed, 160), seed))
    outs: list[list[bytes]] = [[], []]
    asides = [io.BytesIO(), io.BytesIO()]
    by_scan(path, SETTINGS[seed], Quarantine(asides[0]), outs[0])
    by_pipeline(path, SETTINGS[seed], Quarantine(asides[1]), outs[1])
    assert outs[0]
    assert outs[1] == outs[0]
    assert asides[1].getvalue().splitlines() == asides[0].getvalue().splitlines()
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("include", [Include(), Include(meta=False), Include(message=False)])
def test_bodies_and_meta_are_those_of_scan_to_the_byte(tmp_path: Path, include: Include) -> None:
    log = with_news(mixed_log(5, 160), 5)
    for number, fields in enumerate(log):
        if fields["op"] == "subscribe" and number % 3:
            fields["meta"] = {"from": number}
    path = write(tmp_path / "log.jsonl", log)
    outs: list[list[bytes]] = [[], []]
    by_scan(path, Settings(), Quarantine(io.BytesIO()), outs[0], include)
    by_pipeline(path, Settings(), Quarantine(io.BytesIO()), outs[1], include=include)
    assert outs[1] == outs[0]
    for name, wanted in (("body", include.message), ("meta", include.meta)):
        assert any(f'"{name}"'.encode() in line for line in outs[0]) == wanted


@pytest.mark.parametrize("step_records", [2, 1000])
def test_a_stop_comes_with_the_same_words_after_the_same_updates(
    tmp_path: Path, step_records: int
) -> None:
    path = write(tmp_path / "log.jsonl", mixed_log(9, 80))
    outs: list[list[bytes]] = [[], []]
    with pytest.raises(SourceError) as first:
        by_scan(path, Settings(), stop_at(str(path)), outs[0])
    with pytest.raises(SourceError) as second:
        by_pipeline(path, Settings(), stop_at(str(path)), outs[1], step_records)
    assert str(second.value) == str(first.value)
    assert outs[1] == outs[0]


@pytest.mark.parametrize("query", ["(a", "a AND OR b", "NOT a", "!?"])
def test_a_query_that_cannot_be_read_is_drawn_with_a_caret(tmp_path: Path, query: str) -> None:
    path = write(
        tmp_path / "log.jsonl", [{"op": "subscribe", "id": "s", "query": query, "region": BOX}]
    )
    with pytest.raises(SourceError, match=":1: query:") as caught:
        by_pipeline(path, Settings(), stop_at(str(path)), [])
    assert isinstance(caught.value.__cause__, QueryError)
    assert caught.value.__notes__ == caught.value.__cause__.__notes__


def test_what_came_before_the_damage_of_a_file_is_matched(tmp_path: Path) -> None:
    log: list[dict[str, Any]] = [{"op": "subscribe", "id": "s", "query": "a", "region": BOX}]
    log += [{"op": "publish", "id": f"m{n}", "text": "a", "point": [0, 0]} for n in range(3)]

    def damaged() -> Iterator[Record]:
        with open_log(write(tmp_path / "log.jsonl", log)) as records:
            yield from records
        raise SourceError("log.jsonl: torn")

    found = replay_steps(
        damaged(), stop_at("log"), runner=InlineRunner(), settings=Settings(),
        workers=1, partitioner="shared", folder=tmp_path / "folder",
    )  # fmt: skip
    messages: list[str] = []

    def take_all() -> None:
        for _, updates in found:
            messages.extend(update.message for update in updates)

    with pytest.raises(SourceError, match="torn"):
        take_all()
    assert messages == ["m0", "m1", "m2"]
