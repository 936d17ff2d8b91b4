"""A client for asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Self, TypeVar, Unpack

import httpx
from httpx_sse import aconnect_sse

from nearcast.client import wire
from nearcast.client.core import (
    ClientCore,
    Exchange,
    Pause,
    Reply,
    Series,
    Step,
    UpdateStream,
    failure,
)
from nearcast.client.received import Bulk, CurrentResult, Gap, Logged, Published, Received
from nearcast.events import Event, Message, Reached, Subscription
from nearcast.events.bodies import ALL_INCLUDED
from nearcast.events.given import CarriedFields, GivenTop, Place
from nearcast.geo import Box

T = TypeVar("T")


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
        self._core = ClientCore(url, key, retries)
        self._sleep = sleep
        self._timeout = timeout
        self._http = httpx.AsyncClient(
            base_url=self._core.url, headers=self._core.headers, timeout=timeout
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
        await self._run(self._core.check_ready(timeout))

    async def subscribe(
        self,
        id: str | Subscription | None,
        query: str | None = None,
        region: Place | None = None,
        *,
        point: Place | None = None,
        top: GivenTop | None = None,
        filter: str | None = None,
        meta: Mapping[str, Any] | None = None,
        ttl: float | None = None,
        ops: Collection[str] | None = None,
        at: float | None = None,
    ) -> Subscription:
        """Add a subscription, or replace the one with this id; None gets a new id."""
        asked = wire.subscribe(id, at, query, region, point, top, filter, meta, ttl, ops)
        return await self._ask(asked, wire.read_subscription)

    async def move(
        self,
        id: str,
        region: Place | None = None,
        *,
        point: Place | None = None,
        ttl: float | None = None,
        at: float | None = None,
    ) -> Subscription:
        """Move a subscription to another region, or a top-k one to another point, or both."""
        return await self._ask(wire.move(id, region, point, ttl, at), wire.read_subscription)

    async def unsubscribe(self, id: str) -> None:
        """End a subscription."""
        await self._ask(wire.unsubscribe(id), wire.read_nothing)

    async def get(self, id: str) -> Subscription:
        """Look up a subscription."""
        return await self._ask(wire.show(id), wire.read_subscription)

    def subscriptions(
        self, bbox: Box | None = None, page: int = 1000
    ) -> AsyncIterator[Subscription]:
        """All subscriptions in the order of their ids, or those that meet a box."""
        return self._each(self._core.subscriptions(bbox, page))

    async def results(self, id: str) -> list[CurrentResult]:
        """The current results of a subscription."""
        return await self._ask(wire.results(id), wire.read_results)

    async def publish(
        self,
        id: str | Message | None,
        text: str | None = None,
        point: Place | None = None,
        *,
        region: Place | None = None,
        at: float | None = None,
        ttl: float | None = None,
        **carried: Unpack[CarriedFields],
    ) -> Published:
        """Publish a message, or replace the one with this id; None gets a new id."""
        asked = wire.publish(id, text, point, region, at, ttl, **carried)
        return await self._ask(asked, wire.read_published)

    async def retract(self, id: str) -> int:
        """End a message that is active or in the window; return how many updates that caused."""
        return await self._ask(wire.retract(id), wire.read_retracted)

    async def message(self, id: str) -> Message:
        """Look up a message that is active, in the window, or in the log of updates."""
        return await self._ask(wire.show_message(id), wire.read_message)

    async def match(
        self,
        text: str | Message | None = None,
        point: Place | None = None,
        *,
        region: Place | None = None,
        **carried: Unpack[CarriedFields],
    ) -> list[Reached]:
        """The subscriptions that a message would reach now; nothing is stored."""
        return await self._ask(wire.match(text, point, region, **carried), wire.read_matches)

    async def publish_many(self, messages: Iterable[Message | bytes]) -> Bulk:
        """Publish many messages; bad ones are reported by line, and the others are published.

        A message may also be a line of JSON, with its line feed.
        """
        return await self._run(self._core.publish_many(messages))

    async def apply(
        self, events: Iterable[Event], *, stop_at_error: bool = False, log_time: bool = False
    ) -> Bulk:
        """Send the events of a log, in order.

        An event without a time has the server's or, with `log_time`, that of the one before.
        """
        talk = self._core.apply(events, stop_at_error=stop_at_error, log_time=log_time)
        return await self._run(talk)

    async def last_update(self) -> int:
        """The id of the latest update."""
        return await self._run(self._core.last_update())

    def log(
        self,
        after: int,
        up_to_seq: int | None = None,
        include: Collection[str] = ALL_INCLUDED,
    ) -> AsyncIterator[Logged]:
        """Yield the stored updates after one; with `up_to_seq` wait for those of that event."""
        return self._each(self._core.log(after, up_to_seq, include))

    async def explain(self, message: str, subscription: str) -> dict[str, Any]:
        """Explain why a message matches a subscription, or does not."""
        return await self._ask(wire.explain(message, subscription), wire.read_explanation)

    async def updates(
        self,
        *subscriptions: str,
        after: int | None = None,
        gaps: bool = False,
        include: Collection[str] = ALL_INCLUDED,
    ) -> AsyncIterator[Received | Gap]:
        """Yield updates as they happen; an interrupted stream is resumed.

        Without ids, those of all subscriptions. With `after` it starts with older updates that
        are still kept (0 for all), otherwise with new ones. Each update is given once. With
        `gaps` it also yields a `Gap` for updates that the server no longer has. `include` names
        what updates have besides: the `message` as their body, the `meta` of the subscription.
        """
        stream = UpdateStream(subscriptions, after, gaps=gaps, include=include)
        timeout = httpx.Timeout(stream.connect_s, read=stream.read_s)
        while True:
            asked = stream.request()
            try:
                async with aconnect_sse(
                    self._http, asked.method, asked.path, params=asked.params, timeout=timeout
                ) as source:
                    answer = source.response
                    if stream.refused(answer.status_code, answer.headers):
                        raise failure(Reply(answer.status_code, body=await answer.aread()))
                    if answer.is_success:
                        async for event in source.aiter_sse():
                            for each in stream.read(event):
                                yield each
            except httpx.TransportError:
                pass
            await self._sleep(stream.pause_s())

    async def _ask(self, asked: wire.HttpRequest, read: Callable[[bytes], T]) -> T:
        return await self._run(self._core.ask(asked, read))

    async def _run(self, talk: Exchange[T]) -> T:
        """Carry out an exchange."""
        try:
            step = next(talk)
            while True:
                step = talk.send(await self._do(step))
        except StopIteration as done:
            value: T = done.value
            return value

    async def _each(self, talk: Series[T]) -> AsyncIterator[T]:
        """Carry out a series, and yield its values."""
        reply: Reply | None = None
        while True:
            try:
                step = next(talk) if reply is None else talk.send(reply)
            except StopIteration:
                return
            if isinstance(step, list):
                reply = None
                for each in step:
                    yield each
            else:
                reply = await self._do(step)

    async def _do(self, step: Step) -> Reply:
        if isinstance(step, Pause):
            await self._sleep(step.seconds)
            return Reply(0)
        try:
            answer = await self._http.request(
                step.method,
                step.path,
                params=step.params,
                content=step.body,
                headers=step.headers,
                timeout=self._timeout if step.timeout is None else step.timeout,
            )
        except httpx.TransportError as error:
            return Reply(0, broken=str(error))
        return Reply(answer.status_code, answer.headers, answer.content)
