"""The latest commits of a tenant on the primary, and how far its standby has come with them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from threading import Lock
from time import monotonic
from typing import NamedTuple, Protocol

from nearcast.engine import Engine
from nearcast.events import Event
from nearcast.server.problems import Problem
from nearcast.server.standby.records import encode_commit
from nearcast.store.lineage import Lineage

_KEPT_BYTES = 256 << 20
_MESSAGE_BYTES = 4 << 20


class AcceptedBatch(Protocol):
    """Events that were committed together."""

    def accepted(self) -> Sequence[Event]:
        """Those that were not refused."""
        ...


class KeptCommit(NamedTuple):
    """An encoded commit, with its number."""

    position: int
    mark: str
    frame: bytes


class CommitSink(Protocol):
    """Gets every commit too, in the thread of the engine."""

    def add(self, kept: KeptCommit) -> None:
        """Take a commit that was just made."""
        ...

    def lose(self) -> None:
        """Note that there were commits whose events are not known."""
        ...


class CommitStream:
    """Keeps commits in memory until the standby has them, up to a size.

    `record`, `repeated` and `start` are called in the thread of the engine, everything else in the
    event loop.
    With `wait_s` answers wait until the standby has confirmed the commit, and refused after
    that time. What is there at first, at `position`, may have commits that were never confirmed.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, wait_s: float | None, position: int = 0
    ) -> None:
        self._loop = loop
        self._wait_s = wait_s
        self.archive: CommitSink | None = None
        self._opened_at = position
        self.settled = asyncio.Event()  # whether updates that were there at first may be delivered
        if wait_s is None:
            self.settled.set()
        self._lock = Lock()
        self._frames: deque[KeptCommit] = deque()
        self._size = 0
        self._base: tuple[int, str] | None = None  # the commit before the first that is kept
        self._new = asyncio.Event()
        self.connected = asyncio.Event()
        self._stop: Callable[[], None] | None = None
        self.position = 0
        self.confirmed = 0
        self._held: deque[tuple[int, Callable[[], None], asyncio.TimerHandle]] = deque()
        self._behind_since: float | None = None

    @property
    def holds(self) -> bool:
        """Whether answers wait for the standby."""
        return self._wait_s is not None

    def start(self, lineage: Lineage) -> None:
        """Keep the commits from now on."""
        with self._lock:
            if self._base is None:
                self._base = (lineage.position, lineage.mark)
                self.position = lineage.position
            lineage.recording = True

    def record(self, engine: Engine, batch: AcceptedBatch | None = None) -> None:
        """Add the commits that were just made; the last of them is that of a batch of events."""
        lineage = engine.lineage
        commits = [] if lineage is None else lineage.take()
        if not commits:
            return
        for commit in commits:
            events = () if batch is None or commit is not commits[-1] else batch.accepted()
            frame = encode_commit(commit, events, engine.seq, engine.log.last)
            kept = KeptCommit(commit.position, commit.mark, frame)
            if self.archive is not None:
                self.archive.add(kept)
            self._keep(kept)
        self._loop.call_soon_threadsafe(self._grown, commits[-1].position)

    def _keep(self, kept: KeptCommit) -> None:
        """Keep a commit for the standby, if there ever was one."""
        with self._lock:
            if self._base is None:
                return
            self._frames.append(kept)
            self._size += len(kept.frame)
            while self._size > _KEPT_BYTES and len(self._frames) > 1:
                self._drop_oldest()

    def _drop_oldest(self) -> None:
        old = self._frames.popleft()
        self._base = (old.position, old.mark)
        self._size -= len(old.frame)

    def lose(self, lineage: Lineage | None) -> None:
        """Forget everything if a commit was made whose events are not known."""
        if lineage is not None and lineage.take():
            if self.archive is not None:
                self.archive.lose()
            with self._lock:
                self._frames.clear()
                self._size, self._base = 0, (lineage.position, lineage.mark)
            self._loop.call_soon_threadsafe(self._grown, lineage.position)

    def repeated(self) -> None:
        """Keep nothing for a standby: commits of another primary were made here, and not kept."""
        with self._lock:
            self._frames.clear()
            self._size, self._base = 0, None

    def _grown(self, position: int) -> None:
        self.position = position
        if self._behind_since is None:
            self._behind_since = monotonic()
        self._new.set()

    def after(self, position: int, mark: str) -> list[KeptCommit] | None:
        """The next commits after one, as many as fit a message; None if they are not kept.

        `more` then waits for commits that are made after this call.
        """
        self._new.clear()
        with self._lock:
            if self._base is None:
                return None
            skip = position - self._base[0]
            if not 0 <= skip <= len(self._frames):
                return None
            known = self._base[1] if skip == 0 else self._frames[skip - 1].mark
            if known != mark:
                return None
            found: list[KeptCommit] = []
            size = 0
            for kept in islice(self._frames, skip, None):
                if found and size + len(kept.frame) > _MESSAGE_BYTES:
                    break
                found.append(kept)
                size += len(kept.frame)
            return found

    def attach(self, stop: Callable[[], None]) -> None:
        """Note the connection of the standby, and end the one before it."""
        if self._stop is not None:
            self._stop()
        self._stop = stop
        self.connected.set()

    def detach(self, stop: Callable[[], None]) -> None:
        """Note that a connection has ended."""
        if self._stop is stop:
            self._stop = None
            self.connected.clear()

    async def more(self) -> None:
        """Wait for a commit that was made after the last call of `after`."""
        await self._new.wait()

    def hold(self, position: int, release: Callable[[], None], refuse: Callable[[], None]) -> None:
        """Call `release` when the standby has a commit; first `refuse`, if that takes too long."""
        if self._wait_s is None or position <= self.confirmed:
            release()
        else:
            timer = self._loop.call_later(self._wait_s, refuse)
            self._held.append((position, release, timer))

    def check_settled(self) -> None:
        """Raise a problem while updates may be there that the standby never confirmed."""
        if not self.settled.is_set():
            raise Problem(
                503,
                "not-replicated",
                "updates are delivered when the other server of the pair has them; it is not "
                "connected yet, so try again",
                headers={"Retry-After": "1"},
            )

    def confirm(self, position: int) -> None:
        """Note that the standby has all commits up to one on its disk."""
        self.confirmed = max(self.confirmed, position)
        with self._lock:
            while self._frames and self._frames[0].position <= position:
                self._drop_oldest()
        if self.confirmed >= self._opened_at:
            self.settled.set()
        self._behind_since = None if self.confirmed >= self.position else monotonic()
        while self._held and self._held[0][0] <= self.confirmed:
            _, release, timer = self._held.popleft()
            timer.cancel()
            release()

    def follow(self, position: int) -> None:
        """Note that this server follows another, which has all commits up to one."""
        self.settled.set()
        self.confirm(position)

    async def settle(self) -> None:
        """Wait until the standby has everything, if it is connected."""
        while self.connected.is_set() and self.confirmed < self.position:
            await asyncio.sleep(0.01)

    def lag(self) -> tuple[int, float]:
        """Commits that the standby does not have yet, and for how many seconds."""
        if self._behind_since is None or not self.confirmed:
            return 0, 0.0
        return max(0, self.position - self.confirmed), monotonic() - self._behind_since


def not_replicated() -> Problem:
    """The problem of a change that was committed here, and was not confirmed by the standby."""
    return Problem(
        503,
        "not-replicated",
        "the standby did not confirm this in time: it is committed here, and may or may not be "
        "kept if the standby is promoted; send it again with the same Idempotency-Key",
        headers={"Retry-After": "1"},
    )
