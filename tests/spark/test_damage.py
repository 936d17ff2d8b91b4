"""Files of a state that are damaged behind its back: exact updates, or an error that helps."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

import pytest

from boolean_logs import Updates, scanned
from nearcast.errors import NearcastError, SourceError, StateError
from nearcast.spark.driver.history import Upkeep
from nearcast.spark.workers import task
from nearcast.spark.workers.shard import Shard
from small_pipeline import Small, churn, write_events

BATCHES, BEFORE, ROWS = 10, 9, 20
UPKEEP = Upkeep(snapshot_every=20, rebase_every=10**6, most_steps=7)

# In state, which file of that name is damaged, and whether the updates are exact nevertheless.
KINDS = {
    "log/*.arrow": True,
    "routed/*/0*.arrow": True,
    "routed/*/0*.wanted": True,
    "routed/*/0*.json": True,
    "routed/*/base-*.arrow": True,
    "routed/*/base-*.json": True,
    "snapshots/*/*/head.json": True,
    "snapshots/*/*/index.bin": True,
    "snapshots/*/*/owner_letters.bin": True,
    "snapshots/*/*/active_memory.bin": True,
    "plans/*.plan": True,
    "reports/*.json": True,
    "window/*.ids": True,
    "messages/*.arrow": True,
    "pending.json": True,
    "commits/*.json": True,
    "window/*.all": False,
    "definitions/*.arrow": True,
    "definitions/*.json": True,
    "about.json": False,
}
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda data: data[:0],
    "cut in the middle": lambda data: data[: len(data) // 2],
    "without its last byte": lambda data: data[:-1],
    "with another byte": lambda data: _changed(data, len(data) // 2),
    "with another beginning": lambda data: _changed(data, 0),
}
COMMON = ["cut in the middle", "with another byte"]
"""What is seen by the size of a file, and what only by its bytes."""


def _changed(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


class Kept:
    """A pipeline that was stopped on the way, to be copied and damaged."""

    def __init__(self, folder: Path, partitioner: str, workers: int) -> None:
        self.folder = folder
        log = churn(BATCHES * ROWS, seed=5)
        self.small = self._small(folder / "kept", partitioner, workers)
        self.expected: Updates = scanned(log, self.small.settings)[0]
        self.paths = write_events(folder / "in", log, BATCHES, 5)
        feed = self.small.open()
        for batch, path in enumerate(self.paths[:BEFORE]):
            self.small.take(feed, batch, [path])

    def _small(self, folder: Path, partitioner: str, workers: int) -> Small:
        small = Small(folder)
        small.partitioner, small.workers = partitioner, workers
        small.upkeep = UPKEEP
        return small

    def copy(self) -> Small:
        task.node_cache.cache_clear()
        place = self.folder / "copy"
        shutil.rmtree(place, ignore_errors=True)
        # Links are enough: all files of a state but its lock are replaced, never written to.
        shutil.copytree(
            self.small.folder, place, ignore=shutil.ignore_patterns("lock"), copy_function=os.link
        )
        return self._small(place, self.small.partitioner, self.small.workers)

    def go_on(self, small: Small) -> None:
        feed = small.open()
        for batch in range(BEFORE - 1, BATCHES):  # Spark may not have seen the end of the last
            small.take(feed, batch, [self.paths[batch]])
        small.check(self.expected)


@pytest.fixture(scope="module", params=[("shared", 1), ("space-kd", 3)], ids=lambda plan: plan[0])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    return Kept(tmp_path_factory.mktemp("kept"), *request.param)


@pytest.fixture(autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("NEARCAST_CACHE", str(folder))
    monkeypatch.setattr("os.fsync", lambda _: None)
    return folder


def damage(path: Path, how: Callable[[bytes], bytes]) -> None:
    data = path.read_bytes()
    path.unlink()  # the copies have the same file
    path.write_bytes(how(data))


def newest(small: Small, pattern: str) -> Path:
    files = sorted((small.folder / "state").glob(pattern))
    assert files, pattern
    return files[-1]


def test_what_is_kept_has_files_of_every_kind(kept: Kept) -> None:
    """The damage below is done to what a pipeline really uses: base, logs, snapshot after it."""
    last = kept.small.open().pipeline.history
    assert 2 <= len(last.steps) <= UPKEEP.most_steps
    assert last.snapshots()
    assert max(last.snapshots().values()) > last.steps[0].number
    for pattern in KINDS:
        newest(kept.small, pattern)


@pytest.mark.parametrize("pattern", KINDS)
def test_damage_is_mended_or_reported(kept: Kept, pattern: str) -> None:
    """However a file is damaged, no update is lost, repeated or made up."""
    check_damages(kept, pattern, COMMON if kept.small.partitioner == "shared" else COMMON[:1])


@pytest.mark.soak
@pytest.mark.parametrize("pattern", KINDS)
def test_any_other_damage_is_mended_or_reported(kept: Kept, pattern: str) -> None:
    check_damages(kept, pattern, [name for name in DAMAGES if name not in COMMON])


def check_damages(kept: Kept, pattern: str, names: list[str]) -> None:
    for name in names:
        small = kept.copy()
        damage(newest(small, pattern), DAMAGES[name])
        if KINDS[pattern]:
            kept.go_on(small)
            continue
        with pytest.raises(NearcastError, match="restore|empty|belongs") as caught:
            kept.go_on(small)
        assert str(small.folder) in str(caught.value)


LOST = [
    pattern
    for pattern, mended in KINDS.items()
    if mended and pattern not in ("window/*.ids", "messages/*.arrow")
]
"""A step without messages has no ids either: that they are gone is not noticed."""


@pytest.mark.parametrize("pattern", LOST)
def test_a_lost_file_is_made_again(kept: Kept, pattern: str) -> None:
    small = kept.copy()
    newest(small, pattern).unlink()
    kept.go_on(small)


@pytest.mark.parametrize("pattern", ["log/*.arrow", "definitions/*.arrow"])
def test_a_damaged_log_without_its_events_is_an_error(kept: Kept, pattern: str) -> None:
    small = kept.copy()
    damage(newest(small, pattern), DAMAGES["without its last byte"])
    moved = kept.folder / "elsewhere"
    (kept.folder / "in").rename(moved)
    try:
        with pytest.raises(SourceError, match=r"damaged.* gone .*restore"):
            small.open()
    finally:
        moved.rename(kept.folder / "in")


def test_the_commit_of_a_step_that_cannot_be_taken_again_is_missed(kept: Kept) -> None:
    """Its logs are gone, so that it could not be taken again: nothing is made up instead."""
    small = kept.copy()
    small.upkeep = Upkeep(most_steps=1)
    kept.go_on(small)
    path = newest(small, "commits/*.json")
    damage(path, DAMAGES["without its last byte"])
    with pytest.raises(SourceError, match=f"{path.name}: damaged.*restore it"):
        small.open()


@pytest.mark.parametrize("pattern", ["*.bin", "lock", "*"])
def test_a_cache_that_is_damaged_while_in_use_is_rebuilt(
    kept: Kept, cache: Path, pattern: str
) -> None:
    small = kept.copy()
    feed = small.open()
    small.take(feed, BEFORE - 1, [kept.paths[BEFORE - 1]])
    for batch in range(BEFORE, BATCHES):
        for path in [each for each in cache.rglob(pattern) if each.is_file()]:
            if pattern == "*.bin":
                with path.open("r+b") as file:
                    file.truncate(path.stat().st_size // 2)
            else:
                path.unlink()
        small.take(feed, batch, [kept.paths[batch]])
    small.check(kept.expected)


def test_files_that_vanish_while_a_step_is_applied_are_noticed(
    kept: Kept, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that takes the place of one that is gone is empty: it must not be believed."""
    small = kept.copy()
    feed = small.open()
    applied = Shard.apply

    def apply(shard: Shard, operations: Any) -> None:
        for path in cache.rglob("*.bin"):
            path.unlink()
        applied(shard, operations)

    monkeypatch.setattr(Shard, "apply", apply)
    with pytest.raises(SourceError, match="removed"):
        small.take(feed, BEFORE, [kept.paths[BEFORE]])
    monkeypatch.undo()
    monkeypatch.setenv("NEARCAST_CACHE", str(cache))
    kept.go_on(small)


class _Stop(BaseException):
    """The end of a process."""


def _stop(*_: object) -> None:
    raise _Stop


def test_what_a_step_left_is_not_taken_for_another_with_its_number(
    kept: Kept, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is not known how a step was cut, and its updates were not seen, it is cut again."""
    small = kept.copy()
    small.step_rows = ROWS
    feed = small.open()
    monkeypatch.setattr("nearcast.spark.outputs.FolderOutput.commit", _stop)
    with pytest.raises(_Stop):
        small.take(feed, BEFORE, [kept.paths[BEFORE]])
    monkeypatch.undo()
    monkeypatch.setenv("NEARCAST_CACHE", str(cache))
    (small.folder / "state" / "pending.json").unlink()
    small.step_rows = 5
    kept.go_on(small)


def test_updates_that_were_seen_are_not_forgotten(
    kept: Kept, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When it is not known how a step was cut whose updates are out, that is an error."""
    small = kept.copy()
    feed = small.open()
    monkeypatch.setattr("nearcast.spark.driver.state.PipelineState.write_commit", _stop)
    with pytest.raises(_Stop):
        small.take(feed, BEFORE, [kept.paths[BEFORE]])
    monkeypatch.undo()
    monkeypatch.setenv("NEARCAST_CACHE", str(cache))
    (small.folder / "state" / "pending.json").unlink()
    with pytest.raises(StateError, match=r"batch=19.*ends with step 18.*remove.*batch=19"):
        small.open()


def test_a_pipeline_whose_step_failed_must_be_opened_again(
    kept: Kept, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has in memory is ahead of what is done."""
    small = kept.copy()
    feed = small.open()
    monkeypatch.setattr("nearcast.spark.outputs.FolderOutput.commit", _full)
    with pytest.raises(OSError, match="full"):
        small.take(feed, BEFORE, [kept.paths[BEFORE]])
    monkeypatch.undo()
    monkeypatch.setenv("NEARCAST_CACHE", str(cache))
    with pytest.raises(StateError, match="open the pipeline again"):
        small.take(feed, BEFORE, [kept.paths[BEFORE]])
    kept.go_on(small)


def _full(*_: object) -> None:
    raise OSError("disk full")


def test_two_processes_cannot_have_one_state(kept: Kept) -> None:
    small = kept.copy()
    code = (
        "import sys; from nearcast.spark.driver.state import PipelineState\n"
        "PipelineState(sys.argv[1], {}).claim(); print('mine', flush=True); sys.stdin.read()"
    )
    state = str(small.folder / "state")
    with Popen([sys.executable, "-c", code, state], stdin=PIPE, stdout=PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(StateError, match=f"process {other.pid} works on it; stop"):
            small.open()
        other.kill()
    kept.go_on(small)
