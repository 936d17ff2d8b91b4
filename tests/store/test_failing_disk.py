"""A disk that fails below SQLite: what was refused never comes back, and the rest goes on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import failing_calls
import nearcast
from failing_calls import SYNCING, WRITING, while_failing
from nearcast import Box, Engine, Update
from nearcast.errors import StoreError
from nearcast.store import Store
from nearcast.store.webhooks import Webhook

pytestmark = pytest.mark.skipif(
    not failing_calls.SUPPORTED, reason="no filters for system calls here"
)

REFUSED = """
import os, signal, sys
from failing_calls import SYNCING, while_failing
from nearcast import Box, Engine
from nearcast.errors import StoreError
engine = Engine(index="scan", path=sys.argv[1])
engine.subscribe("s", "a", Box(0, 0, 1, 1))
for number in range(int(sys.argv[2])):
    engine.publish(f"m{number}", "a" + " b" * 3000, (0.5, 0.5))
try:
    while_failing(SYNCING, lambda: engine.publish("refused", "a", (0.5, 0.5)))
except StoreError as error:
    print(error, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def logged(path: Path) -> list[str]:
    with Engine(index="scan", path=path) as engine:
        return [entry.message for entry in engine.log.read(0, 10_000)]


@pytest.mark.parametrize("before", [0, 1, 5, 400])
def test_what_was_refused_because_the_disk_did_not_confirm_it_does_not_come_back(
    before: int, tmp_path: Path
) -> None:
    """Its pages were in the write-ahead log already when the process was killed.

    With 400 messages before, the log has begun a new round over the frames of an older one.
    """
    path = tmp_path / "e.nearcast"
    folders = (Path(nearcast.__file__).parents[1], Path(failing_calls.__file__).parent)
    run = subprocess.run(
        [sys.executable, "-c", REFUSED, str(path), str(before)],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, folders))},
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert "input/output error" in run.stdout
    assert logged(path) == [f"m{number}" for number in range(before)]


@pytest.mark.parametrize(("calls", "error"), [(SYNCING, errno.EIO), (WRITING, errno.ENOSPC)])
def test_when_the_disk_works_again_the_engine_goes_on(
    calls: tuple[str, ...], error: int, tmp_path: Path
) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(index="scan", path=path) as engine:
        engine.subscribe("s", "a", Box(0, 0, 1, 1))
        for number in range(150):
            if number % 3:
                engine.publish(f"m{number}", "a b c", (0.5, 0.5))
                continue
            with pytest.raises(StoreError):
                while_failing(
                    calls, lambda: engine.publish("refused", "a" * 9000, (0.5, 0.5)), error
                )
        assert engine.publish("last", "a", (0.5, 0.5)) == [Update("add", "s", "last")]
    kept = [f"m{number}" for number in range(150) if number % 3]
    assert logged(path) == [*kept, "last"]


def test_as_long_as_the_refused_part_cannot_be_removed_nothing_more_is_taken(
    tmp_path: Path,
) -> None:
    with Engine(index="scan", path=tmp_path / "e.nearcast") as engine:
        engine.subscribe("s", "a", Box(0, 0, 1, 1))

        def refused_twice() -> None:
            for _ in range(2):
                with pytest.raises(StoreError):
                    engine.publish("refused", "a", (0.5, 0.5))

        while_failing(SYNCING, refused_twice)
        assert engine.publish("m", "a", (0.5, 0.5)) == [Update("add", "s", "m")]


def test_an_answer_that_could_not_be_stored_leaves_the_engine_in_order(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(index="scan", path=path, window_count=2) as engine:
        engine.subscribe("s", "a", Box(0, 0, 1, 1))
        for number in range(5):
            engine.publish(f"m{number}", "a", (0.5, 0.5))
        with pytest.raises(StoreError):
            while_failing(SYNCING, lambda: engine.remember("key", b"answer"))
        assert engine.recall("key") is None
        engine.publish("m5", "a", (0.5, 0.5))
    assert logged(path) == [f"m{number}" for number in range(6)]


def test_a_webhook_ends_in_the_commit_of_its_subscription(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    hook = Webhook("s", "https://example.org/", "whsec_x", 0)
    with Engine(index="scan", path=path) as engine:
        engine.subscribe("s", "a", Box(0, 0, 1, 1))
        engine.webhooks.put(hook)
        with pytest.raises(StoreError):
            while_failing(WRITING, lambda: engine.unsubscribe("s"), errno.ENOSPC)
        assert engine.webhooks.find("s") == hook
        assert engine.get("s") is not None
        engine.unsubscribe("s")
        assert engine.webhooks.find("s") is None


def test_a_snapshot_that_cannot_be_made_current_refuses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changes are stored by then; to refuse the call would deny what has happened."""

    def broken(*_: object) -> None:
        raise StoreError("no room")

    monkeypatch.setattr("nearcast.store.snapshot.Snapshots.due", lambda *_: True)
    monkeypatch.setattr(Store, "_save_snapshot", broken)
    with Engine(index="scan", path=tmp_path / "e.nearcast") as engine:
        assert engine.subscribe("s", "a", Box(0, 0, 1, 1)) == []
        assert engine.count == 1


def test_a_commit_that_failed_is_not_counted(tmp_path: Path) -> None:
    """A standby would tell its primary that it has the commit, and never get it."""
    with Engine(index="scan", path=tmp_path / "e.nearcast") as engine:
        engine.subscribe("s", "a", Box(0, 0, 1, 1))
        lineage = engine.lineage
        assert lineage is not None
        lineage.begin(1)
        before = (lineage.position, lineage.mark, lineage.terms)
        with pytest.raises(StoreError):
            while_failing(SYNCING, lambda: engine.publish("refused", "a", (0.5, 0.5)))
        assert (lineage.position, lineage.mark, lineage.terms) == before
        with pytest.raises(StoreError):
            while_failing(SYNCING, lambda: lineage.begin(2))
        assert (lineage.position, lineage.mark, lineage.terms) == before
        engine.publish("m", "a", (0.5, 0.5))
        assert (lineage.position, lineage.terms) == (before[0] + 1, before[2])
