"""The state that all requests share: configuration, authentication, tenants, webhooks."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cached_property
from itertools import count
from time import monotonic

import structlog
from starlette.requests import HTTPConnection

from nearcast.errors import DamagedStoreError, NearcastError, StateError
from nearcast.server.access import Authenticator, Caller, check_origin
from nearcast.server.archive.writer import ArchiveWriter
from nearcast.server.audit import AuditLog
from nearcast.server.backend import CommittedBatch
from nearcast.server.config import Config
from nearcast.server.keys import DEFAULT, KeyStore
from nearcast.server.metrics import ServerMetrics
from nearcast.server.problems import Problem
from nearcast.server.protocol import ConnectionLimits
from nearcast.server.quotas import QuotaRegistry
from nearcast.server.standby.pair import ServerPair
from nearcast.server.standby.role import ServerRole
from nearcast.server.tenants import Tenant, Tenants
from nearcast.server.webhook_delivery import WebhookDispatcher
from nearcast.store.copies import accept_copy

log = structlog.get_logger("nearcast")
_TURNS = 64  # listeners are woken in this many turns, not all at once
_MEASURE_S = 10.0  # how often figures are read for metrics that are not scraped
_REVOKE_S = 1.0  # how often the keys of open streams are looked up again


class ServerState:
    """The parts of a running server."""

    def __init__(self, config: Config) -> None:
        self.config = config
        if config.data is not None:
            accept_copy(config.data)
        self.role = ServerRole(config.data)
        self.keys = None if config.data is None else KeyStore(config.data / "keys.db")
        self.quotas = QuotaRegistry(config.quotas, monotonic)
        self.authenticator = Authenticator(
            self.keys, is_open=config.open, limits=config.limits, quotas=self.quotas
        )
        self.tenants = Tenants(config, self, self.quotas)
        self.dispatcher = WebhookDispatcher(config)
        self.connections = ConnectionLimits(config)
        self.archive = ArchiveWriter(self)
        self.audit = AuditLog(config.data)
        self.metrics = ServerMetrics(self)
        self.parser = ThreadPoolExecutor(1, thread_name_prefix="parser")
        self.ready = False
        self.stopping = False
        self.trouble: str | None = None
        self.on_committed: Callable[[CommittedBatch], None] = lambda _: None
        self.on_ready: Callable[[], None] = lambda: None
        self.on_failure: Callable[[], None] = lambda: None

    def lagged(self, seconds: float) -> None:
        """Record the time from the commit of an update to its delivery."""
        self.metrics.lag.observe(seconds)

    def overflowed(self) -> None:
        """Count a listener that did not keep up."""
        self.metrics.overflows.inc()

    @cached_property
    def pair(self) -> ServerPair:
        """What keeps this server in its role; made in the event loop."""
        return ServerPair(self)

    def check_changes(self, tenant: Tenant) -> None:
        """Raise a problem if a tenant accepts no changes: not the primary, or no standby."""
        self.role.check_changes()
        commits = tenant.backend.commits
        if self.stopping and commits.connected.is_set():
            raise self.not_ready()  # the standby gets everything before the end
        if commits.holds and not commits.connected.is_set():
            raise Problem(
                503,
                "no-standby",
                "no standby is connected to confirm this, so nothing was changed; try again",
                headers={"Retry-After": "1"},
            )

    async def wait_for_standby(self, tenant: Tenant) -> None:
        """Give a standby that has to confirm changes a moment to connect."""
        commits, within_s = tenant.backend.commits, self.config.confirmed_within_s
        if within_s is not None and self.role.is_primary:
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await commits.connected.wait()
        self.check_changes(tenant)

    async def opened(self, tenant: Tenant) -> None:
        """Let a tenant begin its work, if this server is the primary."""
        if self.role.is_primary:
            await self.pair.activate(tenant)

    def committed(self, batch: CommittedBatch, tenant: Tenant) -> None:
        """Count a batch, and end deliveries for subscriptions that it ended."""
        self.metrics.committed(batch)
        self.on_committed(batch)
        for subscription in batch.unhooked:
            self.dispatcher.end(tenant, subscription)

    def may_be_behind(self) -> bool:
        """Whether the logs may be copies that do not have yet what was heard elsewhere."""
        return not (self.role.is_primary and self.role.is_checked)

    def delivered(self, updates: int) -> None:
        """Count updates that came from a pipeline."""
        self.metrics.updates.inc(updates)

    def admit(self, connection: HTTPConnection, scope: str) -> Caller:
        """Return the caller of a request, or raise a problem."""
        config = self.config
        check_origin(connection, config.hosts, config.origins, is_open=config.open)
        return self.authenticator.admit(connection, scope)

    async def tenant(self, name: str) -> Tenant:
        """A tenant by name; raises a problem while the server is not ready."""
        if not self.ready:
            raise self.not_ready()
        try:
            return await self.tenants.get(name)
        except NearcastError as error:
            reason = "the data of this tenant cannot be opened; the log of the server says why"
            raise Problem(
                503,
                "tenant-unavailable",
                str(error) if isinstance(error, StateError) else reason,
                headers={"Retry-After": "5"},
            ) from None

    async def check_writable(self) -> None:
        """Raise a problem if a tenant cannot commit: the disk may be full.

        The default tenant stands for those that were not used: they are on the same disk.
        """
        if not (self.role.is_primary and self.role.is_checked):
            return  # nothing may be committed but what the primary has
        for tenant in self.tenants:
            if tenant.name != DEFAULT and not tenant.backend.failed:
                continue
            try:
                await tenant.backend.check_writable()
            except (NearcastError, TimeoutError) as error:
                detail = str(error) or "nothing was committed for some seconds; the disk may hang"
                raise Problem(503, "not-ready", detail, headers={"Retry-After": "5"}) from None

    def not_ready(self) -> Problem:
        """The problem of a server that is still starting, or that failed to start."""
        does = "stopping" if self.stopping else "still starting: it reads its data"
        detail = self.trouble or f"the server is {does}; try again in a moment"
        return Problem(503, "not-ready", detail, headers={"Retry-After": "1"})

    async def open(self) -> None:
        """Open the default tenant and the webhooks, then look after streams until cancelled."""
        try:
            await self._open_tenants()
        except NearcastError as error:
            self.fail(str(error))
            return
        if self.role.is_standby and not self.tenants.stored() and self.pair.follower is not None:
            await self.pair.follower.synchronised.wait()
        self.ready = True
        log.info("ready")
        self.on_ready()
        self.config.telemetry.observe(self.metrics.registry)
        checked = measured = monotonic()
        for turn in count():
            await asyncio.sleep(self.config.keep_alive_s / 3 / _TURNS)
            for tenant in self.tenants:
                tenant.hub.tick(turn, _TURNS)
            if monotonic() - checked >= _REVOKE_S:
                self.authenticator.end_revoked()
                checked = monotonic()
            if self.config.telemetry.has_metrics and monotonic() - measured >= _MEASURE_S:
                await self.refresh_figures()
                measured = monotonic()

    async def refresh_figures(self) -> None:
        """Read the figures of all tenants, for metrics."""
        for tenant in self.tenants:
            with suppress(NearcastError):  # it is closed, or cannot be read now
                await tenant.refresh_figures()

    def fail(self, reason: str) -> None:
        """Stop the server: it cannot work."""
        self.trouble = reason
        self.on_failure()

    async def _open_tenants(self) -> None:
        """Open the default tenant, and those with webhooks, or all if there is an archive.

        A damaged one does not stop others.
        """
        if self.config.data is not None:
            shutil.rmtree(self.config.data / "outgoing", ignore_errors=True)
        self.pair.open()
        if self.role.is_standby:
            for name in self.tenants.stored():
                with suppress(NearcastError):  # it is logged, and copied again
                    await self.tenants.get(name)
            return
        try:
            await self.tenants.get(DEFAULT)
        except DamagedStoreError:
            if self.tenants.stored() == [DEFAULT]:
                raise
        named = self.tenants.stored if self.archive.is_on else self.tenants.with_webhooks
        for name in await asyncio.to_thread(named):
            with suppress(NearcastError):  # it is logged, and answered with 503
                await self.tenants.get(name)

    def stop_streams(self) -> None:
        """End all streams, so that their connections can be closed."""
        self.stopping = True
        for tenant in self.tenants:
            tenant.stop_streams()

    async def close(self) -> None:
        """Close webhooks, tenants and files."""
        self.ready = False
        self.parser.shutdown(wait=False)
        await self.pair.close()
        await self.dispatcher.close()
        await self.archive.close()
        await self.tenants.close()
        if self.keys is not None:
            self.keys.close()
        await asyncio.to_thread(self.config.telemetry.close)

    def check_room(self, tenant: Tenant) -> None:
        """Refuse a listener above a limit or a quota, or while the server is stopping."""
        if self.stopping:
            raise self.not_ready()
        if self.listeners() >= self.config.limits.listeners:
            raise Problem(
                503, "too-many-listeners", "no more can listen now", headers={"Retry-After": "5"}
            )
        tenant.quotas.check("listeners", tenant.listening)

    def listeners(self) -> int:
        """The number of listeners of all tenants."""
        return sum(tenant.listening for tenant in self.tenants)
