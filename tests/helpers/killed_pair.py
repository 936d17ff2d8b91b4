"""Two servers that are killed again and again, while others publish and listen."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import httpx
from httpx_sse import connect_sse

from killed_server import WORDS, Heard, Told, compare
from nearcast.client import Client
from nearcast.client.wire import read_update
from nearcast.errors import NearcastError
from nearcast.geo import Box
from patience import PATIENCE_S, wait_until
from server_pair import PairedServer

ACTS = ("promote", "promote", "primary", "standby", "both")


@dataclass
class Pair:
    """The two servers, by what they are at the moment."""

    primary: PairedServer
    standby: PairedServer
    done: threading.Event = field(default_factory=threading.Event)

    def start(self, *servers: PairedServer) -> None:
        """Start some of them as an operator would after a failure: each follows the other."""
        for each in servers:
            other = self.standby if each is self.primary else self.primary
            each.begin("--follow", other.url, "--ack", "replicated", "--resync")

    def act(self, kind: str) -> None:
        """Kill one or both, and bring the pair back."""
        old, new = self.primary, self.standby
        if kind == "both":
            old.kill()
            new.kill()
            self.start(old, new)
        elif kind == "standby":
            new.kill()
            self.start(new)
        else:
            old.kill()
            if kind == "promote":
                answer = new.http.post("/v1/promote")
                assert answer.status_code == 200, answer.text
                self.primary, self.standby = new, old
            self.start(old)


def _publish(pair: Pair, name: str, told: Told, stop: threading.Event) -> None:
    """Publish to whoever is the primary; what got no answer may or may not have happened."""
    chosen = random.Random(name)
    number = count()
    while not stop.is_set():
        server = pair.primary
        with Client(server.url, retries=0) as client:
            while server is pair.primary and not stop.is_set():
                id = f"{name}-{next(number)}"
                text = " ".join(chosen.sample(WORDS, chosen.randint(1, 4)))
                try:
                    told.note(id, client.publish(id, text, (0.5, 0.5)).updates)
                except NearcastError:
                    told.note(id, None)
                    stop.wait(0.02)  # while nobody is there, do not spin


def _listen(pair: Pair, which: str, heard: Heard, final: list[int]) -> None:
    """Listen to one of the two, and go on with the other when it is that one's turn."""
    last = 0
    while not (final and last >= final[0]):
        server: PairedServer = getattr(pair, which)
        try:
            with (
                httpx.Client(base_url=server.url, timeout=httpx.Timeout(5.0, read=20.0)) as http,
                connect_sse(http, "GET", "/v1/updates", params={"after": last}) as stream,
            ):
                for event in stream.iter_sse():
                    if event.event == "gap":
                        raise AssertionError(event.data)
                    if event.data:
                        last = int(event.id)
                        heard.updates.append(read_update(last, event.data))
                    if (final and last >= final[0]) or server is not getattr(pair, which):
                        break
        except (httpx.HTTPError, OSError):
            pair.done.wait(0.05)


def run_pair_kills(folder: Path, kills: int, seconds: float, publishers: int = 3) -> None:
    """Kill servers of a pair under load, then compare what was told with what was heard.

    Every update of every acknowledged message is heard exactly once from either server, none is
    made up, and ids grow by one, whoever was killed and promoted.
    """
    pair = Pair(PairedServer(folder, "one"), PairedServer(folder, "two"))
    servers = (pair.primary, pair.standby)
    told, stop, final = Told(), threading.Event(), list[int]()
    heard = [Heard(), Heard()]
    threads = [
        threading.Thread(target=_publish, args=(pair, f"p{number}", told, stop))
        for number in range(publishers)
    ]
    ears = [
        threading.Thread(target=_listen, args=(pair, which, each, final), daemon=True)
        for which, each in zip(("primary", "standby"), heard, strict=True)
    ]
    try:
        pair.primary.begin("--ack", "replicated")
        pair.start(pair.standby)
        for each in servers:
            each.wait_until_ready()
        wait_until(lambda: pair.primary.ready().get("connected"), "connection")
        with Client(pair.primary.url) as client:
            for word in WORDS:
                client.subscribe(word, word, Box(0, 0, 1, 1))
        for thread in threads + ears:
            thread.start()
        moments = random.Random(kills)
        for _ in range(kills):
            told.wait_for_more(5)
            stop.wait(moments.uniform(0.0, seconds))  # any moment will do
            pair.act(moments.choice(ACTS))
        told.wait_for_more(5)
        stop.set()
        for thread in threads:
            thread.join()
        with Client(pair.primary.url) as client:
            client.publish("the-end", "alpha", (0.5, 0.5))
            final.append(client.last_update())
            log = [entry.id for entry in client.log(0)]
        for thread in ears:
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), [len(each.updates) for each in heard]
    finally:
        stop.set()
        pair.done.set()
        for each in servers:
            each.end()
    assert log == list(range(1, final[0] + 1))
    for each_heard in heard:
        compare(each_heard, told, log)
