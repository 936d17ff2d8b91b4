"""A server whose subscriptions come and go, each with a term of its own: its memory stays as it is.

`NEARCAST_CHURN_MINUTES=60 pytest tests/soak/test_churned_server.py -m soak -s` takes an hour: 500
subscriptions a second, and a restart every quarter. A few minutes are within the noise of what
allocators keep, so only runs of half an hour and more are held to 5 %.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import deque
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from nearcast_lab.bench.processes import resident_mib
from served import NDJSON
from server_process import ServerProcess, running

pytestmark = pytest.mark.soak

MINUTES = float(os.environ.get("NEARCAST_CHURN_MINUTES", "3"))
RATE = 500
LIVE = 2000
PARTS = 20
MORE = 1.05 if MINUTES >= 30 else 1.25


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Churn:
    """Makes fresh subscriptions, matches some of them, and ends those that are old."""

    def __init__(self) -> None:
        self._fresh = count()
        self._living: deque[str] = deque()
        self.made = 0

    def second(self, server: ServerProcess) -> None:
        """What happens in a second: all of it in one request, as lines of events."""
        events: list[dict[str, Any]] = []
        for _ in range(RATE):
            id = f"s{next(self._fresh)}"
            area = {"type": "Box", "bbox": [0, 0, 1, 1]}
            events.append({"op": "subscribe", "id": id, "query": f"term{id}", "region": area})
            self._living.append(id)
            if len(self._living) > LIVE:
                events.append({"op": "unsubscribe", "id": self._living.popleft()})
        text = f"term{self._living[-1]} word{self._living[-1]}"
        events.append({"op": "publish", "id": f"m{text}", "text": text, "point": [0.5, 0.5]})
        body = "".join(json.dumps(event) + "\n" for event in events)
        headers = {"content-type": NDJSON, "idempotency-key": text}
        answer = server.http.post("/v1/events", content=body.encode(), headers=headers)
        assert answer.status_code == 200, answer.text
        assert answer.json()["refused"] == 0, answer.text
        assert answer.json()["updates"] == 1, answer.text
        self.made += RATE

    def run(self, server: ServerProcess, seconds: float) -> None:
        """Churn for a while at the rate; whoever falls behind does not catch up."""
        end = time.monotonic() + seconds
        while (started := time.monotonic()) < end:
            self.second(server)
            time.sleep(max(0.0, started + 1 - time.monotonic()))


def test_memory_of_a_server_stays_as_it_is(tmp_path: Path) -> None:
    options = ["--data", str(tmp_path / "data"), "--index", "rarest-term"]
    options += ["--window-count", "1000", "--retain-updates", "5000"]
    churn, sizes = Churn(), list[float]()
    for life in range(4):
        folder = tmp_path / f"life{life}"
        folder.mkdir()
        with running(folder, *options) as server:
            for _ in range(PARTS // 4):
                churn.run(server, 60 * MINUTES / PARTS)
                sizes.append(resident_mib(server.process.pid))
                say(f"{churn.made:,} subscriptions: {sizes[-1]:.1f} MiB")
            answer = server.http.get("/metrics").text
            assert f"nearcast_subscriptions {float(LIVE)}" in answer
            assert server.terminate() == 0
    first = max(sizes[1 : PARTS // 4])  # of the first life, once it has all that live
    assert max(sizes[PARTS // 4 :]) < MORE * first, sizes
