"""Delivery of webhooks: posts each update of a subscription to its address, signed, in order.

A failed post is retried after growing pauses and finally becomes a dead letter. Webhooks do not
wait for each other, and one whose address is down goes on with its next update in the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from random import Random

import httpx
import msgspec
import structlog
from standardwebhooks.webhooks import Webhook as Signer

from nearcast.engine.update_log import Entry
from nearcast.server.addresses import ForbiddenAddress, Resolve, pinned
from nearcast.server.config import Config
from nearcast.server.feed import UpdateFeed
from nearcast.server.tenants import Tenant, Tenants
from nearcast.server.webhook_store import DeadLetter, Webhook, WebhookStore

log = structlog.get_logger("nearcast.webhooks")
_encode = msgspec.json.Encoder().encode
_LONGEST_PAUSE_S = 300.0
_AT_ONCE = 100
_TIMEOUT_S = 10.0


def update_payload(entry: Entry) -> bytes:
    """Encode the body that is posted for an update."""
    data: dict[str, str | float] = {
        "op": entry.op,
        "subscription": entry.subscription,
        "message": entry.message,
    }
    if entry.score is not None:
        data["score"] = entry.score
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
        store: WebhookStore,
        tenants: Tenants,
        config: Config,
        *,
        resolve: Resolve | None = None,
        sleep: Callable[[float], asyncio.Future[None]] | None = None,
    ) -> None:
        self._store = store
        self._tenants = tenants
        self._config = config
        self._resolve = resolve
        self._sleep = sleep or asyncio.sleep
        self._random = Random()  # noqa: S311 - spreads retries; no secret depends on it
        self._tasks: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._client = httpx.AsyncClient(
            timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False
        )
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self.failures: dict[tuple[str, str], tuple[int, str]] = {}
        self.delivered = self.failed = self.dead = 0

    async def start(self) -> None:
        """Start to deliver for all stored webhooks."""
        for hook in self._store.all():
            self.begin(await self._tenants.get(hook.tenant), hook)

    def begin(self, tenant: Tenant, hook: Webhook) -> None:
        """Start to deliver for a webhook; it replaces that of its subscription, if any."""
        self.end(hook.tenant, hook.subscription)
        key = (hook.tenant, hook.subscription)
        self._tasks[key] = asyncio.ensure_future(self._deliver(tenant, hook))

    def end(self, tenant: str, subscription: str) -> None:
        """Stop delivering for a subscription."""
        self.failures.pop((tenant, subscription), None)
        task = self._tasks.pop((tenant, subscription), None)
        if task is not None:
            task.cancel()

    def has(self, tenant: str, subscription: str) -> bool:
        """Whether a subscription has a webhook."""
        return (tenant, subscription) in self._tasks

    async def close(self) -> None:
        """Stop all deliveries; the log keeps the updates that were not delivered."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()

    async def _deliver(self, tenant: Tenant, hook: Webhook) -> None:
        feed = UpdateFeed(tenant.hub, [hook.subscription], hook.place, update_payload, gap_payload)
        try:
            while (found := await feed.next(self._config.keep_alive_s)) is not None:
                for id, body in found:
                    await self._post_with_retries(hook, id, body)
                    self._store.delivered(hook, id)
        except Exception:
            log.exception("webhook stopped", tenant=hook.tenant, subscription=hook.subscription)
        finally:
            feed.close()

    async def _post_with_retries(self, hook: Webhook, id: int, body: bytes) -> None:
        key = (hook.tenant, hook.subscription)
        for attempt in range(1, self._config.webhook_attempts + 1):
            error = await self._post(hook, id, body)
            if error is None:
                self.failures.pop(key, None)
                return
            self.failures[key] = (attempt, error)
            if attempt < self._config.webhook_attempts:
                pause = min(_LONGEST_PAUSE_S, self._config.webhook_pause_s * 2.0 ** (attempt - 1))
                await self._sleep(pause * self._random.uniform(0.5, 1.5))
        self.dead += 1
        self._store.add_dead_letter(hook, id, body, error or "", self._config.clock())
        log.warning("webhook gave up", tenant=hook.tenant, subscription=hook.subscription, id=id)

    async def retry(self, tenant: Tenant, letter: DeadLetter) -> bool:
        """Post a dead letter once more, and return whether that succeeded."""
        hook = self._store.find(tenant.name, letter.subscription)
        if hook is None:
            return False
        return await self._post(hook, letter.update_id, letter.body) is None

    async def _post(self, hook: Webhook, id: int, body: bytes) -> str | None:
        """Post once, and return the error or None."""
        name = f"{hook.tenant}-{hook.subscription}-{id}"
        now = datetime.fromtimestamp(int(self._config.clock()), UTC)
        headers = {
            "content-type": "application/json",
            "webhook-id": name,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Signer(hook.secret).sign(name, now, body.decode()),
        }
        error: str | None
        try:
            async with self._slots:
                url, host, extensions = await pinned(
                    hook.url, private=self._config.private_webhooks, resolve=self._resolve
                )
                if self._client is None:
                    self._client = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False)
                answer = await self._client.post(
                    url, content=body, headers=headers | host, extensions=extensions
                )
            error = None if answer.is_success else f"answered {answer.status_code}"
        except ForbiddenAddress as problem:
            error = str(problem)
        except (httpx.HTTPError, OSError, ValueError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        if error is None:
            self.delivered += 1
        else:
            self.failed += 1
        return error
