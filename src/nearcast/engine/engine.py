"""The embedded engine: the public class, in this process and in memory."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from nearcast.engine.names import INDEX_NAMES
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import InvalidValue
from nearcast.geo import WORLD, Box, Region
from nearcast.model import (
    Event,
    Message,
    Move,
    Point,
    Publish,
    Result,
    Subscribe,
    Subscription,
    Top,
    Unsubscribe,
    Update,
)
from nearcast.text import DEFAULT, Analyser, Vocabulary
from nearcast.topk import Window

if TYPE_CHECKING:
    import pyarrow as pa


class Core(Protocol):
    """What does the matching behind an engine: the place where an index plugs in."""

    settings: Settings

    def apply(self, event: Event) -> list[Update]:
        """Take one event and give its updates, in order; one that is refused changes nothing."""
        ...

    def results(self, id: str) -> list[Result]:
        """What is in a subscription's results now."""
        ...

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions, as they are now."""
        ...


def _core(index: str, settings: Settings) -> Core:
    if index == "scan":
        return Scan(settings)
    from nearcast.engine.indexed import Indexed

    return Indexed(settings, index)


class Engine:
    """Keeps subscriptions, and answers each message with the subscriptions it concerns.

    Every method that changes something takes `at`, the event time in seconds, and returns the
    updates it caused. Time never decreases; without `at` an event has the time of the one before.

    `window_count` or `window_seconds` say what top-k subscriptions choose from, `space` how far
    away the farthest point can be, and `history` (a `Vocabulary`) what each term weighs.

    >>> from nearcast import Circle, Engine
    >>> engine = Engine()
    >>> engine.subscribe("s1", "ipad AND (discount OR sale)", Circle((151.2, -33.87), radius=2000))
    []
    >>> engine.publish("m1", "iPad sale!", (151.21, -33.87))
    [Update(op='add', subscription='s1', message='m1', score=None)]
    """

    def __init__(
        self,
        *,
        index: str = "auto",
        window_count: int | None = None,
        window_seconds: float | None = None,
        space: Box = WORLD,
        history: Vocabulary | None = None,
        analyser: Analyser = DEFAULT,
    ) -> None:
        if index not in INDEX_NAMES:
            raise InvalidValue("index", index, f"one of {', '.join(INDEX_NAMES)}")
        window = Window(window_count, window_seconds)
        self._core = _core(index, Settings(window, space, history, analyser))

    @property
    def settings(self) -> Settings:
        """What the engine was told when it was made."""
        return self._core.settings

    def apply(self, event: Event) -> list[Update]:
        """Take one event of a log; the methods below make the event for you."""
        return self._core.apply(event)

    def subscribe(
        self,
        id: str | Subscription,
        query: str | None = None,
        region: Region | None = None,
        *,
        point: Point | None = None,
        top: Top | None = None,
        at: float | None = None,
    ) -> list[Update]:
        """Register a standing interest, or replace the one with this id.

        Give a `region`, or a `point` and `top` for the k best messages only. A ready-made
        `Subscription` may stand in place of all of them.
        """
        if isinstance(id, Subscription):
            _check_alone(id, query, region, point, top)
        else:
            id = Subscription(id, query, region, point, top)  # type: ignore[arg-type]  # checked there
        return self._core.apply(Subscribe(id, at))

    def move(
        self,
        id: str,
        region: Region | None = None,
        *,
        point: Point | None = None,
        at: float | None = None,
    ) -> list[Update]:
        """Take a subscription to another region, or a top-k one to another point."""
        return self._core.apply(Move(id, region, point, at))

    def unsubscribe(self, id: str, *, at: float | None = None) -> list[Update]:
        """End a subscription; it gets no updates for that."""
        return self._core.apply(Unsubscribe(id, at))

    def publish(
        self,
        id: str | Message,
        text: str | None = None,
        point: Point | None = None,
        *,
        region: Box | None = None,
        at: float | None = None,
        ttl: float = 0.0,
    ) -> list[Update]:
        """Send a message from a point, or over a box, to everyone it concerns.

        A ready-made `Message` may stand in place of all arguments.
        """
        if isinstance(id, Message):
            _check_alone(id, text, point, region, at, ttl or None)
        else:
            id = Message(id, text, point, region, at, ttl)  # type: ignore[arg-type]  # checked there
        return self._core.apply(Publish(id))

    def results(self, id: str) -> list[Result]:
        """What a subscription's results are now: active lasting messages, or the ranked k best."""
        return self._core.results(id)

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions, as they are now."""
        return self._core.subscriptions()

    def subscribe_table(self, table: Any) -> pa.Table:
        """Register many subscriptions at once; see `publish_table`."""
        from nearcast.engine.tables import apply_table

        return apply_table(self._core, "subscribe", table)

    def move_table(self, table: Any) -> pa.Table:
        """Move many subscriptions at once: a table of places in, a table of updates out.

        It has the columns `id` and `region` (`point` for a top-k subscription), and `at` if time
        passes. An id may stand there several times. See `publish_table`.
        """
        from nearcast.engine.tables import apply_table

        return apply_table(self._core, "move", table)

    def publish_table(self, table: Any) -> pa.Table:
        """Publish many messages at once, in Arrow: a table in, a table of updates out.

        `table` is a `pyarrow.Table` or anything with `__arrow_c_stream__`, with the columns of
        the event log. The answer has the columns `event` (the row that caused the update), `op`,
        `subscription`, `message` and `score`. A row that is not valid is refused before any row
        takes effect; one that does not fit the state of the engine ends the call there, in a
        `TableError` that carries the updates of the rows before it.
        """
        from nearcast.engine.tables import apply_table

        return apply_table(self._core, "publish", table)


def _check_alone(ready_made: Subscription | Message, *others: object) -> None:
    """Refuse what a ready-made object says itself, and which would else be passed over."""
    for other in others:
        if other is not None:
            kind = type(ready_made).__name__
            raise InvalidValue(kind, other, f"nothing beside a ready-made {kind}: put it in there")


def history_from(path: str | Path, analyser: Analyser = DEFAULT) -> Vocabulary:
    """Count the terms of the messages in an event log, for the weights of top-k."""
    from nearcast.engine.history import read_history

    return read_history(path, analyser)
