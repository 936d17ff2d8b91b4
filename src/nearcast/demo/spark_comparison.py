"""Runs the pipeline on Spark on the events of the demo's server, and compares the updates."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from nearcast.demo.comparison import Comparison
from nearcast.errors import NearcastError, SetupError
from nearcast.events import Event
from nearcast.server.backend import CommittedBatch
from nearcast.server.bodies import json_response
from nearcast.server.keys import DEFAULT
from nearcast.server.spark.engine import Row
from nearcast.server.spark.event_files import EventFiles
from nearcast.server.spark.folders import PipelineFolders
from nearcast.server.spark.follower import OutputFollower
from nearcast.server.spark.pipeline import PipelineProcess
from nearcast.server.spark.progress import LEVEL_S, PipelineProgress
from nearcast.server.spark.tenant_pipeline import pipeline_options
from nearcast.server.state import ServerState

PATH = "/v1/demo/beside"
"""The path that the page polls for the status of the pipeline."""

_NICE = 5  # the map comes first
_LOOK_S = 0.2
_BEHIND_S = 10.0  # one behind by more has fallen behind again
_KEPT = 20_000  # settled events whose files are kept, in case a step is repeated
_FORGET_S = 10.0
_GRACE_S = 5.0  # the output of an interrupted step is not needed


class SparkComparison:
    """Passes every accepted event to a pipeline on Spark, and compares its updates.

    `install` is a command that installs Spark, or None if that is done; it runs in the
    background. A failure here ends the comparison only.
    """

    def __init__(
        self,
        folder: Path,
        install: str | None,
        say: Callable[[str], None],
        since: float,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self.state = "installing" if install else "starting"
        self.comparison = Comparison()
        self._install = install
        self._say = say
        self._folder = folder
        self._folders = PipelineFolders.below(folder)
        self._files = EventFiles(self._folders.events)
        self._follower = OutputFollower(self._folders, self._take)
        self._pipeline: PipelineProcess | None = None
        self._installing: subprocess.Popen[bytes] | None = None
        self._trouble = ""
        self._since = since
        self._clock = clock
        self._seq = self._settled = 0
        self._sent: deque[tuple[int, float]] = deque()  # not settled: last of a batch, and when
        self._to_write: asyncio.Queue[tuple[int, list[Event]]] = asyncio.Queue()
        self._tasks: list[asyncio.Future[None]] = []

    def watch(self, app: Starlette, state: ServerState) -> None:
        """Register for the batches of a server before it starts, and add the status route."""

        async def status(request: Request) -> Response:
            state.admit(request, "subscribe")
            return json_response(self.as_json())

        app.router.add_route(PATH, status, methods=["GET"])
        state.on_committed = self.committed
        state.on_ready = lambda: self._start(state)

    def as_json(self) -> dict[str, Any]:
        """The progress of the pipeline and the counts of the comparison."""
        return {
            "state": self.state,
            "seconds": round(self._seconds(), 1),
            "behind_events": self._seq - self._settled,
            "behind_s": round(self._behind_s(), 1),
            "same": self.comparison.same,
            "differ": self.comparison.differ,
            "difference": self.comparison.first_difference,
            "trouble": self._trouble,
        }

    def in_words(self) -> str:
        """The counts of the comparison as text."""
        return (
            f"{self.comparison.same:,} updates from both engines, {self.comparison.differ:,} differ"
        )

    def committed(self, batch: CommittedBatch) -> None:
        """Queue the accepted events of a batch for the pipeline, and note their updates."""
        accepted = [
            (event, outcome, outcome.seq)
            for event, outcome in zip(batch.events, batch.outcomes, strict=True)
            if outcome.seq is not None
        ]
        if not accepted or self._trouble:
            return
        self._to_write.put_nowait((accepted[0][2], [event for event, _, _ in accepted]))
        for _, outcome, seq in accepted:
            for update in outcome.updates:
                change = update.op, update.subscription, update.message, update.score
                self.comparison.ours(seq, change)
        self._seq = accepted[-1][2]
        self._sent.append((self._seq, self._clock()))

    def _start(self, state: ServerState) -> None:
        tenant = state.tenants.find(DEFAULT)
        if tenant is not None:
            tenant.progress = PipelineProgress(
                self._folders, tenant.accepted, lambda: self._settled, self._clock
            )
        works = (self._write(), self._run(state), self._follower.follow(), self._compare())
        self._tasks = [asyncio.ensure_future(self._guarded(work)) for work in works]

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except (NearcastError, OSError) as error:
            self._give_up(str(error))

    async def _write(self) -> None:
        while True:
            await self.write_one()

    async def write_one(self) -> None:
        """Write the events of one batch; one at a time, so that files appear in order."""
        first, events = await self._to_write.get()
        await asyncio.to_thread(self._files.write, first, events)

    async def _run(self, state: ServerState) -> None:
        if self._install:
            await self._installed(self._install)
        self.state = "starting"
        tenant = await state.tenants.get(DEFAULT)
        options = pipeline_options(state.config, tenant.settings, self._folders)
        self._pipeline = PipelineProcess(self._folders, options, _NICE)
        self._pipeline.start()
        raise SetupError(f"the pipeline has ended: {await self._pipeline.ended()}")

    async def _installed(self, command: str) -> None:
        """Run the command that installs Spark, in a process group that ends with the demo."""
        log = self._folder / "install.log"
        with log.open("wb") as output:
            self._installing = subprocess.Popen(  # noqa: S603 - an argument of the command line
                shlex.split(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while self._installing.poll() is None:
            await asyncio.sleep(_LOOK_S)
        if self._installing.returncode:
            lines = log.read_text(errors="replace").splitlines() or ["it said nothing"]
            raise SetupError(f"Spark was not installed: {lines[-1]}")
        self._say(f"Spark is installed after {self._seconds():.1f} s.")

    async def _compare(self) -> None:
        """Compare settled events again and again, and remove old event files."""
        forgotten = self._clock()
        while True:
            await asyncio.sleep(_LOOK_S)
            self.settle(self._follower.settled)
            if self._clock() - forgotten > _FORGET_S:
                forgotten = self._clock()
                await asyncio.to_thread(self._files.forget, self._follower.settled - _KEPT)

    async def _take(self, rows: list[Row], settled: int) -> None:
        del settled  # by the steps before
        self.take(rows)

    def take(self, rows: list[Row]) -> None:
        """Take the updates of a step of the pipeline; they are compared when it is settled."""
        for event, op, subscription, message, score, _ in rows:
            self.comparison.theirs(event + 1, (op, subscription, message, score))

    def settle(self, seq: int) -> None:
        """Compare the updates of all events up to `seq`; the pipeline is done with them."""
        if self._trouble or not seq:
            return
        differed = self.comparison.differ
        self.comparison.settle(seq)
        self._settled = seq
        while self._sent and self._sent[0][0] <= seq:
            self._sent.popleft()
        if self.comparison.differ and not differed:
            self._say(f"The engines differ at {self.comparison.first_difference}.")
        behind = self._behind_s() > (_BEHIND_S if self.state == "level" else LEVEL_S)
        if not behind and self.state != "level":
            self._say(f"Spark has caught up after {self._seconds():.1f} s: {self.in_words()}.")
        self.state = "behind" if behind else "level"

    def _seconds(self) -> float:
        """Seconds since the demo was started."""
        return self._clock() - self._since

    def _behind_s(self) -> float:
        """The age of the oldest event that the pipeline is not done with, in seconds."""
        return self._clock() - self._sent[0][1] if self._sent else 0.0

    def _give_up(self, reason: str) -> None:
        """Print the reason, and cancel the tasks."""
        if self._trouble:
            return
        self.state, self._trouble = "failed", reason
        self._say(f"Nothing is compared any more: {reason}.")
        self._sent.clear()
        for task in self._tasks:
            task.cancel()

    def end(self) -> None:
        """Stop the installation and the pipeline."""
        if self._installing is not None and self._installing.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._installing.pid, signal.SIGTERM)
            self._installing.wait()
        if self._pipeline is not None:
            self._pipeline.stop(_GRACE_S)
