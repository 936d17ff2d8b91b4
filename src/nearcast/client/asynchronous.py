"""A client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from itertools import count
from typing import Any, Self
from uuid import uuid4

import httpx
from httpx_sse import aconnect_sse

from nearcast.client import wire
from nearcast.client.received import Bulk, CurrentResult, Gap, Logged, Published, Received
from nearcast.events import Event, Message, Point, Subscription, Top, subscription_from_json
from nearcast.geo import Box, Region


class AsyncClient:
    """Talks to a Nearcast server with the verbs of `Engine`.

    Failed requests are retried; a retry never publishes a message twice.

    >>> async def main() -> None:
    ...     async with AsyncClient("http://127.0.0.1:8080") as client:
    ...         await client.publish("m1", "iPad sale!", (151.21, -33.87))
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 5,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._retries = retries
        self._sleep = sleep
        self._http = httpx.AsyncClient(
            base_url=wire.base_url(url), headers=wire.headers_for(key), timeout=timeout
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._http.aclose()

    async def check_ready(self, timeout: float = 5.0) -> None:
        """Raise `UnreachableError` unless the server answers in time and can work."""
        try:
            answer = await self._http.get("/readyz", timeout=timeout)
        except httpx.TransportError as error:
            raise wire.unreachable(self._http.base_url, error) from None
        wire.check_ready(self._http.base_url, answer.status_code, answer.content)

    async def subscribe(
        self,
        id: str | Subscription | None,
        query: str | None = None,
        region: Region | None = None,
        *,
        point: Point | None = None,
        top: Top | None = None,
        at: float | None = None,
    ) -> Subscription:
        """Add a subscription, or replace the one with this id; None gets a new id."""
        asked = wire.subscribe(id, query, region, point, top, at)
        return wire.read_subscription(await self._ask(asked))

    async def move(
        self,
        id: str,
        region: Region | None = None,
        *,
        point: Point | None = None,
        at: float | None = None,
    ) -> Subscription:
        """Move a subscription to another region, or a top-k one to another point."""
        return wire.read_subscription(await self._ask(wire.move(id, region, point, at)))

    async def unsubscribe(self, id: str) -> None:
        """End a subscription."""
        await self._ask(wire.HttpRequest("DELETE", wire.path_of(id)))

    async def get(self, id: str) -> Subscription:
        """Look up a subscription."""
        return wire.read_subscription(await self._ask(wire.HttpRequest("GET", wire.path_of(id))))

    async def subscriptions(
        self, bbox: Box | None = None, page: int = 1000
    ) -> AsyncIterator[Subscription]:
        """All subscriptions in the order of their ids, or those that meet a box."""
        params: dict[str, Any] = {"limit": page}
        if bbox is not None:
            params["bbox"] = f"{bbox.west},{bbox.south},{bbox.east},{bbox.north}"
        while True:
            found = wire.read_json(
                await self._ask(wire.HttpRequest("GET", "/v1/subscriptions", params))
            )
            for fields in found["subscriptions"]:
                yield subscription_from_json(fields)
            if found["next"] is None:
                return
            params["after"] = found["next"]

    async def results(self, id: str) -> list[CurrentResult]:
        """The current results of a subscription."""
        return wire.read_results(
            await self._ask(wire.HttpRequest("GET", f"{wire.path_of(id)}/results"))
        )

    async def publish(
        self,
        id: str | Message | None,
        text: str | None = None,
        point: Point | None = None,
        *,
        region: Box | None = None,
        at: float | None = None,
        ttl: float = 0.0,
    ) -> Published:
        """Publish a message; None as its id gets a new one."""
        return wire.read_published(
            await self._ask(wire.publish(id, text, point, region, at, ttl), once=True)
        )

    async def publish_many(self, messages: Iterable[Message | bytes]) -> Bulk:
        """Publish many messages; bad ones are reported by line, and the others are published.

        A message may also be a line of JSON, with its line feed.
        """
        return await self._lines("/v1/messages", map(wire.message_line, messages))

    async def apply(self, events: Iterable[Event], *, stop_at_error: bool = False) -> Bulk:
        """Send the events of a log, in order."""
        params = {"on_error": "stop"} if stop_at_error else {}
        return await self._lines("/v1/events", map(wire.event_line, events), params)

    async def _lines(
        self, path: str, lines: Iterable[bytes], params: dict[str, str] | None = None
    ) -> Bulk:
        total, sent = Bulk(), 0
        for chunk in wire.chunks(lines):
            asked = wire.HttpRequest("POST", path, params or {}, chunk, wire.NDJSON)
            total = wire.together(total, wire.read_bulk(await self._ask(asked, once=True)), sent)
            sent += chunk.count(b"\n")
        return total

    async def last_update(self) -> int:
        """The id of the latest update."""
        answer = await self._answer(
            wire.HttpRequest("GET", "/v1/updates", wire.log_page(0, 1), accept=wire.NDJSON)
        )
        return int(answer.headers["nearcast-last"])

    async def log(self, after: int, up_to_seq: int | None = None) -> AsyncIterator[Logged]:
        """Yield the stored updates after one; with `up_to_seq` wait for those of that event."""
        for attempt in count():
            asked = wire.HttpRequest("GET", "/v1/updates", wire.log_page(after), accept=wire.NDJSON)
            answer = await self._answer(asked)
            for each in wire.read_log(answer.content):
                yield each
            after = int(answer.headers["nearcast-next"])
            if after < int(answer.headers["nearcast-last"]):
                continue
            if up_to_seq is None or int(answer.headers["nearcast-seq"]) >= up_to_seq:
                return
            await self._sleep(wire.pause(min(attempt, 2)))

    async def explain(self, message: str, subscription: str) -> dict[str, Any]:
        """Explain why a message matches a subscription, or does not."""
        params = {"message": message, "subscription": subscription}
        explained: dict[str, Any] = wire.read_json(
            await self._ask(wire.HttpRequest("GET", "/v1/explain", params))
        )
        return explained

    async def updates(
        self, *subscriptions: str, after: int | None = None, gaps: bool = False
    ) -> AsyncIterator[Received | Gap]:
        """Yield updates as they happen; an interrupted stream is resumed.

        Without ids, those of all subscriptions. With `after` it starts with older updates that
        are still kept (0 for all), otherwise with new ones. Each update is given once. With
        `gaps` it also yields a `Gap` for updates that the server no longer has.
        """
        reader = wire.UpdateReader(after)
        for attempt in count():
            params: dict[str, Any] = {"subscription": list(subscriptions)}
            if reader.after is not None:
                params["after"] = reader.after
            before = reader.after
            try:
                timeout = httpx.Timeout(10.0, read=60.0)
                async with aconnect_sse(
                    self._http, "GET", "/v1/updates", params=params, timeout=timeout
                ) as source:
                    answer = source.response
                    if answer.status_code not in wire.RETRIED and not answer.is_success:
                        raise wire.failure(answer.status_code, await answer.aread())
                    if answer.is_success:
                        async for event in source.aiter_sse():
                            for each in reader.read(event):
                                if gaps or isinstance(each, Received):
                                    yield each
            except httpx.TransportError:
                pass
            progress = reader.after != before
            await self._sleep(0.0 if progress else wire.pause(attempt))

    async def _ask(self, asked: wire.HttpRequest, *, once: bool = False) -> bytes:
        return (await self._answer(asked, once=once)).content

    async def _answer(self, asked: wire.HttpRequest, *, once: bool = False) -> httpx.Response:
        headers = {"content-type": asked.kind} if asked.body is not None else {}
        if asked.accept is not None:
            headers["accept"] = asked.accept
        if once:
            headers["idempotency-key"] = uuid4().hex
        for attempt in count():
            last = attempt >= self._retries
            try:
                answer = await self._http.request(
                    asked.method,
                    asked.path,
                    params=asked.params,
                    content=asked.body,
                    headers=headers,
                )
            except httpx.TransportError as error:
                if last:
                    raise wire.unreachable(self._http.base_url, error) from None
                await self._sleep(wire.pause(attempt))
            else:
                if answer.is_success or wire.was_done(asked, answer.status_code, attempt):
                    return answer
                if last or answer.status_code not in wire.RETRIED:
                    raise wire.failure(answer.status_code, answer.content)
                await self._sleep(wire.pause(attempt, answer.headers.get("retry-after")))
        raise AssertionError  # the loop has no other end
