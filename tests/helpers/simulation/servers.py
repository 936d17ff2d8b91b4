"""Simulated processes: the real server on a simulated disk and network, which may end any time."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import httpx

from nearcast.engine import Engine
from nearcast.server import backend, tenants, webhook_delivery
from nearcast.server.access import Authenticator
from nearcast.server.app import create_app
from nearcast.server.config import Config, Limits
from nearcast.server.jobs import JobQueue
from nearcast.server.standby import files, follower, peers
from nearcast.server.state import ServerState
from nearcast.store.store import Store
from nearcast.store.wal import WriteAheadLog
from simulation import disk
from simulation.loops import ProcessEnd, ProcessLoop, SimulatedThread, current_loop, current_thread
from simulation.model import History, StoreModel
from simulation.network import PeerSocket, PeerTransport

if TYPE_CHECKING:
    from simulation.world import World

EPOCH = 1_700_000_000.0


class SimulatedServer:
    """A server through all its lives: its disk stays, everything else ends with a crash."""

    def __init__(self, world: World, name: str, folder: Path) -> None:
        self.world = world
        self.name = name
        self.url = f"http://{name}"
        self._folder = folder
        self._life = 0
        self.skew = world.random.uniform(-1.0, 1.0)
        self.disk = disk.SimulatedDisk(folder / "0", world.random)
        self.loop = ProcessLoop(name, world.scheduler)
        self.loop.alive = False
        self.app: Any = None
        self.state: ServerState | None = None
        self.models: dict[str, StoreModel] = {}
        self.stores: list[Store] = []
        self.failed = False
        self.follows: str | None = None
        self._keys: list[Any] = []

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self.loop.alive

    def model(self, tenant: str) -> StoreModel:
        """What a tenant's file here must have."""
        if tenant not in self.models:
            self.models[tenant] = StoreModel()
        return self.models[tenant]

    def start(self, follow: str | None) -> None:
        """Begin a life."""
        world = self.world
        self.loop = ProcessLoop(self.name, world.scheduler)
        vars(self.loop)["user"] = self
        self.failed, self.follows = False, follow
        config = Config(
            data=self.disk.folder,
            open=False,
            index="scan",
            follow=follow,
            follow_key=world.tokens["default"],
            advertise=self.url,
            resync=True,
            confirmed_within_s=2.0 if world.replicated else None,
            private_webhooks=True,
            webhook_attempts=4,
            webhook_pause_s=0.2,
            stalled_s=5.0,
            keep_alive_s=3.0,
            limits=Limits(queued_bytes=world.queued_bytes),
            clock=lambda: EPOCH + world.scheduler.now + self.skew,
        )
        self.loop.keep(self._serve(config))

    async def _serve(self, config: Config) -> None:
        app = create_app(config)
        state: ServerState = app.state.server_state
        self._keys.append(state.keys)
        state.on_failure = self._fail
        async with app.router.lifespan_context(app):
            self.app, self.state = app, state
            await asyncio.Event().wait()

    def _fail(self) -> None:
        self.failed = True

    def crash(self) -> None:
        """End here and now: what the disk has is kept, all else is gone."""
        if not self.alive:
            return
        self.world.note("crash", self.name)
        self.loop.alive = False
        self._life += 1
        image = self._folder / str(self._life)
        self.disk.image(image)
        self.disk = disk.SimulatedDisk(image, self.world.random)
        self.app = self.state = None
        self.world.network.drop(self.name)
        running = current_loop()
        if running is self.loop:
            raise ProcessEnd
        self.loop.end()

    def close(self) -> None:
        """End, and close the files of all lives."""
        self.loop.end()
        for store in self.stores:
            with suppress(Exception):
                store._reader.close()
            with suppress(Exception):
                store._connection.close()
            with suppress(Exception):
                store._wal.close()
            store._lock.release()
        for keys in self._keys:
            if keys is not None:
                keys.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class _Queue(JobQueue[Any]):
    """A queue whose thread is parked while it is empty."""

    thread: SimulatedThread | None = None

    def put(self, job: Any, events: int = 0, cost: int = 0, size: int = 0) -> None:
        """Queue a job, and wake the thread."""
        super().put(job, events, cost, size)
        if self.thread is not None:
            self.thread.wake(0.003)

    def close(self) -> None:
        """Close the queue, and wake the thread."""
        super().close()
        if self.thread is not None:
            self.thread.wake(0.003)

    def turn(self) -> list[Any]:
        """Take the next turn, or let others run until there is one."""
        self.thread = current_thread()
        assert self.thread is not None
        while not (len(self) or self._closed):
            self.thread.park()
        return super().turn()


class _Posts:
    """Posts to the simulated receivers of webhooks."""

    def __init__(self, **_: Any) -> None:
        self._user = disk.current_user()

    async def post(self, url: str, headers: Any, body: bytes) -> int:
        """Post once."""
        world: World = self._user.world
        return await world.receivers.post(self._user, url, headers, body)

    async def close(self) -> None:
        """Nothing is kept."""


_apply_all = Engine.apply_all
_open_engine = tenants.open_engine
_replace_file = files.replace_file
_open_store = Store.__init__


def _observed_apply(
    self: Engine, events: Any, remember: Any = None, *, stop: bool = False, **more: Any
) -> list[Any]:
    user = disk.current_user()
    model: StoreModel | None = vars(self).get("model")
    if user is None or model is None:
        return _apply_all(self, events, remember, stop=stop, **more)
    events = list(events)
    state = user.state
    repeated = state is not None and not state.role.is_primary
    model.called(events, stop, repeated=repeated)
    try:
        outcomes = _apply_all(self, events, remember, stop=stop, **more)
    except Exception:
        model.failed()
        raise
    model.returned(outcomes)
    return outcomes


def _observed_open(config: Config, name: str) -> Engine:
    engine = _open_engine(config, name)
    user = disk.current_user()
    if user is not None:
        model = user.model(name)
        model.opened(engine)
        vars(engine)["model"] = model
        user.world.opened(user, name)
    return engine


def _observed_replace_file(path: Path, copy: Path, aside: Path | None) -> None:
    user = disk.current_user()
    if user is None:
        _replace_file(path, copy, aside)
        return
    model: StoreModel = user.model(path.stem)
    history = user.world.source_of(user).model(path.stem).history
    with closing(sqlite3.connect(f"file:{copy}?immutable=1", uri=True)) as database:
        (seq,) = database.execute("SELECT seq FROM state").fetchone()
        (place,) = database.execute("SELECT value FROM about WHERE key = 'position'").fetchone()
    model.copies(History(history.events[:seq]), place)
    _replace_file(path, copy, aside)
    model.replaced()


def _observed_store(self: Store, *given: Any, **named: Any) -> None:
    _open_store(self, *given, **named)
    user = disk.current_user()
    if user is not None:
        user.stores.append(self)


class _Secrets:
    """Secrets that a seed decides."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def token_hex(self, size: int) -> str:
        """Some hexadecimal digits."""
        return self._random.randbytes(size).hex()

    def token_bytes(self, size: int) -> bytes:
        """Some bytes."""
        return self._random.randbytes(size)

    def token_urlsafe(self, size: int) -> str:
        """Some characters."""
        return self._random.randbytes(size).hex()


@contextmanager
def simulated(world: World) -> Iterator[None]:
    """Put the simulation around the real code of the server."""
    disk.watch_files()
    random, scheduler = world.random, world.scheduler
    own = _Secrets(Random(random.random()))

    def now() -> float:
        return scheduler.now

    def client(**given: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            transport=PeerTransport(world.network),
            **{name: value for name, value in given.items() if name != "verify"},
        )

    def socket(url: str, *, additional_headers: dict[str, str], **_: Any) -> PeerSocket:
        return PeerSocket(world.network, url, additional_headers)

    with ExitStack() as stack:

        def put(target: Any, name: str, value: Any) -> None:
            stack.enter_context(patch.object(target, name, value))

        for module in [m for n, m in sys.modules.items() if n.startswith("nearcast.")]:
            for name in ("monotonic", "perf_counter"):
                if name in vars(module):
                    put(module, name, now)
            if vars(module).get("secrets") is secrets:
                put(module, "secrets", own)
        defaults = Authenticator.__init__.__kwdefaults__
        stack.enter_context(patch.dict(defaults, clock=now))
        put(webhook_delivery, "Random", lambda: Random(random.random()))
        put(webhook_delivery, "WebhookPosts", _Posts)
        put(backend, "Thread", SimulatedThread)
        put(backend, "JobQueue", _Queue)
        put(tenants, "open_engine", _observed_open)
        put(tenants, "replace_file", _observed_replace_file)
        put(Engine, "apply_all", _observed_apply)
        put(Store, "__init__", _observed_store)
        put(WriteAheadLog, "transaction", disk.simulated_transaction)
        put(peers, "httpx", _Httpx(client))
        put(follower, "connect", socket)
        yield


class _Httpx:
    """The module httpx with clients that use the simulated network."""

    def __init__(self, client: Callable[..., httpx.AsyncClient]) -> None:
        self.AsyncClient = client

    def __getattr__(self, name: str) -> Any:
        return getattr(httpx, name)


Servers = Sequence[SimulatedServer]
