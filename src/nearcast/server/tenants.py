"""Tenants, separate from each other: each has an engine, listeners and a live map."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import structlog

from nearcast import _kernel_builder
from nearcast.engine import Engine
from nearcast.engine.update_log import Entry
from nearcast.errors import NearcastError, SourceError, StateError
from nearcast.events import Message
from nearcast.kernels.rehearsal import rehearse
from nearcast.server import hub
from nearcast.server.backend import CommittedBatch, EngineThread
from nearcast.server.config import Config
from nearcast.server.keys import DEFAULT
from nearcast.server.live import LiveMap
from nearcast.server.quotas import QuotaRegistry, TenantQuotas
from nearcast.server.standby.files import replace_file
from nearcast.server.webhook_file import EarlierWebhooks
from nearcast.store.webhooks import may_have_webhooks

if TYPE_CHECKING:
    from nearcast.server.spark.progress import PipelineProgress
    from nearcast.server.spark.tenant_pipeline import TenantPipeline

log = structlog.get_logger("nearcast")
_TRY_AGAIN_S = 5.0


class TenantObserver(hub.ListenerObserver, Protocol):
    """Receives the batches and deliveries of all tenants."""

    def check_changes(self, tenant: Tenant) -> None:
        """Raise a problem if a tenant accepts no changes now; called from any thread."""
        ...

    async def opened(self, tenant: Tenant) -> None:
        """Handle a tenant that was opened."""
        ...

    def committed(self, batch: CommittedBatch, tenant: Tenant) -> None:
        """Handle a committed batch."""
        ...

    def delivered(self, updates: int) -> None:
        """Count updates that arrived from a pipeline."""
        ...


class Tenant:
    """A tenant: its engine, the listeners to its updates, and those of its live map."""

    def __init__(
        self,
        name: str,
        engine: Engine,
        config: Config,
        observer: TenantObserver,
        quotas: TenantQuotas,
    ) -> None:
        self.name = name
        self.quotas = quotas
        self.hub = hub.Hub(engine.log, config.limits.queued_bytes, observer)
        self.live = LiveMap(config.limits.live_per_second)
        self.settings = engine.settings
        self.backend = EngineThread(
            engine,
            self,
            config.clock,
            name,
            gate=lambda: observer.check_changes(self),
            confirmed_within_s=config.confirmed_within_s,
            quotas=quotas,
            telemetry=config.telemetry,
            most_bytes=config.waiting_bytes,
        )
        self.figures: dict[str, float] = {}
        self.pipeline: TenantPipeline | None = None
        self.progress: PipelineProgress | None = None
        self._seq = engine.seq
        self._observer = observer

    @property
    def accepted(self) -> int:
        """The sequence number of the last event that was accepted."""
        return self._seq

    @property
    def seq(self) -> int:
        """The sequence number up to which the updates of all events are in the log."""
        return self._seq if self.pipeline is None else self.pipeline.follower.settled

    async def refresh_figures(self) -> None:
        """Read the figures of the engine, for metrics."""
        self.figures = await self.backend.ask(_figures)

    def used(self) -> dict[str, float]:
        """How much of its quotas it uses, as far as that is a level."""
        figures = self.figures
        return {
            "subscriptions": figures.get("subscriptions", 0.0),
            "messages": figures.get("active", 0.0),
            "listeners": float(self.listening),
            "webhooks": figures.get("webhooks", 0.0),
            "bytes": figures.get("stored", 0.0),
        }

    @property
    def listening(self) -> int:
        """How many connections listen to it."""
        return len(self.hub) + len(self.live)

    def committed(self, batch: CommittedBatch) -> None:
        """Pass a batch on to listeners and the observer."""
        self._seq = batch.seq
        if self.progress is not None:
            self.progress.accepted(batch.seq)
        self.hub.committed(batch)
        self.live.committed(batch)
        self._observer.committed(batch, self)

    def delivered(self, entries: list[Entry], messages: dict[str, Message]) -> None:
        """Pass updates of a pipeline on to listeners and the observer."""
        self.hub.delivered(entries)
        self.live.delivered(entries, messages)
        self._observer.delivered(len(entries))

    def stop_streams(self) -> None:
        """End the streams of all listeners."""
        for listener in self.hub.listeners():
            listener.close()
        self.live.close()


def _figures(engine: Engine) -> dict[str, float]:
    stored, webhooks = engine.stored_bytes(), engine.webhooks.count()
    return engine.figures() | {"stored": float(stored), "webhooks": float(webhooks)}


class Tenants:
    """All tenants of a server, opened on first use.

    A tenant that cannot be opened is in `troubles`, and is tried again after a while; the others
    are not affected.
    """

    def __init__(self, config: Config, observer: TenantObserver, quotas: QuotaRegistry) -> None:
        self._config = config
        self._observer = observer
        self._quotas = quotas
        self._earlier = EarlierWebhooks(config.data and config.data / "webhooks.db")
        self._open: dict[str, Tenant] = {}
        self._opening: dict[str, asyncio.Task[Tenant]] = {}
        self._again: dict[str, float] = {}
        self._replaced: set[str] = set()
        self.only_stored = False  # on a standby: its tenants come from the primary
        self.troubles: dict[str, NearcastError] = {}

    def __iter__(self) -> Iterator[Tenant]:
        return iter(list(self._open.values()))

    def find(self, name: str) -> Tenant | None:
        """Return a tenant if it is open."""
        return self._open.get(name)

    async def get(self, name: str) -> Tenant:
        """Return a tenant, and open it if necessary."""
        tenant = self._open.get(name)
        if tenant is not None:
            return tenant
        if name in self._replaced or (self.only_stored and name not in self.stored()):
            raise StateError(f"tenant {name}: is not copied from the primary yet; try again")
        if name in self.troubles and asyncio.get_running_loop().time() < self._again[name]:
            raise self.troubles[name]
        if name not in self._opening:
            self._opening[name] = asyncio.ensure_future(self._make(name))
        return await asyncio.shield(self._opening[name])

    async def _make(self, name: str) -> Tenant:
        try:
            engine = await asyncio.to_thread(self._read, name)
            quotas = self._quotas.of(name)
            tenant = Tenant(name, engine, self._config, self._observer, quotas)
            if self._config.engine == "spark":
                from nearcast.server.spark.tenant_pipeline import start_pipeline

                tenant.pipeline = start_pipeline(tenant, self._config)
            await self._observer.opened(tenant)
            self._open[name] = tenant
            self.troubles.pop(name, None)
        except (NearcastError, OSError) as error:
            trouble = error if isinstance(error, NearcastError) else SourceError(str(error))
            self.troubles[name] = trouble
            self._again[name] = asyncio.get_running_loop().time() + _TRY_AGAIN_S
            log.error("tenant cannot be opened", tenant=name, error=str(error))
            raise trouble from None
        finally:
            del self._opening[name]
        return tenant

    def _read(self, name: str) -> Engine:
        engine = open_engine(self._config, name)
        try:
            if not self.only_stored:
                self._earlier.move(name, engine)
            return engine
        except BaseException:
            engine.close()
            raise

    async def replace(self, name: str, copy: Path, aside: Path | None) -> None:
        """Close a tenant, and put a copy in the place of its file; see `replace_file`."""
        if self._config.data is None:
            raise StateError("a server in memory has no files; start it with --data DIR")
        path = engine_path(self._config.data, name)
        while name in self._opening:
            await asyncio.gather(self._opening[name], return_exceptions=True)
        self._replaced.add(name)
        try:
            tenant = self._open.pop(name, None)
            if tenant is not None:
                tenant.stop_streams()
                await asyncio.to_thread(tenant.backend.close)
            await asyncio.to_thread(replace_file, path, copy, aside)
            self.troubles.pop(name, None)
        finally:
            self._replaced.discard(name)

    def stored(self) -> list[str]:
        """The names of the tenants that have a file."""
        data = self._config.data
        if data is None:
            return []
        return sorted(path.stem for path in engine_path(data, DEFAULT).parent.glob("*.nearcast"))

    def with_webhooks(self) -> list[str]:
        """The names of the tenants with webhooks, and of those whose files cannot be read."""
        data = self._config.data
        if data is None:
            return []
        stored = [name for name in self.stored() if may_have_webhooks(engine_path(data, name))]
        return sorted({*stored, *self._earlier.tenants()})

    async def close(self) -> None:
        """Close all tenants."""
        for tenant in self._open.values():
            tenant.stop_streams()
            if tenant.pipeline is not None:
                await tenant.pipeline.stop()
            await asyncio.to_thread(tenant.backend.close)


def engine_path(data: Path, name: str) -> Path:
    """The path of a tenant's engine file."""
    return data / "tenants" / f"{name}.nearcast"


def open_engine(config: Config, name: str) -> Engine:
    """Open the engine of a tenant and prepare it for its first message."""
    path = None
    if config.data is not None:
        path = engine_path(config.data, name)
        config.data.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.mkdir(exist_ok=True)
        with suppress(PermissionError):  # of another user
            path.parent.chmod(0o700)
    given = config.given
    options: dict[str, Any] = {
        "path": path,
        "window_count": given.window_count,
        "window_seconds": given.window_seconds,
        "space": given.space,
        "history": given.history,
        "analyser": given.analyser,
        "retain_seconds": config.retain_seconds,
        "retain_updates": config.retain_updates,
        "clock": config.clock,
    }
    if config.engine == "spark":
        from nearcast.server.spark.tenant_pipeline import open_pipeline_engine

        return open_pipeline_engine(config, name, options)
    if config.index == "auto":
        _kernel_builder.prepared(
            "engine"
        )  # if kernels are missing, they are built in the background
    elif config.index != "scan":
        rehearse(config.index)
    return Engine(index=config.index, **options)
