"""Two servers in processes of their own: a primary and its standby, each at one port for life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from killed_server import free_port
from patience import PATIENCE_S, wait_until


class PairedServer:
    """A server of a pair, through all its lives."""

    def __init__(self, folder: Path, name: str) -> None:
        self.data = folder / name
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S)
        self._log = folder / f"{name}.txt"
        self._read = 0
        self.process: subprocess.Popen[bytes] | None = None

    def begin(self, *options: str, **environment: str) -> None:
        """Start the server, without waiting for it."""
        self._read = len(self._log.read_bytes()) if self._log.exists() else 0
        command = [sys.executable, "-m", "nearcast", "serve", "--data", str(self.data)]
        command += ["--port", str(self.port), "--index", "scan", *options]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stderr=log, stdout=log, env=os.environ | environment
            )

    def start(self, *options: str, **environment: str) -> None:
        """Start the server, and wait until it is ready."""
        self.begin(*options, **environment)
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait until it has started."""
        self.wait_for_log('"event": "ready"')

    @property
    def log(self) -> str:
        """What it has logged in this life."""
        return self._log.read_bytes()[self._read :].decode()

    def wait_for_log(self, text: str) -> None:
        """Wait until it has logged something in this life."""
        process = self.process
        assert process is not None
        wait_until(lambda: text in self.log or process.poll() is not None, lambda: self.log)
        assert text in self.log, self.log

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """Kill it, as a failure of its machine would."""
        self.signal(signal.SIGKILL)
        self.wait()

    def wait(self) -> int:
        """Wait for its end, and return the exit code."""
        assert self.process is not None
        return self.process.wait(PATIENCE_S)

    def ready(self) -> dict[str, Any]:
        """What it says about itself."""
        found: dict[str, Any] = self.http.get("/readyz").json()
        return found

    def post(self, path: str, body: Any, **headers: str) -> httpx.Response:
        return self.http.post(path, json=body, headers=headers)

    def updates(self, after: int = 0) -> list[dict[str, Any]]:
        """What its log of updates has."""
        answer = self.http.get(
            "/v1/updates",
            params={"after": after, "limit": 10_000},
            headers={"accept": "application/x-ndjson"},
        )
        assert answer.status_code == 200, answer.text
        return [msgspec.json.decode(line) for line in answer.content.splitlines()]

    def end(self) -> None:
        """Let nothing of it be left."""
        self.http.close()
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def in_step(primary: PairedServer, standby: PairedServer) -> None:
    """Wait until the standby has everything."""

    def even() -> bool:
        return (
            standby.updates()[-1:] == primary.updates()[-1:] and not primary.ready()["lag_commits"]
        )

    wait_until(lambda: primary.ready().get("connected"), "connection")
    wait_until(even, "standby that has everything")


@contextmanager
def pair(folder: Path, *options: str) -> Iterator[tuple[PairedServer, PairedServer]]:
    """A primary with a standby that follows; the options are for the primary."""
    primary, standby = PairedServer(folder, "one"), PairedServer(folder, "two")
    try:
        primary.begin(*options)
        standby.start("--follow", primary.url)
        primary.wait_until_ready()
        yield primary, standby
    finally:
        primary.end()
        standby.end()
