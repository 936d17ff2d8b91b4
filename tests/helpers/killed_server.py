"""A server in a process of its own that is killed without warning, while others use it."""

from __future__ import annotations

import random
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from nearcast.client import Client, Gap, Received
from nearcast.errors import NearcastError
from nearcast.geo import Box
from patience import PATIENCE_S

WORDS = ["alpha", "beta", "gamma", "delta"]


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Victim:
    """A server at one port and folder through all its lives."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "nearcast", "serve", "--data", str(self.data)]
        command += ["--port", str(self.port), "--index", "scan", "--log-level", "error"]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if re.search(rb"http://", line):
                return
        raise AssertionError("the server did not start")

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        assert self._process.stderr is not None
        self._process.stderr.close()


class Told:
    """What publishers were told: the updates of each message, and which got no answer."""

    def __init__(self) -> None:
        self.acknowledged: dict[str, int] = {}
        self.doubtful: set[str] = set()
        self._changed = threading.Condition()

    def note(self, id: str, updates: int | None) -> None:
        with self._changed:
            if updates is None:
                self.doubtful.add(id)
            else:
                self.acknowledged[id] = updates
            self._changed.notify_all()

    def wait_for_more(self, count: int) -> None:
        with self._changed:
            wanted = len(self.acknowledged) + count
            assert self._changed.wait_for(
                lambda: len(self.acknowledged) >= wanted, timeout=PATIENCE_S
            )


@dataclass
class Heard:
    """What a listener was told, over all its connections."""

    updates: list[Received] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)


def _listen(url: str, heard: Heard, done: threading.Event, last: Callable[[], int | None]) -> None:
    with Client(url) as client:
        for each in client.updates(after=0, gaps=True):
            if isinstance(each, Gap):
                heard.gaps.append(each)
                continue
            heard.updates.append(each)
            if done.is_set() and each.id == last():
                return


def _publish(url: str, name: str, told: Told, stop: threading.Event) -> None:
    """Publish until told to stop; what got no answer may or may not have happened."""
    with Client(url, retries=0) as client:
        chosen = random.Random(name)
        for number in count():
            if stop.is_set():
                return
            id = f"{name}-{number}"
            text = " ".join(chosen.sample(WORDS, chosen.randint(1, 4)))
            try:
                told.note(id, client.publish(id, text, (0.5, 0.5)).updates)
            except NearcastError:
                told.note(id, None)
                stop.wait(0.02)  # while nobody is there, do not spin


def run_kills(data: Path, kills: int, seconds: float, publishers: int = 3) -> None:
    """Kill the server again and again under load, then compare what was told with what was heard.

    Every update of every acknowledged message is heard exactly once, none is made up, ids grow.
    """
    victim = Victim(data)
    victim.start()
    with Client(victim.url) as client:
        for word in WORDS:
            client.subscribe(word, word, Box(0, 0, 1, 1))
    told, stop, done = Told(), threading.Event(), threading.Event()
    final: list[int] = []
    heard = [Heard(), Heard()]
    threads = [
        threading.Thread(target=_publish, args=(victim.url, f"p{number}", told, stop))
        for number in range(publishers)
    ]
    ears = [
        threading.Thread(
            target=_listen, args=(victim.url, each, done, lambda: final[0] if final else None)
        )
        for each in heard
    ]
    for thread in threads + ears:
        thread.start()
    moments = random.Random(kills)
    for _ in range(kills):
        told.wait_for_more(5)
        stop.wait(moments.uniform(0.0, seconds))  # any moment will do
        victim.kill()
        victim.start()
    told.wait_for_more(5)
    stop.set()
    for thread in threads:
        thread.join()
    with Client(victim.url) as client:
        final.append(client.last_update() + 1)
        done.set()
        client.publish("the-end", "alpha", (0.5, 0.5))
        log = list(client.log(0))
    for thread in ears:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    victim.kill()
    for each in heard:
        compare(each, told, [entry.id for entry in log])


def compare(heard: Heard, told: Told, log: list[int]) -> None:
    """See that every update of an acknowledged message was heard once, and none was made up."""
    assert heard.gaps == []
    ids = [update.id for update in heard.updates]
    assert ids == sorted(set(ids)) == log
    counts: dict[str, int] = {}
    for update in heard.updates:
        counts[update.message] = counts.get(update.message, 0) + 1
    del counts["the-end"]
    for message, updates in told.acknowledged.items():
        assert counts.get(message, 0) == updates, message
    assert counts.keys() <= told.acknowledged.keys() | told.doubtful
    pairs = [(update.subscription, update.message) for update in heard.updates]
    assert len(pairs) == len(set(pairs))
