"""What all requests share: the configuration, the door, the tenants."""

from __future__ import annotations

import asyncio

from starlette.requests import HTTPConnection

from nearcast.server.access import Caller, Door, check_origin
from nearcast.server.config import Config
from nearcast.server.keys import Keys
from nearcast.server.problems import Problem
from nearcast.server.tenants import DEFAULT, Tenant, Tenants


class Front:
    """The parts of a running server."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.keys = None if config.data is None else Keys(config.data / "keys.db")
        self.door = Door(self.keys, is_open=config.open, limits=config.limits)
        self.tenants = Tenants(config, self._measured)
        self.ready = False
        self.stopping = False
        self.trouble: str | None = None

    def _measured(self, events: int, seconds: float) -> None:
        pass

    def admit(self, connection: HTTPConnection, scope: str) -> Caller:
        """Let a request in, or raise a problem."""
        check_origin(connection, self.config.hosts, is_open=self.config.open)
        return self.door.admit(connection, scope)

    async def tenant(self, name: str) -> Tenant:
        """A tenant, once the server is ready."""
        if not self.ready:
            raise self.not_ready()
        return await self.tenants.get(name)

    def not_ready(self) -> Problem:
        """Say that it takes a moment longer, or what is in the way."""
        detail = self.trouble or "the server is still starting; try again in a moment"
        return Problem(503, "not-ready", detail, headers={"Retry-After": "1"})

    async def open(self) -> None:
        """Open what everybody needs."""
        await self.tenants.get(DEFAULT)
        self.ready = True
        while True:
            await asyncio.sleep(self.config.keep_alive_s / 3)
            for tenant in self.tenants:
                tenant.hub.tick()

    def stop_streams(self) -> None:
        """End all streams, so that their connections can be closed."""
        self.stopping = True
        for tenant in self.tenants:
            tenant.stop_streams()

    async def close(self) -> None:
        """Let go of everything."""
        self.ready = False
        await self.tenants.close()
        if self.keys is not None:
            self.keys.close()

    def listeners(self) -> int:
        """How many listen, in all tenants."""
        return sum(len(tenant.hub) for tenant in self.tenants)
