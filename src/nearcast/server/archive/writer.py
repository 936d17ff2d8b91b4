"""Writes what a server commits to its archive, tenant by tenant, a little later.

The writer thread of a tenant adds each commit to a buffer. Every few seconds what is there becomes
a segment. When the buffer had to be dropped, or the archive does not end where the file does, a
full copy begins another chain; so it does once in a while, to keep restoring fast.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import closing, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog

from nearcast.engine import Engine
from nearcast.errors import NearcastError, StateError
from nearcast.server.archive.chains import (
    ArchiveChain,
    ArchivedCommit,
    ArchiveHead,
    ArchiveSegment,
    ChainEnd,
    ServerArchive,
)
from nearcast.server.standby.stream import KeptCommit
from nearcast.store.backup import copy_file

if TYPE_CHECKING:
    from nearcast.server.state import ServerState
    from nearcast.server.tenants import Tenant

log = structlog.get_logger("nearcast.archive")
_BUFFERED_BYTES = 256 << 20
_SEGMENT_BYTES = 16 << 20
_CLOSE_S = 10.0


class CommitBuffer:
    """The commits that are not in the archive yet; used by the writer thread and the event loop.

    It is `broken` when commits were dropped: the archive then needs a full copy.
    """

    def __init__(self, clock: Callable[[], float], most: int = _BUFFERED_BYTES) -> None:
        self._clock = clock
        self._most = most
        self._lock = Lock()
        self._commits: deque[ArchivedCommit] = deque()
        self._size = 0
        self._latest = 0.0
        self.broken = False

    def __len__(self) -> int:
        return len(self._commits)

    def add(self, kept: KeptCommit) -> None:
        """Add a commit that was just made."""
        with self._lock:
            # Times do not go back, and are as exact as they are written.
            self._latest = max(self._latest, round(self._clock(), 6))
            self._commits.append(ArchivedCommit(self._latest, *kept))
            self._size += len(kept.frame)
            if self._size > self._most:
                self._drop_all()

    def lose(self) -> None:
        """Note that commits are missing which cannot be added later."""
        with self._lock:
            self._drop_all()

    def _drop_all(self) -> None:
        self._commits.clear()
        self._size, self.broken = 0, True

    def start_over(self) -> None:
        """Begin again with the commits from now on."""
        with self._lock:
            self._drop_all()
            self.broken = False

    def first(self, most_bytes: int) -> list[ArchivedCommit]:
        """The oldest commits, as many as fit a size."""
        with self._lock:
            count = size = 0
            for commit in self._commits:
                size += len(commit.frame)
                if count and size > most_bytes:
                    break
                count += 1
            return list(islice(self._commits, count))

    def drop_through(self, position: int) -> None:
        """Forget the commits up to one: they are in the archive."""
        with self._lock:
            while self._commits and self._commits[0].position <= position:
                self._size -= len(self._commits.popleft().frame)

    def waiting_since(self) -> float | None:
        """When the oldest commit was made; None if there is none."""
        with self._lock:
            return self._commits[0].time if self._commits else None


class TenantArchive:
    """Keeps the archive of one tenant up to date."""

    def __init__(self, state: ServerState, archive: ServerArchive, tenant: Tenant) -> None:
        self._state = state
        self._archive = archive
        self.tenant = tenant
        self.buffer = CommitBuffer(state.config.clock)
        self._chain: ArchiveChain | None = None
        self._end: ChainEnd | None = None
        self._copying: asyncio.Task[tuple[ArchiveChain, ArchiveHead]] | None = None
        self._since: list[ArchivedCommit] = []  # written to the chain before, while it is copied
        self._begun = state.config.clock()
        self._turns = asyncio.Lock()
        self.failures = 0
        self._trouble: str | None = None

    async def begin(self) -> None:
        """Have the commits of the tenant counted and collected, from now on."""
        commits, buffer = self.tenant.backend.commits, self.buffer
        term = self._state.role.record.term

        def start(engine: Engine) -> tuple[int, str]:
            lineage = engine.lineage
            if lineage is None:
                raise StateError("a server in memory cannot be archived; start it with --data DIR")
            lineage.recording = True
            commits.archive = buffer
            if not lineage.terms:
                lineage.begin(term)
            return lineage.position, lineage.mark

        position, mark = await self.tenant.backend.ask(start)
        with suppress(NearcastError, OSError):
            found = await asyncio.to_thread(self._find_end)
            if found is not None and found[1][:2] == (position, mark):
                self._chain, self._end = found
                buffer.drop_through(position)

    def _find_end(self) -> tuple[ArchiveChain, ChainEnd] | None:
        """The latest chain of the archive, and how far it goes."""
        chains = self._archive.chains(self.tenant.name)
        return (chains[-1], chains[-1].end()) if chains else None

    def lag(self) -> tuple[int, float]:
        """Commits that are not in the archive, and for how many seconds the oldest is not."""
        now, since = self._state.config.clock(), self.buffer.waiting_since()
        if self._end is None:
            return self.tenant.backend.position, max(0.0, now - self._begun)
        behind = max(0, self.tenant.backend.position - self._end.position)
        return behind, 0.0 if since is None else max(0.0, now - since)

    async def turn(self, *, last: bool = False) -> None:
        """Write what is there; begin a full copy if one is needed, unless it is the `last` turn."""
        async with self._turns:
            try:
                if not last:
                    self._copy_if_needed()
                await self._write()
                if self._copying is not None and self._copying.done():
                    await self._take_over()
            except (NearcastError, OSError) as error:
                self._failed(str(error))
            else:
                if self._trouble is not None:
                    log.info("archive is written again", tenant=self.tenant.name)
                self._trouble = None

    def _failed(self, reason: str) -> None:
        self.failures += 1
        if reason != self._trouble:
            log.error("archive cannot be written", tenant=self.tenant.name, reason=reason)
        self._trouble = reason

    def _copy_if_needed(self) -> None:
        if self._copying is not None:
            return
        config = self._state.config
        now = round(config.clock(), 6)
        if self.buffer.broken or self._chain is None or self._end is None:
            self._chain = self._end = None
            self.buffer.start_over()
        elif now - self._chain.begun < config.archive_full_s:
            return
        self._since.clear()
        self._begun = now
        self._copying = asyncio.ensure_future(self._copy(now))

    async def _copy(self, started: float) -> tuple[ArchiveChain, ArchiveHead]:
        """Write a full copy, and return the chain that begins with it, still without its head."""
        data = self._state.config.data
        assert data is not None  # noqa: S101 - a server in memory has no archive
        folder = data / "outgoing"
        folder.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{uuid4().hex}.nearcast"
        try:
            await self.tenant.backend.backup(path)
            return await asyncio.to_thread(self._put_base, path, started)
        finally:
            path.unlink(missing_ok=True)

    def _put_base(self, path: Path, started: float) -> tuple[ArchiveChain, ArchiveHead]:
        with closing(sqlite3.connect(path)) as copy:
            (found,) = copy.execute("SELECT value FROM about WHERE key = 'position'").fetchone()
        place, _, mark = found.partition(" ")
        position = int(place)
        known = [*self._since, *self.buffer.first(_BUFFERED_BYTES)]
        times = [commit.time for commit in known if commit.position == position]
        time = times[0] if times else started
        chain = self._archive.new_chain(self.tenant.name, time)
        with path.open("rb") as file:
            return chain, chain.put_base(file, self.tenant.name, position, mark, time)

    async def _take_over(self) -> None:
        """Go on with the chain whose full copy is done."""
        copying, self._copying = self._copying, None
        assert copying is not None  # noqa: S101 - the caller has looked
        chain, head = copying.result()
        if self.buffer.broken:
            return  # commits after the copy are missing
        if self._end is not None and self._end.position < head.position:
            self._copying = copying  # first the chain before has to reach it
            return
        if self._end is None:
            self.buffer.drop_through(head.position)
        rest = [commit for commit in self._since if commit.position > head.position]
        # It has all that the chain before has when it is the one to restore from.
        end = await asyncio.to_thread(self._complete, chain, head, rest)
        self._since.clear()
        self._chain, self._end = chain, end
        log.info("archive has a full copy", tenant=self.tenant.name, position=head.position)
        days = self._state.config.archive_days
        if days is not None:
            before = self._state.config.clock() - days * 86_400.0
            await asyncio.to_thread(self._archive.forget_before, self.tenant.name, before)
        await self._write()

    def _complete(
        self, chain: ArchiveChain, head: ArchiveHead, rest: list[ArchivedCommit]
    ) -> ChainEnd:
        """Add what was committed since the full copy, and then the head."""
        end = ChainEnd(head.position, head.mark, head.time)
        if rest:
            end = self._put(chain, end, rest)
        chain.put_head(head)
        return end

    async def _write(self) -> None:
        """Write segments with all that is in the buffer."""
        while self._chain is not None and self._end is not None:
            found = self.buffer.first(_SEGMENT_BYTES)
            if not found or self.buffer.broken:
                return
            self._end = await asyncio.to_thread(self._put, self._chain, self._end, found)
            if self._copying is not None:
                self._since += found
            self.buffer.drop_through(self._end.position)

    def _put(self, chain: ArchiveChain, after: ChainEnd, commits: list[ArchivedCommit]) -> ChainEnd:
        place = (after.position, after.mark)
        chain.put_segment(ArchiveSegment(self.tenant.name, place, commits))
        return ChainEnd(commits[-1].position, commits[-1].mark, commits[-1].time)

    async def close(self) -> None:
        """Write the rest."""
        if self._copying is not None:
            self._copying.cancel()
            await asyncio.gather(self._copying, return_exceptions=True)
            self._copying = None
        if not self.buffer.broken:
            await self.turn(last=True)


class ArchiveWriter:
    """Keeps the archive of a server up to date; does nothing if it has none."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        given = state.config.archive
        self._archive = None if given is None else ServerArchive(given)
        self._tenants: dict[str, TenantArchive] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._keys_written: bytes | None = None
        self.keys_failures = 0

    @property
    def is_on(self) -> bool:
        """Whether there is an archive."""
        return self._archive is not None

    async def follow(self, tenant: Tenant) -> None:
        """Archive a tenant of a primary from now on."""
        if self._archive is None:
            return
        known = self._tenants.get(tenant.name)
        if known is not None and known.tenant is tenant:
            return
        if known is not None:
            self._tasks.pop(tenant.name).cancel()
        new = self._tenants[tenant.name] = TenantArchive(self._state, self._archive, tenant)
        await new.begin()
        self._tasks[tenant.name] = asyncio.ensure_future(self._run(new))

    async def _run(self, one: TenantArchive) -> None:
        while self._state.tenants.find(one.tenant.name) in (None, one.tenant):
            if self._state.role.is_primary:
                await self._write_keys()
                await one.turn()
            else:
                one.buffer.lose()  # the commits of the primary are archived there
            await asyncio.sleep(self._state.config.archive_s)

    async def _write_keys(self) -> None:
        """Keep the keys, if they have changed."""
        data, archive = self._state.config.data, self._archive
        if data is None or archive is None or not (data / "keys.db").is_file():
            return
        try:
            found = await asyncio.to_thread(_read_keys, data)
            digest = sha256(found).digest()
            if digest != self._keys_written:
                await asyncio.to_thread(archive.put_keys, found, self._state.config.clock())
                self._keys_written = digest
        except (NearcastError, OSError) as error:
            self.keys_failures += 1
            log.error("keys cannot be archived", reason=str(error))

    @property
    def failures(self) -> int:
        """How often something could not be written."""
        return self.keys_failures + sum(each.failures for each in self._tenants.values())

    def lag(self) -> tuple[int, float]:
        """How far the archive is behind: commits, and seconds; of the tenant furthest behind."""
        lags = [each.lag() for each in self._tenants.values()]
        return (
            max((commits for commits, _ in lags), default=0),
            max((seconds for _, seconds in lags), default=0.0),
        )

    def shown(self) -> dict[str, object]:
        """What `/readyz` says; nothing without an archive."""
        if not self.is_on:
            return {}
        commits, seconds = self.lag()
        return {"archive": {"lag_commits": commits, "lag_seconds": round(seconds, 3)}}

    async def close(self) -> None:
        """Write the rest of all tenants."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                for each in self._tenants.values():
                    await each.close()


def _read_keys(data: Path) -> bytes:
    folder = data / "outgoing"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{uuid4().hex}.keys"
    try:
        copy_file(data / "keys.db", path)
        return path.read_bytes()
    finally:
        path.unlink(missing_ok=True)
