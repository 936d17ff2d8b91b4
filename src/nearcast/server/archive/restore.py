"""Makes the data of a server from its archive, as it was at a time."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from nearcast.engine import Engine
from nearcast.errors import InvalidValue, StoreError
from nearcast.server.archive.chains import ArchiveChain, ArchivedCommit, ServerArchive
from nearcast.server.standby.records import decode_commits, join_commits, repeat_commits
from nearcast.store.connect import to_disk
from nearcast.store.copies import make_folder

_TOGETHER = 1000  # commits that are repeated in one go
_FOR_EVER = float("inf")


class RestoredTenant(NamedTuple):
    """A tenant as it was: its last commit then, and when that was made."""

    name: str
    position: int
    time: float


def read_time(text: str, option: str = "--to-time") -> float:
    """Read a time: seconds since 1970, or a date and time, which is in UTC unless it says."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        expected = "a time such as 2026-11-18T14:30:00Z, or seconds since 1970"
        raise InvalidValue(option, text, expected) from None
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def written(time: float) -> str:
    """A time as people read it, and as `read_time` takes it."""
    moment = datetime.fromtimestamp(time, UTC)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def restore_archive(root: str, data: Path, time: float) -> list[RestoredTenant]:
    """Make a server's folder of what its archive had at a time, and say how far it goes.

    A tenant whose archive begins later is left out. The folder appears when it is complete.
    """
    archive = ServerArchive(root)
    chains = {name: archive.chains(name) for name in archive.tenants()}
    starts = [some[0].head().time for some in chains.values() if some]
    if not starts:
        raise StoreError(f"{root}: holds no archive; expected what `serve --archive` was given")
    if min(starts) > time:
        raise StoreError(
            f"{root}: begins at {written(min(starts))}; choose a time from then on, "
            f"not {written(time)}"
        )
    restored: list[RestoredTenant] = []

    def fill(folder: Path) -> None:
        keys = archive.keys_at(time)
        if keys is not None:
            _write(folder / "keys.db", keys)
        for name, some in sorted(chains.items()):
            number = sum(chain.head().time <= time for chain in some)
            if number:
                after = some[number] if number < len(some) else None
                path = folder / "tenants" / f"{name}.nearcast"
                restored.append(_restore(path, name, some[number - 1], after, time))

    make_folder(data, fill)
    return restored


def _write(path: Path, data: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(data)
    to_disk(path)


def _restore(
    path: Path, name: str, chain: ArchiveChain, following: ArchiveChain | None, time: float
) -> RestoredTenant:
    """Restore one tenant: the full copy, and what was committed after it up to a time."""
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.touch(mode=0o600)
    with path.open("wb") as file:
        chain.copy_base(file)
    to_disk(path)
    head = chain.head()
    at = head.time
    with Engine(  # what was kept then is kept
        path=path, retain_seconds=_FOR_EVER, retain_updates=1 << 62, clock=lambda: at
    ) as engine:
        some: list[ArchivedCommit] = []
        for commit in chain.commits():
            if commit.time > time:
                following = None  # it is known what came next
                break
            some.append(commit)
            if len(some) == _TOGETHER:
                at = commit.time
                _repeat(engine, some)
        at = some[-1].time if some else at
        _repeat(engine, some)
        assert engine.lineage is not None  # noqa: S101 - it has a file
        position = engine.lineage.position
    if following is not None:
        _check_gap(name, position, at, following)
    return RestoredTenant(name, position, at)


def _repeat(engine: Engine, some: list[ArchivedCommit]) -> None:
    """Make commits again, and take them off the list."""
    records = decode_commits(join_commits([commit.frame for commit in some]))
    for _ in repeat_commits(engine, records):
        pass
    some.clear()


def _check_gap(name: str, position: int, at: float, following: ArchiveChain) -> None:
    """Refuse a time for which it is unknown what had been committed."""
    head = following.head()
    if head.position > position:
        raise StoreError(
            f"tenant {name}: commits {position + 1} to {head.position} are not in the archive, as "
            f"the server ended before it had written them; choose a time up to {written(at)}, or "
            f"from {written(head.time)} on"
        )
