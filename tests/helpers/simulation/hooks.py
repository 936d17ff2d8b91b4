"""Owners of webhooks that change all the time: they know where updates may be posted."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from random import Random
from typing import Any

from simulation.clients import Publisher, Tenancy
from simulation.model import EventKey, demand
from simulation.network import Answer, ConnectionLost

SUBSCRIPTION = "h1"
_PATH = f"/v1/subscriptions/{SUBSCRIPTION}"
_SETTLED_S = 5.0
"""After this time a request whose answer was lost has no effect any more."""
_LAPSED_S = 4.0  # longer than a ttl of a second, on two clocks that differ by two
Place = int | None
"""A webhook by its number; None is no webhook."""


class HookOwner:
    """Puts webhooks with numbered addresses on a subscription, and removes them again."""

    def __init__(self, tenancy: Tenancy) -> None:
        self.tenancy = tenancy
        self.world = tenancy.world
        self.random = Random(self.world.random.random())
        self.possible: set[Place] = {None}
        """What may be in force on the primary."""
        self.issued: set[Place] = {None}
        self._unsure: dict[Place, float] = {}  # by what was asked for: when, without an answer
        self._publisher = Publisher(tenancy, 7)
        self._count = 0

    async def run(self) -> None:
        """Change the webhook until the end."""
        while not self.world.ending:
            await asyncio.sleep(self.random.uniform(0.05, 0.8))
            await self._change()

    async def _change(self) -> None:
        draw = self.random.random()
        if draw < 0.55:
            await self.put(self.random.choice((None, None, 0)))
        elif draw < 0.7:
            await self._ask("DELETE", f"{_PATH}/webhook", None, None)
        elif draw < 0.88:
            await self._end()
            await self.subscribe()
        else:
            await self._lapse()

    def lost(self) -> None:
        """Forget what was answered: a promotion may have lost any of it."""
        self.possible = set(self.issued)

    async def put(self, after: int | None) -> bool:
        """Put a webhook at an address of its own; whether that was acknowledged."""
        self._count += 1
        number, name = self._count, self.tenancy.name
        secret = "whsec_" + b64encode(self.random.randbytes(24)).decode()
        fields: dict[str, Any] = {"url": f"http://hooks.example/{name}/{SUBSCRIPTION}/{number}"}
        fields |= {"secret": secret} | ({} if after is None else {"after": after})
        self.world.receivers.secrets[name, f"{SUBSCRIPTION}/{number}"] = secret
        self.issued.add(number)
        answer = await self._ask("PUT", f"{_PATH}/webhook", fields, number)
        if answer is None or answer.status != 200:
            return False
        self.world.receivers.begin[name, self.current] = answer.json["after"]
        return True

    @property
    def current(self) -> str:
        """The receiver of the webhook that was put last."""
        return f"{SUBSCRIPTION}/{self._count}"

    async def _ask(self, method: str, path: str, fields: Any, wanted: Place) -> Answer | None:
        """Ask for a change, and note what may be in force then."""
        world, target, epoch = self.world, self.world.primary_name(), self.world.epoch
        before = set(self.possible)
        self.possible.add(wanted)
        try:
            answer = await self.tenancy.ask(target, method, path, fields)
        except ConnectionLost:
            self._note(wanted, sure=False)
            return None
        world.note(target, method, path, wanted, answer.status)
        kind = str(answer.json.get("type", "")) if answer.body else ""
        if answer.status in (200, 204):
            still = target == world.primary_name() and epoch == world.epoch
            self._note(wanted, sure=still)
        elif answer.status == 404 and epoch == world.epoch:
            # Perhaps it ended by the clock alone: what came before is posted until an event comes.
            self.possible = before | {None, *self._unsure}
        elif kind.endswith("not-replicated"):
            self._note(wanted, sure=False)
        elif epoch == world.epoch:
            self.possible = before | set(self._unsure)
        return answer

    def _note(self, wanted: Place, *, sure: bool) -> None:
        """Note that something was asked for, and whether it is in force for sure."""
        now = self.world.scheduler.now
        self._unsure = {each: at for each, at in self._unsure.items() if now - at < _SETTLED_S}
        if sure:
            self.possible = {wanted, *self._unsure}
        else:
            self._unsure[wanted] = now

    async def _event(self, method: str, fields: Any, key: EventKey) -> bool | None:
        """Send an event; whether it was accepted, or None if nobody knows."""
        promises = self.tenancy.promises
        before = promises.acknowledged[key], promises.refused[key]
        await self._publisher._send(method, _PATH, fields, [key])
        if promises.acknowledged[key] > before[0]:
            return True
        return False if promises.refused[key] > before[1] else None

    async def subscribe(self, ttl: float | None = None) -> bool:
        """Make the subscription, or replace it; whether that was acknowledged."""
        tag = self._publisher._tag()
        fields: dict[str, Any] = {"query": "alpha", "region": self._publisher._region()}
        fields["meta"] = {"tag": tag, "tenant": self.tenancy.name}
        fields |= {} if ttl is None else {"ttl": ttl}
        return bool(await self._event("PUT", fields, ("subscribe", SUBSCRIPTION, tag)))

    async def _end(self) -> None:
        """End the subscription, and with it the webhook."""
        target, epoch, before = self.world.primary_name(), self.world.epoch, set(self.possible)
        self.possible.add(None)
        done = await self._event("DELETE", None, ("unsubscribe", SUBSCRIPTION))
        if done is not False:
            still = target == self.world.primary_name() and epoch == self.world.epoch
            self._note(None, sure=bool(done) and still)
        elif epoch == self.world.epoch:
            self.possible = before

    async def _lapse(self) -> None:
        """Let the subscription end by itself; who makes it again finds it without a webhook."""
        epoch = self.world.epoch
        if not await self.subscribe(1.0):
            return
        await self.put(None)
        self.possible.add(None)
        await asyncio.sleep(_LAPSED_S)
        target = self.world.primary_name()
        if await self.subscribe() and epoch == self.world.epoch:
            self._note(None, sure=target == self.world.primary_name())

    async def settle(self) -> None:
        """Put a last webhook, that gets all there was and what is to come."""
        await asyncio.sleep(_SETTLED_S)
        for _ in range(100):
            if await self.subscribe() and await self.put(0):
                return
            await asyncio.sleep(0.3)
        demand(False, self.tenancy.name, "no webhook is accepted in the end")

    def check(self, name: str, trusted: bool) -> None:
        """Compare an address that is posted to with those that may be in force.

        A primary that was replaced and does not know it yet may post to those it knows of.
        """
        number = int(name.partition("/")[2])
        known = self.possible if trusted else self.issued
        demand(number in known, self.tenancy.name, "posted to", name, "instead of", known)
