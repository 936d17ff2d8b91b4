"""The pipeline of a tenant as a process, restarted when it ends.

If another process already works on the state, it is used as the pipeline.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial

import structlog

from nearcast.server.spark.folders import PipelineFolders
from nearcast.spark.driver.claims import is_claimed

log = structlog.get_logger("nearcast")
_GRACE_S = 20.0
_LOOK_S = 0.2
_LONGEST_PAUSE_S = 30.0
_SOUND_S = 60.0
_PARENT_DIED = 1  # PR_SET_PDEATHSIG


def _end_with_parent(nice: int) -> None:
    """Have Linux stop this process when the server dies; elsewhere the next server joins it."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PARENT_DIED, signal.SIGTERM)
    os.nice(nice)


class PipelineProcess:
    """Keeps a pipeline running; `nice` lowers its priority."""

    def __init__(self, folders: PipelineFolders, options: list[str], nice: int = 0) -> None:
        self._folders = folders
        self._command = [
            sys.executable, "-m", "nearcast", "spark", "run",
            "--input", str(folders.events),
            "--output", str(folders.updates),
            "--state", str(folders.state),
            "--quarantine", str(folders.refused),
            "--include", "meta",
            *options,
        ]  # fmt: skip
        self._nice = nice
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folders.state.with_name("pipeline.log")

    async def keep_running(self) -> None:
        """Start the pipeline, and restart it whenever it ends; never returns."""
        pause, loop = 1.0, asyncio.get_running_loop()
        while True:
            if is_claimed(self._folders.state):
                log.info("joined a pipeline that runs already", state=str(self._folders.state))
                while is_claimed(self._folders.state):
                    await asyncio.sleep(1.0)
            began = loop.time()
            self.start()
            reason = await self.ended()
            pause = 1.0 if loop.time() - began > _SOUND_S else min(2 * pause, _LONGEST_PAUSE_S)
            log.warning("pipeline ended", reason=reason, again_in_s=pause)
            await asyncio.sleep(pause)

    def start(self) -> None:
        """Start the pipeline from a thread that lasts (see `_end_with_parent`)."""
        with self._log.open("ab") as errors:
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                preexec_fn=partial(_end_with_parent, self._nice),
            )
        log.info("pipeline started", process=self._process.pid)

    async def ended(self) -> str:
        """Wait until it has ended, and return the last line of its log."""
        while self._process is not None and self._process.poll() is None:
            await asyncio.sleep(_LOOK_S)
        return self._last_line()

    def _last_line(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines()
        return lines[-1] if lines else "its log is empty"

    def stop(self, grace_s: float = _GRACE_S) -> None:
        """Let it finish its step and end; kill it if that takes longer than `grace_s`."""
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
