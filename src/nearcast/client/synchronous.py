"""A blocking client."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Self, TypeVar, Unpack

import httpx
from httpx_sse import connect_sse

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


class Client:
    """Talks to a Nearcast server with the verbs of `Engine`.

    Failed requests are retried; a retry never publishes a message twice.

    >>> client = Client("http://127.0.0.1:8080")           # doctest: +SKIP
    >>> client.publish("m1", "iPad sale!", (151.21, -33.87))  # doctest: +SKIP
    Published(id='m1', updates=3)
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8080",
        key: str | None = None,
        *,
        timeout: float = 30.0,
        retries: int = 5,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._core = ClientCore(url, key, retries)
        self._sleep = sleep
        self._timeout = timeout
        self._http = httpx.Client(
            base_url=self._core.url, headers=self._core.headers, timeout=timeout
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections."""
        self._http.close()

    def check_ready(self, timeout: float = 5.0) -> None:
        """Raise `UnreachableError` unless the server answers in time and can work."""
        self._run(self._core.check_ready(timeout))

    def subscribe(
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
        return self._ask(asked, wire.read_subscription)

    def move(
        self,
        id: str,
        region: Place | None = None,
        *,
        point: Place | None = None,
        ttl: float | None = None,
        at: float | None = None,
    ) -> Subscription:
        """Move a subscription to another region, or a top-k one to another point, or both."""
        return self._ask(wire.move(id, region, point, ttl, at), wire.read_subscription)

    def unsubscribe(self, id: str) -> None:
        """End a subscription."""
        self._ask(wire.unsubscribe(id), wire.read_nothing)

    def get(self, id: str) -> Subscription:
        """Look up a subscription."""
        return self._ask(wire.show(id), wire.read_subscription)

    def subscriptions(self, bbox: Box | None = None, page: int = 1000) -> Iterator[Subscription]:
        """All subscriptions in the order of their ids, or those that meet a box."""
        return self._each(self._core.subscriptions(bbox, page))

    def results(self, id: str) -> list[CurrentResult]:
        """The current results of a subscription."""
        return self._ask(wire.results(id), wire.read_results)

    def publish(
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
        return self._ask(asked, wire.read_published)

    def retract(self, id: str) -> int:
        """End a message that is active or in the window; return how many updates that caused."""
        return self._ask(wire.retract(id), wire.read_retracted)

    def message(self, id: str) -> Message:
        """Look up a message that is active, in the window, or in the log of updates."""
        return self._ask(wire.show_message(id), wire.read_message)

    def match(
        self,
        text: str | Message | None = None,
        point: Place | None = None,
        *,
        region: Place | None = None,
        **carried: Unpack[CarriedFields],
    ) -> list[Reached]:
        """The subscriptions that a message would reach now; nothing is stored."""
        return self._ask(wire.match(text, point, region, **carried), wire.read_matches)

    def publish_many(self, messages: Iterable[Message | bytes]) -> Bulk:
        """Publish many messages; bad ones are reported by line, and the others are published.

        A message may also be a line of JSON, with its line feed.
        """
        return self._run(self._core.publish_many(messages))

    def apply(
        self, events: Iterable[Event], *, stop_at_error: bool = False, log_time: bool = False
    ) -> Bulk:
        """Send the events of a log, in order.

        An event without a time has the server's or, with `log_time`, that of the one before.
        """
        talk = self._core.apply(events, stop_at_error=stop_at_error, log_time=log_time)
        return self._run(talk)

    def last_update(self) -> int:
        """The id of the latest update."""
        return self._run(self._core.last_update())

    def log(
        self,
        after: int,
        up_to_seq: int | None = None,
        include: Collection[str] = ALL_INCLUDED,
    ) -> Iterator[Logged]:
        """Yield the stored updates after one; with `up_to_seq` wait for those of that event."""
        return self._each(self._core.log(after, up_to_seq, include))

    def explain(self, message: str, subscription: str) -> dict[str, Any]:
        """Explain why a message matches a subscription, or does not."""
        return self._ask(wire.explain(message, subscription), wire.read_explanation)

    def updates(
        self,
        *subscriptions: str,
        after: int | None = None,
        gaps: bool = False,
        include: Collection[str] = ALL_INCLUDED,
    ) -> Iterator[Received | Gap]:
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
                with connect_sse(
                    self._http, asked.method, asked.path, params=asked.params, timeout=timeout
                ) as source:
                    answer = source.response
                    if stream.refused(answer.status_code, answer.headers):
                        raise failure(Reply(answer.status_code, body=answer.read()))
                    if answer.is_success:
                        for event in source.iter_sse():
                            yield from stream.read(event)
            except httpx.TransportError:
                pass
            self._sleep(stream.pause_s())

    def _ask(self, asked: wire.HttpRequest, read: Callable[[bytes], T]) -> T:
        return self._run(self._core.ask(asked, read))

    def _run(self, talk: Exchange[T]) -> T:
        """Carry out an exchange."""
        try:
            step = next(talk)
            while True:
                step = talk.send(self._do(step))
        except StopIteration as done:
            value: T = done.value
            return value

    def _each(self, talk: Series[T]) -> Iterator[T]:
        """Carry out a series, and yield its values."""
        reply: Reply | None = None
        while True:
            try:
                step = next(talk) if reply is None else talk.send(reply)
            except StopIteration:
                return
            if isinstance(step, list):
                reply = None
                yield from step
            else:
                reply = self._do(step)

    def _do(self, step: Step) -> Reply:
        if isinstance(step, Pause):
            self._sleep(step.seconds)
            return Reply(0)
        try:
            answer = self._http.request(
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
