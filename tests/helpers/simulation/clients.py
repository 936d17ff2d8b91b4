"""Simulated clients: publishers, listeners that resume, and receivers of webhooks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

import msgspec
from standardwebhooks import Webhook as Signer

from simulation.model import EventKey, History, Promises, Violation, demand, read_shown
from simulation.network import Answer, ConnectionLost, Headers, request, scope_of, stream

if TYPE_CHECKING:
    from simulation.hooks import HookOwner
    from simulation.servers import SimulatedServer
    from simulation.world import World

WORDS = ("alpha", "beta", "gamma")
_encode = msgspec.json.Encoder().encode
_UNKNOWN = "not-replicated"  # a problem after which nobody knows whether it happened
_KEPT = "were accepted, and are kept"


class Tenancy:
    """A tenant as its clients know it: its key, and what they were promised."""

    def __init__(self, world: World, name: str, token: str) -> None:
        self.world = world
        self.name = name
        self.headers: Headers = [
            (b"authorization", f"Bearer {token}".encode()),
            (b"content-type", b"application/json"),
        ]
        self.promises = Promises()

    @property
    def truth(self) -> History:
        """What the primary has."""
        return self.world.truth.model(self.name).history

    async def ask(
        self, target: str, method: str, path: str, fields: object = None, key: str | None = None
    ) -> Answer:
        """Send one request."""
        body = b"" if fields is None else _encode(fields)
        headers = list(self.headers)
        if key is not None:
            headers.append((b"idempotency-key", key.encode()))
        if isinstance(fields, list):
            body = b"\n".join(map(_encode, fields))
            headers[1] = (b"content-type", b"application/x-ndjson")
        world = self.world
        answer = await request(world.network, world.clients, target, method, path, headers, body)
        demand(answer.status != 500, self.name, method, path, "answered 500", answer.body)
        return answer


class Publisher:
    """Sends events of one tenant, to whom it takes for the primary."""

    def __init__(self, tenancy: Tenancy, number: int) -> None:
        self.tenancy = tenancy
        self.world = tenancy.world
        self.random = Random(self.world.random.random())
        self._name = f"{tenancy.name[0]}{number}"
        self._count = 0
        self._ids: list[str] = []

    async def run(self) -> None:
        """Send until the end."""
        while not self.world.ending:
            await asyncio.sleep(self.random.choice((0.0, 0.1, 0.6)) * self.random.random())
            await self.act()

    def _tag(self) -> str:
        self._count += 1
        return f"{self._name}-{self._count}"

    async def act(self) -> None:
        """Send one request."""
        draw = self.random.random()
        if draw < 0.62:
            await self._publish()
        elif draw < 0.72:
            await self._lines()
        elif draw < 0.80 and self._ids:
            id = self.random.choice(self._ids)
            await self._send("DELETE", f"/v1/messages/{id}", None, [("retract", id)])
        elif draw < 0.88:
            await self._subscribe()
        elif draw < 0.96:
            id = f"s{self.random.randrange(4)}"
            fields = {"region": self._region()}
            await self._send("PATCH", f"/v1/subscriptions/{id}", fields, [("move", id)])
        else:
            id = f"s{self.random.randrange(1, 4)}"
            await self._send("DELETE", f"/v1/subscriptions/{id}", None, [("unsubscribe", id)])

    def _region(self) -> dict[str, Any]:
        west = self.random.choice((0.0, 0.0, 1.0))
        return {"type": "Box", "bbox": [west, 0.0, west + 1.0, 1.0]}

    def _message(self) -> tuple[dict[str, Any], EventKey]:
        tag = self._tag()
        draw = self.random
        id = draw.choice(self._ids) if self._ids and draw.random() < 0.15 else f"m{tag}"
        self._ids = [*self._ids[-5:], id]
        fields: dict[str, Any] = {
            "id": id,
            "text": " ".join(draw.sample(WORDS, draw.randint(1, 3))),
            "point": [draw.choice((0.5, 1.5)), 0.5],
            "properties": {"tag": tag, "tenant": self.tenancy.name},
        }
        if draw.random() < 0.5:
            fields["ttl"] = draw.choice((0.5, 5.0, 60.0))
        return fields, ("publish", id, tag)

    async def _publish(self) -> None:
        fields, key = self._message()
        again = f"k-{fields['properties']['tag']}" if self.random.random() < 0.5 else None
        await self._send("POST", "/v1/messages", fields, [key], again)

    async def _lines(self) -> None:
        made = [self._message() for _ in range(self.random.randint(2, 5))]
        again = f"k-{self._tag()}" if self.random.random() < 0.5 else None
        fields = [each for each, _ in made]
        await self._send("POST", "/v1/messages", fields, [key for _, key in made], again)

    async def _subscribe(self) -> None:
        tag, id = self._tag(), f"s{self.random.randrange(4)}"
        fields: dict[str, Any] = {"query": self.random.choice(WORDS), "region": self._region()}
        fields["meta"] = {"tag": tag, "tenant": self.tenancy.name}
        if id == "s3":
            fields |= {"point": [0.5, 0.5], "top": {"k": 2, "alpha": 0.5}}
            del fields["region"]
        elif self.random.random() < 0.2:
            fields["ttl"] = self.random.choice((1.0, 10.0))
        await self._send("PUT", f"/v1/subscriptions/{id}", fields, [("subscribe", id, tag)])

    async def _send(
        self,
        method: str,
        path: str,
        fields: Any,
        keys: list[EventKey],
        again: str | None = None,
    ) -> None:
        """Send a request, several times if it has a key, and note what is known of it then."""
        promises, unknown = self.tenancy.promises, False
        promises.sent.update(keys)
        for _ in range(1 if again is None else 4):
            target = self.world.primary_name()
            if self.random.random() < 0.03:
                target = self.random.choice(list(self.world.servers)).name
            try:
                answer = await self.tenancy.ask(target, method, path, fields, again)
            except ConnectionLost:
                unknown = True
                await asyncio.sleep(self.random.uniform(0.05, 0.5))
                continue
            self.world.note(target, method, path, keys[0][-1], answer.status)
            if 200 <= answer.status < 300:
                self._acknowledge(keys, answer, isinstance(fields, list))
                return
            kind = str(answer.json.get("type", ""))
            if kind.endswith(_UNKNOWN) or _KEPT in str(answer.json.get("detail")):
                unknown = True
            if answer.status not in (503, 507):
                break
            await asyncio.sleep(self.random.uniform(0.05, 0.5))
        if not unknown:
            promises.refused.update(keys)

    def _acknowledge(self, keys: list[EventKey], answer: Answer, lines: bool) -> None:
        promises = self.tenancy.promises
        if not lines:
            promises.acknowledged.update(keys)
            return
        demand(answer.json["accepted"] == len(keys), "lines that were refused:", answer.body)
        promises.acknowledged.update(keys)


class Listener:
    """Listens to some subscriptions of a tenant, and resumes after every interruption."""

    def __init__(
        self, tenancy: Tenancy, names: tuple[str, ...], *, socket: bool, place: str
    ) -> None:
        self.tenancy = tenancy
        self.world = tenancy.world
        self.random = Random(self.world.random.random())
        self.names = frozenset(names) or None
        self.socket = socket
        self.place = place  # whom it listens to: the primary or the standby
        self.last: int | None = None
        self.heard: dict[int, Any] = {}
        self.epoch = 0

    async def run(self) -> None:
        """Listen until the end."""
        while not self.world.over:
            target = self.world.primary_name()
            if self.place == "standby":
                others = [each.name for each in self.world.servers if each.name != target]
                target = self.random.choice(others or [target])
            with suppress(ConnectionLost, TimeoutError):
                await (self._talk(target) if self.socket else self._stream(target))
            await asyncio.sleep(self.random.uniform(0.02, 0.6))

    def _path(self, path: str) -> str:
        query = [f"subscription={quote(name)}" for name in sorted(self.names or ())]
        if self.socket and self.last is not None:
            query.append(f"after={self.last}")
        return f"{path}?{'&'.join(query)}"

    def _still(self, target: str, epoch: int) -> bool:
        primary = self.world.primary_name()
        right = (target == primary) == (self.place == "primary") or len(self.world.servers) == 1
        return not self.world.over and right and epoch == self.world.epoch

    async def _stream(self, target: str) -> None:
        epoch, rest = self.world.epoch, b""
        headers = list(self.tenancy.headers)
        if self.last is not None:
            headers.append((b"last-event-id", str(self.last).encode()))
        world = self.world
        pieces = stream(world.network, world.clients, target, self._path("/v1/updates"), headers)
        try:
            async with asyncio.timeout(self.random.choice((2.0, 10.0, 60.0))):
                async for piece in pieces:
                    if not self._still(target, epoch):
                        return
                    *events, rest = (rest + piece).split(b"\n\n")
                    for event in events:
                        self._read(event)
        finally:
            await pieces.aclose()  # type: ignore[attr-defined] # a generator

    def _read(self, event: bytes) -> None:
        fields: dict[str, str] = {}
        for line in event.decode().splitlines():
            name, _, value = line.partition(": ")
            fields[name] = value
        if "data" in fields:
            demand(fields["event"] != "gap", self.tenancy.name, "a gap", fields)
            self._hear(int(fields["id"]), fields["data"])
        elif "id" in fields:
            self._reach(int(fields["id"]))

    async def _talk(self, target: str) -> None:
        epoch, world = self.world.epoch, self.world
        near = world.network.connect(world.clients, target)
        window = self.random.choice((None, 2))
        path = self._path("/v1/updates/ws") + ("" if window is None else f"&window={window}")
        try:
            world.network.serve(near, scope_of("websocket", "GET", path, self.tenancy.headers), b"")
            async with asyncio.timeout(self.random.choice((2.0, 10.0, 60.0))):
                accepted = await near.receive()
                if accepted["type"] != "websocket.accept":
                    raise ConnectionLost
                while True:
                    message = await near.receive()
                    if not self._still(target, epoch) or message["type"] != "websocket.send":
                        return
                    fields = msgspec.json.decode(message["text"])
                    demand(fields["type"] in ("hello", "update"), self.tenancy.name, fields)
                    if fields["type"] == "hello":
                        self._reach(fields["after"])
                    else:
                        self._hear(fields["id"], message["text"])
                        ack = _encode({"op": "ack", "id": fields["id"]}).decode()
                        near.send({"type": "websocket.receive", "text": ack})
        finally:
            near.close()

    def _reach(self, place: int) -> None:
        """Note that there is nothing more up to an id."""
        if self.last is not None:
            demand(place >= self.last, self.tenancy.name, "ids go back to", place, self.last)
            self._skip(place)
        self.last = place

    def _skip(self, place: int) -> None:
        assert self.last is not None
        missed = self.tenancy.truth.between(self.last, place, self.names)
        demand(not missed, self.tenancy.name, "not heard:", missed, "after", self.last)

    def _hear(self, id: int, data: str) -> None:
        truth, name = self.tenancy.truth, self.tenancy.name
        demand(self.last is not None and id > self.last, name, "heard twice:", id, self.last)
        shown = read_shown(id, data)
        for part in (shown["body"] and shown["body"].get("properties"), shown["meta"]):
            owner = (part or {}).get("tenant", name)
            demand(owner == name, "an update of", owner, "at", name, shown)
        demand(id <= len(truth.updates), name, "heard what is not there:", shown)
        demand(shown == truth.updates[id - 1], name, "heard", shown, truth.updates[id - 1])
        self._skip(id - 1)
        self.last, self.heard[id] = id, shown
        self.world.note(name, "heard", id)

    def rewind(self, last: int) -> None:
        """Go back to an id: a promotion that waited for nobody has lost what came after it."""
        self.last = None if self.last is None else min(self.last, last)
        self.heard = {id: shown for id, shown in self.heard.items() if id <= last}

    def finish(self) -> None:
        """Compare all that was heard with what the primary has in the end."""
        for id, shown in self.heard.items():
            demand(shown == self.tenancy.truth.updates[id - 1], "heard, and not there:", shown)


class Receivers:
    """The receivers of all webhooks; they fail as often as who makes trouble says."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.fails = 0.0
        self.seen: dict[tuple[str, str], list[int]] = {}
        self.begin: dict[tuple[str, str], int] = {}
        self.secrets: dict[tuple[str, str], str] = {}
        self.owners: dict[str, HookOwner] = {}

    async def post(self, server: SimulatedServer, url: str, headers: Any, body: bytes) -> int:
        """Take a post, or fail before or after that."""
        draw, network = self.world.random, self.world.network
        self._keep(lambda: self._expect(server, url))
        await asyncio.sleep(network.delay())
        if self.fails and draw.random() < self.fails:
            if draw.random() < 0.3:
                self._take(url, headers, body)  # and the answer is lost
            if draw.random() < 0.5:
                raise OSError("the receiver hangs up")
            return 503
        self._take(url, headers, body)
        await asyncio.sleep(network.delay())
        return 204

    def _expect(self, server: SimulatedServer, url: str) -> None:
        """Demand that an address is in force when a post to it begins."""
        _, tenant, name = urlsplit(url).path.split("/", 2)
        owner = self.owners.get(tenant)
        if "/" in name:
            demand(owner is not None, "a post to", url)
            assert owner is not None
            owner.check(name, server is self.world.truth)

    def _take(self, url: str, headers: Any, body: bytes) -> None:
        self._keep(lambda: self._check(url, headers, body))

    def _keep(self, check: Callable[[], None]) -> None:
        try:
            check()
        except Violation as found:
            self.world.violation = self.world.violation or found
            raise

    def _check(self, url: str, headers: Any, body: bytes) -> None:
        _, tenant, receiver = urlsplit(url).path.split("/", 2)
        key, subscription = (tenant, receiver), receiver.partition("/")[0]
        if key in self.secrets:
            name, stamp = headers["webhook-id"], int(headers["webhook-timestamp"])
            moment = datetime.fromtimestamp(stamp, UTC)
            wanted = Signer(self.secrets[key]).sign(name, moment, body.decode())
            demand(headers["webhook-signature"] == wanted, "a wrong signature at", url)
        fields = msgspec.json.decode(body)
        demand(fields["type"] != "gap", "a gap at", url, fields)
        id, truth = fields["id"], self.world.tenancies[tenant].truth
        demand(id <= len(truth.updates), url, "posted what is not there:", fields)
        due, data = truth.updates[id - 1], fields["data"]
        got = read_shown(id, _encode(data | {"at": fields["timestamp"]}))
        demand(got == due, url, "posted", got, due)
        demand(due["subscription"] == subscription, url, "posted for another", due)
        seen = self.seen.setdefault(key, [])
        demand(id in seen or not seen or id > max(seen), url, "out of order:", id, seen)
        if id not in seen:
            seen.append(id)

    def rewind(self, tenant: str, last: int) -> None:
        """Forget what a promotion has lost."""
        for (owner, name), seen in self.seen.items():
            if owner == tenant:
                self.seen[owner, name] = [id for id in seen if id <= last]

    def missing(self, tenant: str, dead: set[tuple[str, int]]) -> list[tuple[str, int]]:
        """Updates that were neither posted nor given up."""
        found: list[tuple[str, int]] = []
        truth = self.world.tenancies[tenant].truth
        for (owner, name), begin in self.begin.items():
            if owner == tenant:
                subscription, _, number = name.partition("/")
                if number and name != self.owners[owner].current:
                    continue  # another took its place
                due = truth.between(begin, len(truth.updates), frozenset((subscription,)))
                seen = self.seen.get((owner, name), [])
                missing = [id for id in due if id not in seen and (subscription, id) not in dead]
                found += [(name, id) for id in missing]
        return found
