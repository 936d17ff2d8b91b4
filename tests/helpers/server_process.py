"""`nearcast serve` in a process of its own, as an operator would run it."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from patience import PATIENCE_S, wait_until


class ServerProcess:
    """A running server: its address, a client, and what it has logged."""

    def __init__(
        self, log: Path, *options: str, files: int | None = None, scheme: str = "http"
    ) -> None:
        self._log = log
        self._scheme = scheme
        command = [sys.executable, "-m", "nearcast", "serve", "--port", "0", "--index", "scan"]

        def limit() -> None:
            if files is not None:
                resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

        with log.open("wb") as written:
            self.process = subprocess.Popen(
                [*command, *options],
                stderr=written,
                preexec_fn=limit,
            )
        self.port = self._wait_for_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S)

    @property
    def log(self) -> str:
        """What the server has written on standard error."""
        return self._log.read_text()

    def _wait_for_port(self) -> int:
        place = f"{self._scheme}://127.0.0.1:"
        self.wait_for_log(place)
        self.wait_for_log('"event": "ready"')
        return int(self.log.partition(place)[2].partition("/")[0])

    def wait_for_log(self, text: str) -> None:
        """Wait until the server has written something."""
        ended = self.process.poll
        wait_until(lambda: text in self.log or ended() is not None, lambda: self.log)
        assert text in self.log, self.log

    def peak_memory(self) -> int:
        """The most memory that the server has had, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])

    def limit_file_size(self, most: int) -> None:
        """Let no file of the server grow above a size: a disk that is full."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        soft = most if most >= 0 else hard
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (soft, hard))

    def terminate(self) -> int:
        """Stop the server as an operator does, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE_S)


@contextmanager
def running(
    folder: Path, *options: str, files: int | None = None, scheme: str = "http"
) -> Iterator[ServerProcess]:
    """Run a server for the time of the block."""
    server = ServerProcess(folder / "log.txt", *options, files=files, scheme=scheme)
    try:
        yield server
    finally:
        server.http.close()
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
