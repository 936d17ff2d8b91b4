"""Delivery of webhooks: posts each update of a subscription to its address, signed, in order.

A failed post is retried after growing pauses and finally becomes a dead letter. Webhooks do not
wait for each other, and one whose address is down goes on with its next update in the end. How far
each has come is written to the tenant's file now and then: after a crash an update may be delivered
twice, under the same `webhook-id`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any
from urllib.parse import quote

import httpcore
import msgspec
import structlog
from standardwebhooks.webhooks import Webhook as Signer

from nearcast.engine.update_log import Entry
from nearcast.errors import NearcastError
from nearcast.server.addresses import ForbiddenAddress, Resolve
from nearcast.server.config import Config
from nearcast.server.feed import UpdateFeed
from nearcast.server.problems import Problem
from nearcast.server.tenants import Tenant
from nearcast.server.webhook_posts import WebhookPosts
from nearcast.server.webhook_slots import WebhookSlots
from nearcast.store.webhooks import DeadLetter, Webhook

log = structlog.get_logger("nearcast.webhooks")
_encode = msgspec.json.Encoder().encode
_LONGEST_PAUSE_S = 300.0
_BETWEEN_NOTES_S = 1.0
_PLAIN = "".join(map(chr, range(33, 127))).replace("%", "")  # what a header may have as it is
_FAILURES = (
    httpcore.NetworkError,
    httpcore.ProtocolError,
    httpcore.TimeoutException,
    httpcore.UnsupportedProtocol,
)


def update_payload(entry: Entry) -> bytes:
    """Encode the body that is posted for an update."""
    data: dict[str, Any] = {
        "op": entry.op,
        "subscription": entry.subscription,
        "message": entry.message,
    }
    if entry.score is not None:
        data["score"] = entry.score
    if entry.late is not None:
        data["body"] = msgspec.Raw(entry.late.json)
    if entry.meta is not None:
        data["meta"] = entry.meta
    kind = f"update.{entry.op}"
    return _encode({"type": kind, "id": entry.id, "timestamp": entry.at, "data": data})


def gap_payload(first: int, last: int, place: int) -> bytes:
    """Encode the body that is posted for updates that the log no longer has."""
    del place
    return _encode({"type": "gap", "data": {"from": first, "to": last}})


class WebhookDispatcher:
    """Delivers the updates of all webhooks, in a task for each."""

    def __init__(
        self,
        config: Config,
        *,
        resolve: Resolve | None = None,
        sleep: Callable[[float], asyncio.Future[None]] | None = None,
    ) -> None:
        self._config = config
        self._sleep = sleep or asyncio.sleep
        self._random = Random()  # noqa: S311 - spreads retries; no secret depends on it
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._posts = WebhookPosts(
            private=config.private_webhooks,
            deadline_s=config.webhook_deadline_s,
            resolve=resolve,
        )
        self._slots = WebhookSlots()
        # By subscription: its webhook, and what that has delivered and is not written yet.
        self._places: dict[Tenant, dict[str, tuple[Webhook, int]]] = {}
        self._notes: dict[Tenant, asyncio.Task[None]] = {}
        self.failures: dict[tuple[str, str], tuple[int, str]] = {}
        self.delivered = self.failed = self.dead = 0

    def start(self, tenant: Tenant, hooks: Iterable[Webhook]) -> None:
        """Start to deliver for the stored webhooks of a tenant."""
        for hook in hooks:
            self.begin(tenant, hook)

    def begin(self, tenant: Tenant, hook: Webhook) -> None:
        """Start to deliver for a webhook; it replaces that of its subscription, if any."""
        self.end(tenant, hook.subscription)
        key = (tenant.name, hook.subscription)
        self._tasks[key] = asyncio.ensure_future(self._deliver(tenant, hook))

    def end(self, tenant: Tenant, subscription: str) -> None:
        """Stop delivering for a subscription."""
        self.failures.pop((tenant.name, subscription), None)
        self._places.get(tenant, {}).pop(subscription, None)
        task = self._tasks.pop((tenant.name, subscription), None)
        if task is not None:
            task.cancel()

    def place(self, tenant: Tenant, hook: Webhook) -> int:
        """The id up to which updates have been delivered."""
        return self._places.get(tenant, {}).get(hook.subscription, (hook, hook.place))[1]

    async def pause(self) -> None:
        """Stop all deliveries until they are started again; how far they came is written."""
        tasks = [*self._tasks.values(), *self._notes.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        for tenant in list(self._places):
            with suppress(NearcastError, Problem):
                await self._write_places(tenant)
        self._places.clear()

    async def close(self) -> None:
        """Stop all deliveries; the log keeps the updates that were not delivered."""
        await self.pause()
        await self._posts.close()

    async def _deliver(self, tenant: Tenant, hook: Webhook) -> None:
        subscription = hook.subscription
        await tenant.backend.commits.settled.wait()
        feed = UpdateFeed(tenant.hub, [subscription], hook.place, update_payload, gap_payload)
        try:
            found = await tenant.backend.ask(lambda engine: engine.webhooks.find(subscription))
            if found is None or (found.url, found.secret) != (hook.url, hook.secret):
                return  # its subscription ended before this task began
            while (pieces := await feed.next(self._config.keep_alive_s)) is not None:
                for id, body in pieces:
                    error = await self._post_with_retries(tenant, hook, id, body)
                    if error is None:
                        self._reached(tenant, hook, id)
                    else:
                        await self._give_up(tenant, hook, id, body, error)
        except Exception:
            log.exception("webhook stopped", tenant=tenant.name, subscription=subscription)
        finally:
            feed.close()

    async def _post_with_retries(
        self, tenant: Tenant, hook: Webhook, id: int, body: bytes
    ) -> str | None:
        """Post an update until it is taken, and return the last error or None."""
        key = (tenant.name, hook.subscription)
        error = ""
        for attempt in range(1, self._config.webhook_attempts + 1):
            problem = await self._post(tenant, hook, id, body)
            if problem is None:
                self.failures.pop(key, None)
                return None
            error = problem
            self.failures[key] = (attempt, error)
            if attempt < self._config.webhook_attempts:
                await self._pause(attempt)
        return error

    async def _pause(self, attempt: int) -> None:
        pause = min(_LONGEST_PAUSE_S, self._config.webhook_pause_s * 2.0 ** min(attempt - 1, 20))
        await self._sleep(pause * self._random.uniform(0.5, 1.5))

    async def _give_up(
        self, tenant: Tenant, hook: Webhook, id: int, body: bytes, error: str
    ) -> None:
        """Store a dead letter; while that is not possible, wait."""
        at, attempt = self._config.clock(), 0
        while True:
            try:
                await tenant.backend.change(
                    lambda engine: engine.webhooks.give_up(hook, id, body, error, at)
                )
                break
            except (NearcastError, Problem) as problem:
                attempt += 1
                log.error("a dead letter cannot be stored", tenant=tenant.name, error=str(problem))
                await self._pause(attempt)
        self.dead += 1
        log.warning("webhook gave up", tenant=tenant.name, subscription=hook.subscription, id=id)

    def _reached(self, tenant: Tenant, hook: Webhook, id: int) -> None:
        """Note how far a webhook has come; it is written within about a second."""
        self._places.setdefault(tenant, {})[hook.subscription] = hook, id
        if tenant not in self._notes:
            self._notes[tenant] = asyncio.ensure_future(self._write_soon(tenant))

    async def _write_soon(self, tenant: Tenant) -> None:
        try:
            while self._places.get(tenant):
                await asyncio.sleep(_BETWEEN_NOTES_S)
                try:
                    await self._write_places(tenant)
                except (NearcastError, Problem) as error:
                    log.error("webhooks cannot be noted", tenant=tenant.name, error=str(error))
        finally:
            del self._notes[tenant]

    async def _write_places(self, tenant: Tenant) -> None:
        places = dict(self._places.get(tenant, {}))
        if places:
            await tenant.backend.change(lambda engine: engine.webhooks.reach(places.values()))
            left = self._places[tenant]
            for subscription, place in places.items():
                if left.get(subscription) == place:
                    del left[subscription]

    async def retry(self, tenant: Tenant, letter: DeadLetter) -> bool:
        """Post a dead letter once more, and return whether that succeeded."""
        subscription = letter.subscription
        hook = await tenant.backend.ask(lambda engine: engine.webhooks.find(subscription))
        if hook is None:
            return False
        return await self._post(tenant, hook, letter.update_id, letter.body) is None

    async def _post(self, tenant: Tenant, hook: Webhook, id: int, body: bytes) -> str | None:
        """Post once, and return the error or None."""
        name = quote(f"{tenant.name}-{hook.subscription}-{id}", safe=_PLAIN)
        now = datetime.fromtimestamp(int(self._config.clock()), UTC)
        headers: dict[str | bytes, str | bytes] = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Signer(hook.secret).sign(name, now, body.decode()),
        }
        error: str | None
        try:
            async with self._slots.slot(tenant.name, hook.url):
                with self._config.telemetry.post(tenant.name, hook.subscription):
                    status = await self._posts.post(hook.url, headers, body)
            error = None if 200 <= status < 300 else f"answered {status}"
        except ForbiddenAddress as problem:
            error = str(problem)
        except TimeoutError:
            error = f"not answered within {self._config.webhook_deadline_s:g} s"
        except (*_FAILURES, OSError, ValueError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1
        return error
