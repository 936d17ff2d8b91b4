"""The embedded engine: the public class, in this process, in memory or with a file behind it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any, Self, Unpack

from nearcast.engine.applying import Admission, apply_admitted, apply_events, apply_one
from nearcast.engine.changes import ChangingCall, EngineChanges
from nearcast.engine.core import EventCore, make_core
from nearcast.engine.directory import Directory, PagePart
from nearcast.engine.journal import Clock, Journal, MemoryJournal
from nearcast.engine.names import RANKING_NAMES, check_index
from nearcast.engine.outcome import EventOutcome
from nearcast.engine.plain import ROWS, CountingScan, begins_plain, go_over, is_due
from nearcast.engine.settings import GivenSettings, Settings
from nearcast.engine.update_log import UpdateLog
from nearcast.errors import InvalidValue, NearcastError, StateError
from nearcast.events import (
    Event,
    Message,
    Move,
    Publish,
    Reached,
    Result,
    Retract,
    Subscribe,
    Subscription,
    Unsubscribe,
    Update,
)
from nearcast.events.given import CarriedFields, GivenTop, Place, given_message, given_subscription
from nearcast.geo import Box, as_point, as_region
from nearcast.text import DEFAULT, Analyser, Vocabulary

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from nearcast.store import Lineage, WebhookTable

_AT_A_TIME = 256  # events between two checks whether plain code should go over to an index
_MANY = 1 << 16  # rows of a table that take much memory while they are read

Answers = Mapping[str, bytes] | Callable[[list[EventOutcome]], Mapping[str, bytes]]


class Engine:
    """Keeps subscriptions, and answers each message with the subscriptions it concerns.

    Every method that changes something takes `at`, the event time in seconds, and returns the
    updates it caused. Time never decreases; without `at` an event has the time of the one before.

    `window_count` or `window_seconds` say what top-k subscriptions choose from, `space` how far
    away the farthest point can be, and `history` (a `Vocabulary`) what each term weighs.

    With a `path` the engine is durable: what a call changed is on the disk when it returns, and an
    engine made with the same path later goes on from there. Such an engine holds a lock on its
    file until `close`, or the end of a `with` block. The file keeps its settings: leave them out
    to use them, others are refused. `retain_seconds` and `retain_updates` say for how long `log`
    keeps updates; `clock` gives the seconds since 1970 that this is measured by.

    An engine begins on plain code, which needs no kernels to be loaded or compiled, and goes over
    to its index by itself when it has grown; updates are the same. `index` names an index to use
    from the start, with options or without (`ap-tree`, `ap-tree:order=idf,fanout=100`), or `scan`
    to stay on plain code. `ranking` names what keeps the results of top-k subscriptions: `skype` is
    the system of the paper, to compare with; results are the same.

    One thread may use an engine at a time; others may only use `log`, `recall` and `backup`.

    >>> from nearcast import Circle, Engine
    >>> engine = Engine()
    >>> engine.subscribe("s1", "ipad AND (discount OR sale)", Circle((151.2, -33.87), radius=2000))
    []
    >>> engine.publish("m1", "iPad sale!", (151.21, -33.87))
    [Update(op='add', subscription='s1', message='m1', score=None)]
    >>> engine.match("An iPad at a discount", (151.2, -33.87))
    [Reached(subscription='s1', score=None)]

    Regions and points are those of this package, or what other libraries and formats have for
    them: GeoJSON, shapely, WKT and WKB, anything with `__geo_interface__`.
    """

    def __init__(
        self,
        *,
        path: str | Path | None = None,
        index: str = "auto",
        ranking: str = "auto",
        window_count: int | None = None,
        window_seconds: float | None = None,
        space: Box | None = None,
        history: Vocabulary | None = None,
        analyser: Analyser | None = None,
        retain_seconds: float | None = None,
        retain_updates: int | None = None,
        clock: Clock = time,
    ) -> None:
        check_index(index)
        if ranking not in RANKING_NAMES:
            raise InvalidValue("ranking", ranking, f"one of {', '.join(RANKING_NAMES)}")
        if index == "scan" and ranking != "auto":
            raise InvalidValue("ranking", ranking, "auto, as index 'scan' is plain code throughout")
        given = GivenSettings(window_count, window_seconds, space, history, analyser)
        self._index, self._ranking, self._path = index, ranking, path
        self._journal: Journal
        self._webhooks: WebhookTable | None = None
        self.lineage: Lineage | None = None
        """The numbers of its commits, for a server that others follow; None in memory."""
        if path is None:
            self._journal = MemoryJournal(given.settings(), clock, retain_updates)
        else:
            from nearcast.store import open_store

            self._journal = store = open_store(path, given, clock, retain_seconds, retain_updates)
            self._webhooks, self.lineage = store.webhooks, store.lineage
        self._closed = False
        self._core: EventCore | None = None
        try:
            self._ready()
        except BaseException:
            self.close()
            raise

    def _ready(self) -> EventCore:
        """The core, restored from the file if the latest call could not be stored."""
        if self._closed:
            raise StateError("engine: it is closed; make another one")
        if self._core is None:
            core = self._new_core(self._journal.settings)
            self._journal.restore(core)
            self._core, self._directory = core, Directory(core)
        return self._core

    def _new_core(self, settings: Settings) -> EventCore:
        any_core = self._index == self._ranking == "auto"
        if any_core and begins_plain(*self._journal.size()):
            return CountingScan(settings)
        return make_core(self._index, settings, self._ranking)

    def _grown(self, rows: int = 0) -> EventCore:
        """The core for a table of `rows` rows; it goes over to an index if it is time for that."""
        core = self._ready()
        if isinstance(core, CountingScan) and (rows >= ROWS or is_due(core)):
            self.go_over()
            return self._ready()
        return core

    def go_over(self) -> None:
        """Go over from plain code to an index, if that has not happened yet.

        An engine does this by itself when it has grown and its kernels are there. This call does
        it at once, and may have to compile kernels first.
        """
        core = self._ready()
        if isinstance(core, CountingScan):
            self._core = go_over(core)
            self._directory = Directory(self._core)

    def _call(self) -> ChangingCall:
        """Change the core and store the changes; undo them if they cannot be stored."""
        self._ready()
        return ChangingCall(EngineChanges(self._journal.seq, self._journal.log.last), self._undo)

    def _undo(self, changes: EngineChanges, error: BaseException) -> None:
        kept = isinstance(error, NearcastError) and self._journal.seq == changes.seq
        if not kept and self._journal.heals:
            self._core = None  # the file has exactly what was acknowledged

    def _keep(self, changes: EngineChanges, answers: Mapping[str, bytes]) -> None:
        if changes.seq > changes.before or answers:
            self._journal.commit(self._ready(), changes, answers)
            if self._webhooks is not None and not self._journal.heals:
                self._webhooks.end(changes.ended)
        self._directory.follow(changes)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file, if there is one; closing twice does no harm."""
        if not self._closed:
            self._closed = True
            self._journal.close(self._core)
            self._core = None

    @property
    def settings(self) -> Settings:
        """The settings that the engine was created with."""
        return self._journal.settings

    @property
    def log(self) -> UpdateLog:
        """The updates of all events so far, for as long as they are kept."""
        return self._journal.log

    @property
    def webhooks(self) -> WebhookTable:
        """The webhooks of its subscriptions, for a server; each ends with its subscription."""
        if self._webhooks is None:
            from nearcast.store import webhooks_in_memory

            self._webhooks = webhooks_in_memory()
        return self._webhooks

    @property
    def seq(self) -> int:
        """How many events were accepted so far: the number of the latest."""
        return self._journal.seq

    @property
    def now(self) -> float | None:
        """The time of the latest event; None before the first."""
        return self._ready().now

    def apply(self, event: Event) -> list[Update]:
        """Apply one event of a log; the methods below create the event for you."""
        with self._call() as changes:
            updates = apply_one(self._grown(), event, changes)
            self._keep(changes, {})
        return updates

    def apply_all(
        self,
        events: Iterable[Event],
        remember: Answers | None = None,
        *,
        stop: bool = False,
        admission: Admission | None = None,
    ) -> list[EventOutcome]:
        """Apply many events in order, and return their outcomes.

        A refused event changes nothing, and the rest are applied. All changes are stored
        together or, if the process ends before this returns, perhaps not at all. `remember` has
        answers to store with them under idempotency keys, or is called with the outcomes to get
        them. With `stop` the events after the first refused one are not applied, and have no
        outcome. `admission` may refuse events that would be accepted otherwise.
        """
        events = list(events)
        with self._call() as changes:
            outcomes: list[EventOutcome] = []
            while len(outcomes) < len(events):
                core = self._grown()
                some = events[len(outcomes) :][: _AT_A_TIME if core.plain else None]
                if admission is None or admission.admits_all(core, some):
                    outcomes += apply_events(core, some, changes, stop)
                else:
                    some = some[:_AT_A_TIME]
                    outcomes += apply_admitted(core, some, changes, stop, admission)
                if stop and outcomes[-1].error is not None:
                    break
            answers = remember(outcomes) if callable(remember) else remember or {}
            self._keep(changes, answers)
        return outcomes

    def subscribe(
        self,
        id: str | Subscription,
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
    ) -> list[Update]:
        """Add a subscription, or replace the one with this id.

        Give a `query`, a `region` or both; for the k best messages only, a query, a `point` and
        `top`, and perhaps a `filter` and a region. `meta` is given back with every update; after
        `ttl` seconds it ends; of `ops` alone (`add`, `remove`, `change`) it gets updates. A
        ready-made `Subscription` may be given instead of all of them.
        """
        made = given_subscription(id, query, region, point, top, filter, meta, ttl, ops)
        return self.apply(Subscribe(made, at))

    def move(
        self,
        id: str,
        region: Place | None = None,
        *,
        point: Place | None = None,
        ttl: float | None = None,
        at: float | None = None,
    ) -> list[Update]:
        """Move a subscription to another region, or a top-k one to another point, or both.

        With a `ttl` it ends that many seconds from now; otherwise its end stays as it is.
        """
        where = None if region is None else as_region(region)
        return self.apply(Move(id, where, None if point is None else as_point(point), at, ttl))

    def unsubscribe(self, id: str, *, at: float | None = None) -> list[Update]:
        """End a subscription; it gets no updates for that."""
        return self.apply(Unsubscribe(id, at))

    def publish(
        self,
        id: str | Message | None = None,
        text: str | None = None,
        point: Place | None = None,
        *,
        region: Place | None = None,
        at: float | None = None,
        ttl: float | None = None,
        **carried: Unpack[CarriedFields],
    ) -> list[Update]:
        """Publish a message at a point or over an area; without an id it gets a new one.

        A message with this id that is active or in the window is replaced. A ready-made `Message`
        may be given instead of all arguments.
        """
        return self.apply(Publish(given_message(id, text, point, region, at, ttl, **carried)))

    def retract(self, id: str, *, at: float | None = None) -> list[Update]:
        """End a message that is active or in the window before its time."""
        return self.apply(Retract(id, at))

    def match(
        self,
        text: str | Message | None = None,
        point: Place | None = None,
        *,
        region: Place | None = None,
        **carried: Unpack[CarriedFields],
    ) -> list[Reached]:
        """The subscriptions that a message would reach if it were published now.

        They are in the order of their ids, with the score of those that rank. Nothing is stored.
        """
        if isinstance(text, Message):
            message = given_message(text, None, point, region, **carried)
        else:
            message = given_message(None, text, point, region, **carried)
        return [Reached(found.message, found.score) for found in self._ready().match(message)]

    def results(self, id: str) -> list[Result]:
        """The current results of a subscription: active messages, or the k best in order."""
        return self._ready().results(id)

    def subscriptions(self) -> list[Subscription]:
        """All subscriptions, as they are now."""
        return self._ready().subscriptions()

    @property
    def count(self) -> int:
        """How many subscriptions there are."""
        return len(self._ready())

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        return True  # also without subscriptions

    def __repr__(self) -> str:
        where = f"path={str(self._path)!r}" if self._path is not None else "in memory"
        if self._closed:
            return f"<Engine {where}, closed>"
        ending, last = "" if len(self) == 1 else "s", "" if self.seq == 1 else "s"
        return f"<Engine {where}, {len(self):,} subscription{ending}, {self.seq:,} event{last}>"

    def _repr_html_(self) -> str:
        """Show what a notebook shows of it: some of its subscriptions, on a map and as a table."""
        from nearcast.events.html import MOST_SHOWN, about_engine

        return about_engine(repr(self), [] if self._closed else self.page(limit=MOST_SHOWN))

    def figures(self) -> dict[str, float]:
        """Figures for monitoring: sizes, and the rows that the index has looked at."""
        core = self._ready()
        active = core.active.living(core.now or 0.0)
        return {"subscriptions": float(len(core)), "active": float(active), **core.figures()}

    def get(self, id: str) -> Subscription | None:
        """Look up a subscription."""
        return self._ready().subscription(id)

    def lives(self, id: str, at: float) -> bool:
        """Whether a subscription has not ended by a time, which no event need have reached."""
        return self._ready().attributes.lives(id, at)

    def page(
        self, after: str | None = None, limit: int = 100, bbox: Box | None = None
    ) -> list[Subscription]:
        """The first `limit` subscriptions with ids after `after`, in the order of their ids.

        With `bbox` only those that share a point with that box.
        """
        found: list[Subscription] = []
        part = PagePart([], after, limit <= 0)
        while not part.is_last and len(found) < limit:
            part = self.page_part(part.after, limit - len(found), bbox)
            found += part.found
        return found

    def page_part(
        self, after: str | None, limit: int, bbox: Box | None, most: int = 2000
    ) -> PagePart:
        """Look at up to `most` subscriptions for a page, so that others may use the engine."""
        self._ready()
        return self._directory.part(after, limit, bbox, most)

    def message(self, id: str) -> Message | None:
        """Look up a message that is still active or in the window."""
        return self._ready().message(id)

    def remember(self, key: str, answer: bytes, at: float | None = None) -> None:
        """Store an answer under an idempotency key for a day from `at`, in seconds since 1970."""
        self._ready()
        self._journal.remember(key, answer, at)

    def stored_bytes(self) -> int:
        """How many bytes of its file are in use; 0 in memory."""
        return self._journal.stored_bytes()

    def frees_by(self, at: float) -> bool:
        """Whether an event of that time would have something stored removed."""
        return self._journal.frees_by(at)

    def recall(self, key: str) -> bytes | None:
        """The answer stored under an idempotency key, if there is one."""
        self._ready()
        return self._journal.recall(key)

    def backup(self, path: str | Path) -> None:
        """Write a consistent copy of the engine's file, while it is in use if need be."""
        self._ready()
        self._journal.backup(path)

    def boxes(self) -> npt.NDArray[np.float64]:
        """The bounding boxes of all subscriptions, as rows of west, south, east, north.

        They are in no order. A top-k subscription has its point; of a region on both sides of the
        antimeridian one part is given.
        """
        from nearcast.engine.boxes import bounding_boxes

        return bounding_boxes(self._ready())

    def subscribe_table(self, table: Any) -> pa.Table:
        """Register many subscriptions at once; see `publish_table`.

        A region may also be WKT, WKB, GeoJSON text or GeoArrow, as `nearcast.geo.columns` has them.
        """
        return self._apply_table("subscribe", table)

    def move_table(self, table: Any) -> pa.Table:
        """Move many subscriptions at once: a table of places in, a table of updates out.

        It has the columns `id` and `region` (`point` for a top-k subscription), and `at` if time
        passes. An id may occur several times. See `publish_table`.
        """
        return self._apply_table("move", table)

    def publish_table(self, table: Any) -> pa.Table:
        """Publish many messages at once, in Arrow: a table in, a table of updates out.

        `table` is a `pyarrow.Table` or anything with `__arrow_c_stream__`, with the columns of
        the event log. Points may also be two columns `lon` and `lat`, and points and regions WKB,
        WKT or GeoArrow, in their own columns or in one called `geometry`. Without a column `id`
        every message gets a new id. The answer has the columns `event` (the row that caused the
        update), `op`, `subscription`, `message` and `score`. A row that is not valid is refused
        before any row takes effect; one whose query is rejected, or that does not fit the state of
        the engine, ends the call there, in a `TableError` with the updates of the rows before it.
        """
        return self._apply_table("publish", table)

    def _apply_table(self, op: str, table: Any) -> pa.Table:
        from nearcast.arrays.memory import give_back
        from nearcast.engine.tables import TableError, apply_table, as_table

        table = as_table(table)
        with self._call() as changes:
            try:
                updates = apply_table(self._grown(len(table)), op, table, changes)
            except TableError:
                self._keep(changes, {})  # the rows before it took effect
                raise
            self._keep(changes, {})
        if op == "subscribe" and len(table) >= _MANY:
            give_back()  # reading them took as much again
        return updates


def history_from(path: str | Path, analyser: Analyser = DEFAULT) -> Vocabulary:
    """Count the terms of the messages in an event log, for the weights of top-k."""
    from nearcast.engine.history import read_history

    return read_history(path, analyser)
