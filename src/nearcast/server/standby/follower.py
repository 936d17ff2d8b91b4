"""The standby's side: follows every tenant of the primary, and copies those it cannot follow."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec
import structlog
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from nearcast.errors import NearcastError, StateError, StoreError
from nearcast.server.keys import DEFAULT
from nearcast.server.standby.peers import PeerError, PeerServer
from nearcast.server.standby.records import ReplicaError, decode_commits
from nearcast.server.tenants import engine_path
from nearcast.store.connect import to_disk
from nearcast.store.lineage import HistoryEnd

if TYPE_CHECKING:
    from nearcast.server.state import ServerState
    from nearcast.server.tenants import Tenant

log = structlog.get_logger("nearcast.standby")
_PAUSES_S = (0.1, 0.2, 0.5, 1.0, 2.0)
_TROUBLE = (PeerError, WebSocketException, OSError, TimeoutError, EOFError)


class DivergedError(NearcastError):
    """The standby has commits that the primary does not have."""


class Place:
    """How far a tenant of the standby has come, and how far the primary is."""

    def __init__(self) -> None:
        self.own = self.primary = 0
        self.connected = False
        self.even = monotonic()  # when it was last known to have everything

    def note(self, *, own: int | None = None, primary: int | None = None) -> None:
        """Note how far one of both has come."""
        self.own = self.own if own is None else own
        self.primary = max(self.primary, self.own, primary or 0)
        if self.connected and self.own >= self.primary:
            self.even = monotonic()

    def lag(self) -> tuple[int, float]:
        """Commits that are missing here, and the seconds since none was known to be missing."""
        if self.connected and self.own >= self.primary:
            return 0, 0.0
        return self.primary - self.own, monotonic() - self.even


class Follower:
    """Follows a primary until it is stopped."""

    def __init__(self, state: ServerState, peer: PeerServer) -> None:
        self._state = state
        self.peer = peer
        self.places: dict[str, Place] = {}
        self.connected = False
        self.synchronised = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._main = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        """Stop; what was received is applied."""
        tasks = [self._main, *self._tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.peer.close()

    def lag(self) -> tuple[int, float]:
        """The lag of the tenant that is furthest behind, in commits and in seconds."""
        lags = [place.lag() for place in self.places.values()]
        return max((commits for commits, _ in lags), default=0), max(
            (seconds for _, seconds in lags), default=0.0
        )

    async def reach(self, positions: dict[str, int], within_s: float) -> bool:
        """Wait until all tenants are as far as given, and return whether they are."""

        def there() -> bool:
            # A tenant that was never copied has no numbers: its position is 0.
            places = self.places
            return all(
                name in places and places[name].own >= max(position, 1)
                for name, position in positions.items()
            )

        until = monotonic() + within_s
        while not there() and monotonic() < until:
            await asyncio.sleep(0.02)
        return there()

    async def _run(self) -> None:
        """Ask the primary what there is, again and again."""
        role = self._state.role
        failures, reason = 0, ""
        while True:
            try:
                record = role.record
                status = await self.peer.status(
                    follower=record.id, term=record.term, url=self._state.config.advertise or ""
                )
                self._take_over(status)
                if failures or not self.connected:
                    log.info("follows", primary=self.peer.url, term=role.record.term)
                self.connected, failures, reason = True, 0, ""
            except (*_TROUBLE, NearcastError) as error:
                self.connected = False
                failures += 1
                if str(error) != reason:
                    reason = str(error)
                    log.warning("cannot follow", primary=self.peer.url, reason=reason)
            except Exception:
                self.connected = False
                failures += 1
                log.exception("cannot follow", primary=self.peer.url)
            await asyncio.sleep(self._state.config.poll_s if self.connected else _pause(failures))

    def _take_over(self, status: dict[str, Any]) -> None:
        """Adopt the term of the primary, and follow its tenants."""
        role = self._state.role
        if status["role"] == "standby":
            raise PeerError("it is a standby itself; follow its primary")
        if status["term"] < role.record.term:
            raise PeerError(
                f"its term is {status['term']}, and this standby knows of term {role.record.term}: "
                "another server was promoted"
            )
        if status["term"] > role.record.term:
            role.assume(term=status["term"])
        if self.synchronised.is_set():
            role.keep()  # this server follows, and must not be a primary by itself
        for name, position in status["tenants"].items():
            place = self.places.setdefault(name, Place())
            if position is not None:
                place.note(primary=position)
            if name not in self._tasks:
                self._tasks[name] = asyncio.ensure_future(self._follow(name, place))
        if DEFAULT in self.places and self.places[DEFAULT].connected:
            self.synchronised.set()

    async def _follow(self, name: str, place: Place) -> None:
        """Follow one tenant; connect again after each break."""
        failures = 0
        while True:
            began = monotonic()
            try:
                await self._connect(name, place)
            except DivergedError as error:
                self._state.fail(str(error))
                return
            except ReplicaError as error:
                log.error("is copied again", tenant=name, reason=str(error))
                with suppress(*_TROUBLE, NearcastError):
                    await self._copy(name, aside=None)
            except (*_TROUBLE, NearcastError) as error:
                log.info("connection to the primary ended", tenant=name, reason=str(error))
            except Exception:
                log.exception("cannot follow", tenant=name)
            finally:
                place.connected = False
            failures = 1 if monotonic() - began > 5.0 else failures + 1
            await asyncio.sleep(_pause(failures))

    async def _connect(self, name: str, place: Place) -> None:
        tenants, url = self._state.tenants, self.peer.url
        tenant: Tenant | None = None
        hello: dict[str, Any] = {"position": 0, "mark": "", "terms": [], "seq": 0, "last": 0}
        if name in tenants.stored():
            tenant = await tenants.get(name)
            hello = await tenant.backend.ask(describe_history)
        address = f"ws{url.removeprefix('http')}/v1/replication/ws?tenant={quote(name)}"
        async with connect(
            address,
            additional_headers=self.peer.headers,
            ssl=self.peer.tls,
            compression=None,
            max_size=None,
            open_timeout=10.0,
            ping_interval=2.0,
            ping_timeout=10.0,
            proxy=None,
        ) as socket:
            await socket.send(msgspec.json.encode(hello | {"follower": self._state.role.record.id}))
            answer = msgspec.json.decode(await socket.recv())
            if answer["do"] == "follow" and tenant is not None:
                self._state.role.keep()
                place.connected = True
                tenant.backend.commits.follow(hello["position"])
                place.note(own=hello["position"], primary=answer["position"])
                await self._receive(socket, tenant, place)
                return
        if answer["do"] == "diverged":
            end = HistoryEnd(hello["position"], hello["seq"], hello["last"])
            words = _lost(name, self.peer.url, end, HistoryEnd(*answer["fork"]))
            if not self._state.config.resync:
                raise DivergedError(words)
            log.warning("is copied again", tenant=name, reason=words)
            await self._copy(name, aside=f"{name}-{end.position}.nearcast")
        else:
            await self._copy(name, aside=None)

    async def _receive(self, socket: ClientConnection, tenant: Tenant, place: Place) -> None:
        """Take commits, and confirm them when they are on the disk."""
        while True:
            data = await socket.recv()
            if isinstance(data, str):
                raise PeerError(data)
            records = decode_commits(data)
            place.note(primary=records[-1].position)
            await asyncio.shield(tenant.backend.repeat(records))
            place.note(own=records[-1].position)
            await socket.send(str(place.own))

    async def _copy(self, name: str, aside: str | None) -> None:
        """Replace the file of a tenant by a copy of the primary's."""
        data = self._state.config.data
        if data is None:
            raise StateError("a standby keeps its data in a folder; start it with --data DIR")
        path = engine_path(data, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy = path.with_name(f"{path.name}.copy")
        try:
            await self.peer.copy(name, copy)
            to_disk(copy)
            self._state.role.keep()
            kept = None if aside is None else data / "discarded" / aside
            await _to_its_end(self._state.tenants.replace(name, copy, kept))
        except OSError as error:
            raise StoreError(f"{path}: cannot be copied ({error.strerror}); make room") from None
        finally:
            copy.unlink(missing_ok=True)
        log.info("copied", tenant=name)


def describe_history(engine: Any) -> dict[str, Any]:
    """The commits of an engine's file, as a standby describes them to its primary."""
    lineage = engine.lineage
    return {
        "position": lineage.position,
        "mark": lineage.mark,
        "terms": [list(term) for term in lineage.terms],
        "seq": engine.seq,
        "last": engine.log.last,
    }


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Wait for something that must not be left half done, as its threads go on without it."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise


def _lost(name: str, url: str, own: HistoryEnd, fork: HistoryEnd) -> str:
    if not fork.position:
        return (
            f"tenant {name}: this folder holds other data than {url}, which it should follow; "
            "start with an empty folder, or with --resync to set this data aside"
        )
    ids = f", ids {fork.last + 1} to {own.last}" if own.last > fork.last else ""
    updates = f"{own.last - fork.last} updates{ids}"
    return (
        f"tenant {name}: this folder has commits {fork.position + 1} to {own.position} "
        f"({own.seq - fork.seq} events, {updates}) that {url} does not have: they are lost unless "
        "you send them again. Start with an empty folder, or with --resync to set this data aside"
    )


def _pause(failures: int) -> float:
    return _PAUSES_S[min(max(failures, 1), len(_PAUSES_S)) - 1]
