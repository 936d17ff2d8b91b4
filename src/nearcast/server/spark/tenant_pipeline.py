"""The connection of a tenant to its pipeline: events go out, updates come back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import structlog

from nearcast.engine.settings import Settings
from nearcast.engine.update_log import Entry
from nearcast.events import Message
from nearcast.geo import WORLD
from nearcast.server.config import Config
from nearcast.server.spark.engine import PipelineEngine, Row
from nearcast.server.spark.event_files import EventFiles
from nearcast.server.spark.folders import PipelineFolders
from nearcast.server.spark.follower import OutputFollower
from nearcast.server.spark.pipeline import PipelineProcess
from nearcast.server.spark.progress import PipelineProgress

log = structlog.get_logger("nearcast")
_PAUSE_S = 1.0
Delivered = tuple[list[Entry], dict[str, Message]]
Ask = Callable[[Callable[[PipelineEngine], Delivered]], Awaitable[Delivered]]

if TYPE_CHECKING:
    from nearcast.server.tenants import Tenant


class TenantPipeline:
    """The background tasks of a tenant: its pipeline, and the follower of its output."""

    def __init__(self, pipeline: PipelineProcess, follower: OutputFollower) -> None:
        self._pipeline = pipeline
        self.follower = follower
        self._tasks = [
            asyncio.ensure_future(persistently(pipeline.keep_running)),
            asyncio.ensure_future(persistently(follower.follow)),
        ]

    async def stop(self) -> None:
        """Stop the pipeline; updates that it commits meanwhile are read by the next run."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                await task
        await asyncio.to_thread(self._pipeline.stop)


async def persistently(work: Callable[[], Awaitable[None]]) -> None:
    """Run a task forever, and restart it after a failure such as a full disk."""
    while True:
        try:
            await work()
        except Exception as error:
            log.error("pipeline is not followed", reason=str(error), again_in_s=_PAUSE_S)
        await asyncio.sleep(_PAUSE_S)


def folders_of(config: Config, name: str) -> PipelineFolders:
    """The folders that a tenant shares with its pipeline."""
    assert config.data is not None  # noqa: S101 - `serve` asks for it
    return PipelineFolders.below(config.data / "spark" / name)


def open_pipeline_engine(config: Config, name: str, options: dict[str, Any]) -> PipelineEngine:
    """Open the engine of a tenant whose events go to a pipeline."""
    return PipelineEngine(EventFiles(folders_of(config, name).events), **options)


def start_pipeline(tenant: Tenant, config: Config) -> TenantPipeline:
    """Start or join the pipeline of a tenant, and follow it."""
    folders = folders_of(config, tenant.name)
    pipeline = PipelineProcess(folders, pipeline_options(config, tenant.settings, folders))
    ask = cast("Ask", tenant.backend.ask)

    async def take(rows: list[Row], settled: int) -> None:
        """Add updates to the log, and pass them to listeners."""
        entries, messages = await ask(lambda engine: engine.deliver(rows, settled))
        if entries:
            tenant.delivered(entries, messages)

    follower = OutputFollower(folders, take)
    tenant.progress = PipelineProgress(folders, tenant.accepted, lambda: follower.settled)
    return TenantPipeline(pipeline, follower)


def pipeline_options(config: Config, settings: Settings, folders: PipelineFolders) -> list[str]:
    """The command-line options that give the pipeline the settings of the engine."""
    given: list[str] = ["--partitioner", config.partitioner]
    if config.workers is not None:
        given += ["--workers", str(config.workers)]
    if config.master is not None:
        given += ["--master", config.master]
    window, space, analyser = settings.window, settings.space, settings.analyser
    if window.seconds is not None:
        given += ["--window-seconds", repr(window.seconds)]
    elif window.count is not None:
        given += ["--window-count", str(window.count)]
    if space != WORLD:
        given.append(f"--space={space.west!r},{space.south!r},{space.east!r},{space.north!r}")
    if settings.history is not None:
        history = folders.state.with_name("history.parquet")
        settings.history.save(history)
        given += ["--history", str(history)]
    if analyser.stemmer is not None:
        given += ["--stem", analyser.stemmer]
    if analyser.cjk:
        given.append("--cjk")
    if analyser.stop_words:
        words = folders.state.with_name("stop-words.txt")
        words.write_text("".join(f"{word}\n" for word in sorted(analyser.stop_words)))
        given += ["--stop-words", str(words)]
    return given
