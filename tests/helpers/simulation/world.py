"""One simulated world: who is in it, what goes wrong in it, and what must be so in the end."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tempfile
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch

from nearcast.server.keys import KeyStore
from nearcast.server.standby import role
from simulation.clients import Listener, Publisher, Receivers, Tenancy
from simulation.disk import current_user
from simulation.hooks import HookOwner
from simulation.loops import LoopScheduler, ProcessLoop
from simulation.model import Violation, demand
from simulation.nemesis import make_trouble
from simulation.network import Answer, ConnectionLost, SimulatedNetwork
from simulation.servers import SimulatedServer, simulated

TENANTS = ("default", "red", "blue")
USED = TENANTS[1:]
_MOST_STEPS = 400_000
_MEMORY = Path("/dev/shm")  # noqa: S108 - a folder of this run is made in it


class _Clients:
    """The process of all clients, which never ends."""

    name = "clients"
    app = None

    def __init__(self, loop: ProcessLoop) -> None:
        self.loop = loop


class World:
    """Servers, clients and trouble, by a seed."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.random = Random(seed)
        self.scheduler = LoopScheduler(self.random)
        self.network = SimulatedNetwork(self.random, lambda: self.scheduler.now)
        self.clients = _Clients(ProcessLoop("clients", self.scheduler))
        vars(self.clients.loop)["user"] = None
        self.kind = self.random.choice(("single", "pair", "pair", "unconfirmed"))
        self.replicated = self.kind == "pair"
        self.queued_bytes = self.random.choice((1 << 18, 700))
        self.stalls = self.network.stalls = 0.0 if self.queued_bytes > 1000 else 0.1
        self.ending = self.over = False
        self.epoch = 0
        self.violation: Violation | None = None
        self._trace = hashlib.sha256()
        self.events: list[str] = []
        self.tokens: dict[str, str] = {}
        self._make_keys(folder / "keys.db")
        names = ("one",) if self.kind == "single" else ("one", "two")
        self.servers = [SimulatedServer(self, name, folder / name) for name in names]
        for each in self.servers:
            each.disk.folder.mkdir(parents=True)
            shutil.copy(folder / "keys.db", each.disk.folder / "keys.db")
            self.network.hosts[each.name] = each
        self.truth = self.servers[0]
        self._term = 1
        self.tenancies = {name: Tenancy(self, name, self.tokens[name]) for name in TENANTS}
        self.receivers = Receivers(self)
        self.listeners: list[Listener] = []
        self._tasks: list[asyncio.Task[None]] = []

    def _make_keys(self, path: Path) -> None:
        keys = KeyStore(path)
        for name in TENANTS:
            scopes = ("publish", "subscribe", "admin") if name == "default" else (
                "publish", "subscribe")  # fmt: skip
            self.tokens[name] = keys.add(name, tenant=name, scopes=scopes)
        keys.close()

    def note(self, *what: object) -> None:
        """Add to the trace of the run: equal seeds have equal traces."""
        line = f"{self.scheduler.now:.6f} {' '.join(map(str, what))}"
        self._trace.update(line.encode())
        self.events.append(line)

    @property
    def trace(self) -> str:
        """A hash of all that happened."""
        return self._trace.hexdigest()

    def primary_name(self) -> str:
        """Whom clients take for the primary."""
        return self.truth.name

    def source_of(self, server: SimulatedServer) -> SimulatedServer:
        """The other server of the pair."""
        return next(each for each in self.servers if each is not server)

    def opened(self, server: SimulatedServer, tenant: str) -> None:
        """Compare a tenant that was opened on the primary with what its clients were promised."""
        history = server.model(tenant).history
        self.note("opened", server.name, tenant, len(history.events), len(history.updates))
        if server is self.truth:
            self.tenancies[tenant].promises.check(history, f"{server.name} opened {tenant}:")

    def has_role(self, server: SimulatedServer, record: role.RoleRecord) -> None:
        """Learn what a server is: the primary is the one with the highest term."""
        if record.role != role.PRIMARY or record.term <= self._term:
            return
        self.note("promoted", server.name, record.term)
        self._term, old, self.truth = record.term, self.truth, server
        for name, tenancy in self.tenancies.items():
            before, after = old.model(name).history, server.model(name).history
            shared = server.model(name).check_follows(before)
            last = after.ends[shared - 1] if shared else 0
            if self.replicated:
                self._check_kept(tenancy, last)
            elif shared < len(before.events):
                self.epoch += 1
                tenancy.promises.excuse(after)
                self.receivers.rewind(name, last)
                if name in self.receivers.owners:
                    self.receivers.owners[name].lost()
                for listener in self.listeners:
                    if listener.tenancy is tenancy:
                        listener.rewind(last)
            tenancy.promises.check(after, f"{server.name} promoted, {name}:")

    def _check_kept(self, tenancy: Tenancy, last: int) -> None:
        """Demand that a promotion has lost no update that somebody has heard."""
        name = tenancy.name
        for listener in self.listeners:
            if listener.tenancy is tenancy:
                lost = [id for id in listener.heard if id > last]
                demand(not lost, name, "heard, and lost by a promotion:", lost, last)
        for (owner, subscription), seen in self.receivers.seen.items():
            lost = [id for id in seen if owner == name and id > last]
            demand(not lost, name, subscription, "posted, and lost by a promotion:", lost, last)

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a client."""

        async def run() -> None:
            try:
                await work
            except Violation as found:
                self.violation = self.violation or found

        task = self.clients.loop.create_task(run())
        self._tasks.append(task)
        return task

    def start(self, server: SimulatedServer) -> None:
        """Start a server as an operator would: each of a pair follows the other."""
        if not server.alive:
            other = None if len(self.servers) == 1 else self.source_of(server).url
            self.note("start", server.name)
            server.start(other)

    async def ready(self, server: SimulatedServer, *, connected: bool) -> None:
        """Wait until a server is ready, and perhaps connected with the other."""
        for _ in range(2000):
            try:
                said = await self.tenancies["default"].ask(server.name, "GET", "/readyz")
                if said.status == 200 and (said.json.get("connected") or not connected):
                    return
            except ConnectionLost:
                pass
            self.revive()
            await asyncio.sleep(0.05)
        raise Violation(f"{server.name} is not ready after 100 s: {said.body!r}")

    def revive(self) -> None:
        """Start whom a late crash has ended, who gave up, or was replaced and follows nobody."""
        for each in self.servers:
            if each.failed or (each is not self.truth and each.follows is None):
                each.crash()
            self.start(each)

    async def drive(self) -> None:
        """The whole story."""
        self.servers[0].start(None)
        for each in self.servers[1:]:
            self.start(each)
        for each in self.servers:
            await self.ready(each, connected=len(self.servers) > 1)
        await self._populate()
        publishers = [
            self.begin(Publisher(tenancy, number).run())
            for tenancy in self.tenancies.values()
            for number in range({"red": 2, "blue": 1}.get(tenancy.name, 0))
        ]
        for listener in self.listeners:
            self.begin(listener.run())
        owners = [self.begin(owner.run()) for owner in self.receivers.owners.values()]
        await make_trouble(self)
        self.ending = True
        await asyncio.gather(*publishers, *owners)
        await self._settle()
        self.over = True

    async def _populate(self) -> None:
        for tenancy in map(self.tenancies.__getitem__, USED):
            publisher = Publisher(tenancy, 9)
            for id in ("s0", "s1", "h0"):
                tag = f"first-{id}"
                query = "alpha" if id != "s1" else "alpha OR beta"
                fields = {"query": query, "region": {"type": "Box", "bbox": [0, 0, 1, 1]}}
                fields["meta"] = {"tag": tag, "tenant": tenancy.name}
                key = ("subscribe", id, tag)
                while not tenancy.promises.acknowledged[key]:
                    await publisher._send("PUT", f"/v1/subscriptions/{id}", fields, [key])
            names = ((), ("s0",), ("s1", "s2", "s3", "h0"))
            for number, chosen in enumerate(names):
                socket = self.random.random() < 0.4
                # Where nobody waits for the standby, an old primary shows what is lost until it is
                # copied anew: who listens there may hear it.
                place = "standby" if number == 2 and self.replicated else "primary"
                listener = Listener(tenancy, chosen, socket=socket, place=place)
                listener.last = 0
                self.listeners.append(listener)
            self.receivers.owners[tenancy.name] = HookOwner(tenancy)
            if tenancy.name == "red":
                url = f"http://hooks.example/{tenancy.name}/h0"
                path = "/v1/subscriptions/h0/webhook"
                answer = await tenancy.ask(self.primary_name(), "PUT", path, {"url": url})
                while answer.status == 503:  # not confirmed in time: sent again, as it says
                    await asyncio.sleep(0.3)
                    answer = await tenancy.ask(self.primary_name(), "PUT", path, {"url": url})
                demand(answer.status == 200, "webhook:", answer.body)
                self.receivers.secrets[tenancy.name, "h0"] = answer.json["secret"]
                self.receivers.begin[tenancy.name, "h0"] = answer.json["after"]

    async def _settle(self) -> None:
        """Let everything recover, and compare all there is."""
        self.network.cut.clear()
        self.network.slow = self.network.stalls = self.receivers.fails = 0.0
        for each in self.servers:
            each.disk.dies_in, each.disk.fails = 0, 0.0
        self.revive()
        for each in self.servers:
            await self.ready(each, connected=len(self.servers) > 1)
        for name in USED:
            tenancy = self.tenancies[name]
            await self.receivers.owners[name].settle()
            await self._last_message(tenancy)
            truth, promises = tenancy.truth, tenancy.promises
            promises.check(truth, f"in the end, {name}:")
            for listener in self.listeners:
                if listener.tenancy is tenancy:
                    await self._wait(lambda: self._has_all(listener), name, "is not heard")  # noqa: B023
                    listener.finish()
            for server in self.servers:
                await self._wait(lambda: self._same(server, name), name, "is not copied")  # noqa: B023
                await self._compare(server, tenancy)
            await self._wait(lambda: self._posted(tenancy), name, "is not posted")  # noqa: B023

    async def _last_message(self, tenancy: Tenancy) -> None:
        publisher = Publisher(tenancy, 8)
        for _ in range(50):
            before = sum(tenancy.promises.acknowledged.values())
            await publisher._publish()
            if sum(tenancy.promises.acknowledged.values()) > before:
                return
            await asyncio.sleep(0.3)
        raise Violation(f"{tenancy.name}: nothing is accepted in the end")

    async def _wait(self, check: Any, *what: object) -> None:
        for _ in range(1200):
            found = check()
            if asyncio.iscoroutine(found):
                found = await found
            if found:
                return
            await asyncio.sleep(0.1)
        raise Violation(" ".join(map(str, what)) + " after 120 s")

    def _has_all(self, listener: Listener) -> bool:
        end = len(listener.tenancy.truth.updates)
        return not listener.tenancy.truth.between(listener.last or 0, end, listener.names)

    def _same(self, server: SimulatedServer, name: str) -> bool:
        mine = server.model(name).history.events
        return len(mine) == len(self.truth.model(name).history.events)

    async def _posted(self, tenancy: Tenancy) -> bool:
        answer = await tenancy.ask(self.primary_name(), "GET", "/v1/dead-letters")
        dead = {(each["subscription"], each["update"]) for each in answer.json["letters"]}
        return not self.receivers.missing(tenancy.name, dead)

    async def _listed(self, server: SimulatedServer, tenancy: Tenancy) -> Answer:
        """The subscriptions that a server has; a copy may just have taken the place of its file."""
        for _ in range(100):
            answer = await tenancy.ask(server.name, "GET", "/v1/subscriptions?limit=100")
            if answer.status != 503:
                break
            await asyncio.sleep(0.1)
        demand(answer.status == 200, server.name, tenancy.name, "is not listed:", answer.body)
        return answer

    async def _compare(self, server: SimulatedServer, tenancy: Tenancy) -> None:
        """Compare what a server answers with what `scan` makes of the acknowledged events."""
        truth, name = tenancy.truth, f"{server.name}, {tenancy.name}:"
        demand(server.model(tenancy.name).history.events == truth.events, name, "other events")
        listed = await self._listed(server, tenancy)
        ids = sorted(each["id"] for each in listed.json["subscriptions"])
        now = max(truth.scan.now or 0.0, 0.0)
        known = sorted(each.id for each in truth.scan.subscriptions())
        demand(set(ids) <= set(known), name, "subscriptions", ids, known, now)
        state = server.state
        demand(state is not None, name, "has ended")
        assert state is not None
        tenant = state.tenants.find(tenancy.name)
        demand(tenant is not None, name, "is not open")
        assert tenant is not None
        engine = tenant.backend._engine
        server.model(tenancy.name).check(engine)


_change = role.ServerRole.change


def _observed_change(self: role.ServerRole, **fields: object) -> None:
    _change(self, **fields)
    user = current_user()
    if user is not None:
        user.world.has_role(user, self.record)


@contextmanager
def new_world(seed: int) -> Iterator[World]:
    """A world that is gone afterwards."""
    where = _MEMORY if _MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(dir=where, prefix="nearcast-simulation-") as folder:
        world = World(seed, Path(folder))
        try:
            with simulated(world), patch.object(role.ServerRole, "change", _observed_change):
                yield world
        finally:
            for server in world.servers:
                server.close()
            world.clients.loop.end()


def run_world(world: World) -> None:
    """Run a world to its end; raises the first violation."""
    story = world.begin(world.drive())
    ended = world.scheduler.run(lambda: story.done() or world.violation is not None, _MOST_STEPS)
    if world.violation is not None:
        raise world.violation
    demand(ended, "the story does not end")
    story.result()


class Run(NamedTuple):
    """What came of a seed: a hash of all that happened, and what was violated."""

    seed: int
    kind: str
    trace: str
    violation: str | None
    events: list[str]

    def told(self) -> str:
        """What was violated, and how to see it again."""
        again = f"python tests/soak/simulate.py --from {self.seed} --seeds 1 --events"
        return f"seed {self.seed} ({self.kind}): {self.violation}\n  {again}"


def run_seed(seed: int) -> Run:
    """Run the world of a seed."""
    with new_world(seed) as world:
        try:
            run_world(world)
            found = None
        except (Violation, Exception) as error:  # what a server does not expect is one too
            found = f"{type(error).__name__}: {error}"
        return Run(seed, world.kind, world.trace, found, world.events)
