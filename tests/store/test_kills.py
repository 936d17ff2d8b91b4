"""Kill -9 at any moment: what was acknowledged is there, and nothing that was not applied."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from itertools import islice
from pathlib import Path
from random import Random

import pytest

import nearcast
import store_writer
from nearcast import Engine, NearcastError, Update
from nearcast.engine import Scan, Settings
from nearcast.events import Event
from nearcast.topk import Window
from store_writer import WINDOW, batches

SEED = 11


class Reference:
    """What the plain engine says, batch by batch."""

    def __init__(self, seed: int) -> None:
        self._batches = batches(seed)
        self.scan = Scan(Settings(Window(WINDOW)))
        self.updates: list[Update] = []
        self.done = 0

    def go_on_to(self, number: int) -> None:
        for batch in islice(self._batches, number - self.done):
            for event in batch:
                self._apply(event)
        self.done = number

    def _apply(self, event: Event) -> None:
        try:
            self.updates += self.scan.apply(event)
        except NearcastError:
            return


def write_and_be_killed(path: Path, draw: Random, most: int) -> int:
    """Run the writer, kill it some lines later, and give the last number that it printed whole."""
    source = str(Path(nearcast.__file__).parents[1])
    writer = subprocess.Popen(
        [sys.executable, store_writer.__file__, str(path), str(SEED)],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": source},
    )
    assert writer.stdout is not None
    last = 0
    for _ in range(draw.randint(1, most)):
        last = int(writer.stdout.readline())
    # It goes on until the signal arrives: somewhere in the batches after that line.
    for _ in range(draw.randrange(20_000)):
        pass
    writer.send_signal(signal.SIGKILL)
    *whole, _ = writer.stdout.read().split(b"\n")
    writer.wait()
    writer.stdout.close()
    return int(whole[-1]) if whole else last


def check(path: Path, acknowledged: int, reference: Reference) -> None:
    with Engine(index="rarest-term", path=path) as engine:
        kept = int(engine.recall("done") or b"0")
        assert kept >= acknowledged
        assert kept <= acknowledged + 1  # the batch that was being applied
        reference.go_on_to(kept)
        scan = reference.scan
        assert engine._ready().now == scan.now
        expected = {subscription.id: subscription for subscription in scan.subscriptions()}
        assert {s.id: s for s in engine.subscriptions()} == expected
        for id in expected:
            assert engine.results(id) == scan.results(id)
        entries = engine.log.read(0, 10_000_000)
        assert [(e.op, e.subscription, e.message, e.score) for e in entries] == [
            (u.op, u.subscription, u.message, u.score) for u in reference.updates
        ]
        assert [entry.id for entry in entries] == list(range(1, len(entries) + 1))


def killed(path: Path, times: int, most: int) -> None:
    draw, reference = Random(SEED), Reference(SEED)
    for _ in range(times):
        acknowledged = write_and_be_killed(path, draw, most)
        copy = path.with_name("copy") / path.name
        shutil.rmtree(copy.parent, ignore_errors=True)
        shutil.copytree(path.parent, copy.parent, ignore=shutil.ignore_patterns("copy"))
        check(copy, acknowledged, reference)


def test_what_was_acknowledged_survives_kills(tmp_path: Path) -> None:
    killed(tmp_path / "e.nearcast", times=5, most=25)


@pytest.mark.soak
def test_what_was_acknowledged_survives_a_hundred_kills(tmp_path: Path) -> None:
    killed(tmp_path / "e.nearcast", times=100, most=60)
