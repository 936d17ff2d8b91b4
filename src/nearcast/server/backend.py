"""The engine of a tenant, owned by one thread, and the batches that it commits.

Requests that arrive while the thread is busy are queued and then applied as one batch with one
commit: the busier the server, the larger the batches. Reads go through the same queue.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from time import monotonic, perf_counter
from typing import Any, Protocol, TypeVar

from nearcast.engine import Engine
from nearcast.engine.outcome import EventOutcome
from nearcast.engine.update_log import Entry, UpdateLog, entry_of
from nearcast.errors import StateError
from nearcast.events import Event, Publish
from nearcast.server.costs import event_cost
from nearcast.server.jobs import JobQueue
from nearcast.server.problems import Problem
from nearcast.server.quotas import TenantQuotas
from nearcast.server.standby.records import CommitRecord, repeat_commits
from nearcast.server.standby.stream import CommitStream, not_replicated
from nearcast.server.telemetry import Telemetry

T = TypeVar("T")
Remember = Callable[[Sequence[EventOutcome]], bytes | None]
"""Encodes the response to store under an idempotency key, or None to store nothing."""
_PROBE = "/readyz"  # a row that is written to see whether one can be
_PROBE_S = 5.0
_PROOF_S = 5.0


@dataclass(slots=True)
class CommittedBatch:
    """Events that were applied together, with the outcome and the time of each.

    `unhooked` are subscriptions that ended, and their webhooks with them.
    """

    events: Sequence[Event]
    outcomes: Sequence[EventOutcome]
    times: Sequence[float]
    last: int
    seq: int
    seconds: float
    unhooked: Sequence[str] = ()

    def accepted(self) -> list[Event]:
        """The events that were not refused."""
        pairs = zip(self.events, self.outcomes, strict=True)
        return [event for event, outcome in pairs if outcome.error is None]

    def entries(self) -> Iterator[Entry]:
        """Their updates as entries of the log."""
        for outcome, at in zip(self.outcomes, self.times, strict=True):
            if outcome.updates and outcome.seq is not None:
                for id, update in enumerate(outcome.updates, outcome.first_id):
                    yield entry_of(id, outcome.seq, at, update)


@dataclass(slots=True)
class _ApplyJob:
    events: Sequence[Event]
    answer: asyncio.Future[Any]
    key: str | None = None
    remember: Remember | None = None
    stop: bool = False
    stamped: bool = True
    origin: object = None


@dataclass(slots=True)
class _RepeatJob:
    records: Sequence[CommitRecord]
    answer: asyncio.Future[Any]


@dataclass(slots=True)
class _ReadJob:
    ask: Callable[[Engine], Any]
    answer: asyncio.Future[Any]
    changes: bool = False
    then: Callable[[Any], None] | None = None


_Job = _ApplyJob | _ReadJob | _RepeatJob


class CommitObserver(Protocol):
    """Receives every batch in order, in the thread of the event loop."""

    def committed(self, batch: CommittedBatch) -> None:
        """Handle a batch."""
        ...


class EngineThread:
    """Runs an engine in a thread of its own; its methods are called from the event loop.

    `gate` raises a problem when no events are accepted. With `confirmed_within_s` a standby has
    to confirm a commit before it is answered and its updates are delivered. Events beyond
    `quotas` are refused.

    `size` of a method is how many bytes the request has that is to wait. Of requests with more
    than `most_bytes` together, one alone may wait; others are refused.
    """

    def __init__(
        self,
        engine: Engine,
        observer: CommitObserver,
        clock: Callable[[], float],
        name: str = "default",
        *,
        gate: Callable[[], None] = lambda: None,
        confirmed_within_s: float | None = None,
        quotas: TenantQuotas | None = None,
        telemetry: Telemetry | None = None,
        most_bytes: float = math.inf,
    ) -> None:
        self._telemetry = Telemetry() if telemetry is None else telemetry
        self._quotas = quotas
        self.log: UpdateLog = engine.log
        self._gate = gate
        self._engine = engine
        self._observer = observer
        self._clock = clock
        self._loop = asyncio.get_running_loop()
        self.commits = CommitStream(self._loop, confirmed_within_s, self.position)
        self._jobs: JobQueue[_Job] = JobQueue(most_bytes)
        self._closed = False
        self.failed = False  # whether the latest commit failed
        self._wrote = monotonic()
        self._probing = asyncio.Lock()
        self._thread = Thread(target=self._work, name=f"writer-{name}", daemon=True)
        self._thread.start()

    @property
    def position(self) -> int:
        """The number of the latest commit; 0 if they are not counted."""
        return 0 if self._engine.lineage is None else self._engine.lineage.position

    @property
    def waiting(self) -> int:
        """How many requests are queued."""
        return len(self._jobs)

    @property
    def waiting_bytes(self) -> int:
        """How many bytes the queued requests have."""
        return self._jobs.size

    def apply(
        self,
        events: Sequence[Event],
        *,
        stop: bool = False,
        stamped: bool = True,
        cost: int | None = None,
        size: int = 0,
    ) -> asyncio.Future[Sequence[EventOutcome]]:
        """Apply events in order; they are durable once the future is done.

        With `stop` the events after a refused one are not applied, and have no outcome. With
        `stamped` an event without a time gets that of the server. `cost` is what they cost, if
        it is known already.
        """
        self._gate()
        answer: asyncio.Future[Sequence[EventOutcome]] = self._loop.create_future()
        self._put(_ApplyJob(events, answer, stop=stop, stamped=stamped), cost, size)
        return answer

    def apply_once(
        self,
        key: str,
        events: Sequence[Event],
        remember: Remember,
        *,
        stop: bool = False,
        stamped: bool = True,
        cost: int | None = None,
        size: int = 0,
    ) -> asyncio.Future[bytes | Sequence[EventOutcome]]:
        """Apply events, unless a response is stored under the key: then return that."""
        self._gate()
        answer: asyncio.Future[bytes | Sequence[EventOutcome]] = self._loop.create_future()
        self._put(_ApplyJob(events, answer, key, remember, stop, stamped), cost, size)
        return answer

    def change(
        self,
        question: Callable[[Engine], T],
        then: Callable[[T], None] | None = None,
        *,
        size: int = 0,
    ) -> asyncio.Future[T]:
        """Call a function that changes what the engine stores, if changes are accepted.

        `then` is called with its result once a standby has confirmed the change, if it has to:
        also when that came too late for the answer.
        """
        self._gate()

        def changing(engine: Engine) -> T:
            self._gate()  # closed meanwhile, perhaps
            return question(engine)

        answer: asyncio.Future[T] = self._loop.create_future()
        self._put(_ReadJob(changing, answer, changes=True, then=then), size=size)
        return answer

    def ask(self, question: Callable[[Engine], T], *, size: int = 0) -> asyncio.Future[T]:
        """Call a function with the engine between two batches, and return its result."""
        answer: asyncio.Future[T] = self._loop.create_future()
        self._put(_ReadJob(question, answer), size=size)
        return answer

    def repeat(self, records: Sequence[CommitRecord]) -> asyncio.Future[None]:
        """Make commits of a primary here too; they are durable once the future is done."""
        answer: asyncio.Future[None] = self._loop.create_future()
        self._put(_RepeatJob(records, answer))
        return answer

    def _put(self, job: _Job, cost: int | None = None, size: int = 0) -> None:
        if self._closed:
            raise StateError("the server is stopping; try again when it is back")
        self._jobs.check_room(size)
        if not isinstance(job, _ApplyJob):
            self._jobs.put(job, size=size)
            return
        job.origin = self._telemetry.origin()
        if cost is None:
            cost = sum(map(event_cost, job.events))
        self._jobs.put(job, len(job.events), cost, size)

    async def check_writable(self) -> None:
        """Raise an error if nothing can be committed now; what was just committed is proof."""
        async with self._probing:
            if self.failed or monotonic() - self._wrote >= _PROOF_S:
                async with asyncio.timeout(_PROBE_S):
                    await self.change(self._probe)

    def _probe(self, engine: Engine) -> None:
        self.failed = True
        engine.remember(_PROBE, b"")
        self._proved()

    def _proved(self) -> None:
        self.failed = False
        self._wrote = monotonic()

    async def backup(self, path: Path) -> None:
        """Write a consistent copy; it is read from the file, so nothing is blocked."""
        await asyncio.to_thread(self._engine.backup, path)

    def close(self) -> None:
        """Finish the queued requests, then close the engine."""
        if not self._closed:
            self._closed = True
            self._jobs.close()
            self._thread.join()
            self._engine.close()

    def _work(self) -> None:
        while turn := self._jobs.turn():
            waiting: list[_ApplyJob] = []
            for job in turn:
                if isinstance(job, _ApplyJob) and not job.stop:
                    waiting.append(job)
                    continue
                self._commit(waiting)
                waiting = []
                if isinstance(job, _ReadJob):
                    self._answer(job)
                elif isinstance(job, _RepeatJob):
                    self._repeat(job)
                else:
                    self._commit([job])
            self._commit(waiting)

    def _answer(self, job: _ReadJob) -> None:
        try:
            answer = job.ask(self._engine)
        except Exception as error:
            self.commits.record(self._engine)
            self._loop.call_soon_threadsafe(_fail, [job.answer], error)
            return
        self.commits.record(self._engine)
        if job.changes:
            self._release(lambda: self._changed(job, answer), [job.answer])
        else:
            self._loop.call_soon_threadsafe(_resolve, job.answer, answer)

    def _changed(self, job: _ReadJob, answer: object) -> None:
        try:
            if job.then is not None:
                job.then(answer)
        finally:
            _resolve(job.answer, answer)

    def _repeat(self, job: _RepeatJob) -> None:
        started = perf_counter()
        self.commits.repeated()
        try:
            for events, outcomes, before in repeat_commits(self._engine, job.records):
                if self._engine.lineage is not None:
                    self._engine.lineage.take()  # a standby has no followers
                batch = self._batch(events, outcomes, before, perf_counter() - started)
                self._loop.call_soon_threadsafe(self._observer.committed, batch)
        except Exception as error:
            self._loop.call_soon_threadsafe(_fail, [job.answer], error)
        else:
            self._loop.call_soon_threadsafe(_resolve, job.answer, None)

    def _release(self, release: Callable[[], None], answers: list[asyncio.Future[Any]]) -> None:
        """Answer when the standby has what was committed so far, if it has to confirm that."""
        if not self.commits.holds:
            self._loop.call_soon_threadsafe(release)
            return
        position = self.position

        def refuse() -> None:
            _fail(answers, not_replicated())

        self._loop.call_soon_threadsafe(self.commits.hold, position, release, refuse)

    def _commit(self, jobs: list[_ApplyJob]) -> None:
        """Apply jobs as one batch; a second job with the same idempotency key waits for the next.

        By then the response to the first is stored.
        """
        while jobs:
            now, later, keys = [], [], set()
            for job in jobs:
                if job.key is not None:
                    if job.key in keys:
                        later.append(job)
                        continue
                    kept = self._recall(job)
                    if kept:
                        continue
                    keys.add(job.key)
                now.append(job)
            if now:
                self._apply(now)
            jobs = later

    def _recall(self, job: _ApplyJob) -> bool:
        """Answer a job with the response stored under its key; False if there is none."""
        try:
            kept = self._engine.recall(job.key or "")
        except Exception as error:
            self._loop.call_soon_threadsafe(_fail, [job.answer], error)
            return True
        if kept is None:
            return False
        self._release(lambda: _resolve(job.answer, kept), [job.answer])
        return True

    def _apply(self, jobs: list[_ApplyJob]) -> None:
        events = [event for job in jobs for event in job.events]
        with self._telemetry.batch([job.origin for job in jobs], len(events)) as origin:
            self._apply_events(jobs, events, origin)

    def _apply_events(self, jobs: list[_ApplyJob], events: Sequence[Event], origin: object) -> None:
        started = perf_counter()
        try:
            self._gate()  # closed meanwhile, perhaps
        except Problem as problem:
            self._loop.call_soon_threadsafe(_fail, [job.answer for job in jobs], problem)
            return
        try:
            before = self._engine.now
            stamp([job.events for job in jobs if job.stamped], before, self._clock())
            outcomes = self._engine.apply_all(
                events,
                _remembering(jobs),
                stop=jobs[0].stop,
                admission=None if self._quotas is None else self._quotas.admission(self._engine),
            )
        except Exception as error:
            self.failed = True
            self._engine.webhooks.take_ended()
            self.commits.lose(self._engine.lineage)
            self._loop.call_soon_threadsafe(_fail, [job.answer for job in jobs], error)
            return
        self._proved()
        events = events[: len(outcomes)]
        batch = self._batch(events, outcomes, before, perf_counter() - started)
        self.commits.record(self._engine, batch)
        self._release(lambda: self._finish(jobs, batch, origin), [job.answer for job in jobs])

    def _batch(
        self,
        events: Sequence[Event],
        outcomes: Sequence[EventOutcome],
        before: float | None,
        took: float,
    ) -> CommittedBatch:
        times = _times(events, outcomes, before)
        ended = self._engine.webhooks.take_ended()
        return CommittedBatch(events, outcomes, times, self.log.last, self._engine.seq, took, ended)

    def _finish(self, jobs: list[_ApplyJob], batch: CommittedBatch, origin: object) -> None:
        try:
            updates = sum(len(outcome.updates) for outcome in batch.outcomes)
            with self._telemetry.delivery(origin, updates):
                self._observer.committed(batch)
        finally:  # the batch is stored, whatever its observer makes of it
            start = 0
            for job in jobs:
                stop = start + len(job.events)
                if not job.answer.done():
                    job.answer.set_result(batch.outcomes[start:stop])
                start = stop


def _remembering(
    jobs: list[_ApplyJob],
) -> Callable[[list[EventOutcome]], dict[str, bytes]] | None:
    """Return a function that encodes the responses to store, from the outcomes of a batch."""
    if all(job.key is None for job in jobs):
        return None

    def remember(outcomes: list[EventOutcome]) -> dict[str, bytes]:
        made: dict[str, bytes] = {}
        start = 0
        for job in jobs:
            stop = start + len(job.events)
            if job.key is not None and job.remember is not None:
                answer = job.remember(outcomes[start:stop])
                if answer is not None:
                    made[job.key] = answer
            start = stop
        return made

    return remember


def stamp(requests: Iterable[Sequence[Event]], engine_time: float | None, clock: float) -> None:
    """Set the time of events that have none to that of the server.

    Time never decreases: after an event from the future, events without a time keep to that
    event's time.
    """
    ahead = clock if engine_time is None else engine_time
    for events in requests:
        for event in events:
            if event.at is not None:
                ahead = max(ahead, event.at)
            elif ahead <= clock:
                # The event was created for this request and is not shared yet.
                timed = event.message if isinstance(event, Publish) else event
                object.__setattr__(timed, "at", clock)


def _times(
    events: Sequence[Event], outcomes: Sequence[EventOutcome], before: float | None
) -> list[float]:
    """The time of each event: its own, or that of the event before it."""
    now, times = before or 0.0, []
    for event, outcome in zip(events, outcomes, strict=True):
        if outcome.error is None and event.at is not None:
            now = event.at
        times.append(now)
    return times


def _resolve(answer: asyncio.Future[Any], value: object) -> None:
    if not answer.done():
        answer.set_result(value)


def _fail(answers: list[asyncio.Future[Any]], error: Exception) -> None:
    for answer in answers:
        if not answer.done():
            answer.set_exception(error)


def accepted(outcome: EventOutcome) -> EventOutcome:
    """Return an outcome, or raise its error if the event was refused."""
    if outcome.error is not None:
        raise outcome.error
    return outcome
