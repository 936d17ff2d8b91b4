"""What an archive holds: for each tenant chains, each a full copy and the commits after it.

    tenants/NAME/CHAIN/base.nearcast     the tenant's file as it was after some commit
    tenants/NAME/CHAIN/base.head         which commit that was, when, and a checksum of the copy
    tenants/NAME/CHAIN/POSITION.commits  commits that follow, from that position on: a segment
    keys/TIME.keys                       the keys of the server, whenever they had changed

The names of chains begin with their time, so that they are in order. Every file appears complete,
by one rename or as one object, and has a checksum. A chain without a head was not finished, and is
ignored. A chain is of use without the others.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import msgspec
import zstandard

from nearcast.errors import DamagedStoreError, NearcastError
from nearcast.spark.io.files import Files

MAGIC = b"NCARCH1\n"
BASE, HEAD, SEGMENT, KEYS = "base.nearcast", "base.head", ".commits", ".keys"
_DIGEST = hashlib.sha256().digest_size
_PIECE = 1 << 20


class ArchiveHead(msgspec.Struct, array_like=True):
    """The full copy that a chain begins with; it is the state after the commit at `position`."""

    tenant: str
    position: int
    mark: str
    time: float
    size: int
    digest: bytes


class ArchivedCommit(msgspec.Struct, array_like=True):
    """A commit, encoded as a standby gets it, and when it was made."""

    time: float
    position: int
    mark: str
    frame: bytes


class ArchiveSegment(msgspec.Struct, array_like=True):
    """Commits that follow each other, the first of them after the commit `after`."""

    tenant: str
    after: tuple[int, str]
    commits: list[ArchivedCommit]


T = TypeVar("T")


def packed(value: object) -> bytes:
    """The contents of a file with a value: compressed, with a checksum."""
    data = zstandard.compress(msgspec.msgpack.encode(value))
    return MAGIC + hashlib.sha256(data).digest() + data


def read_packed(files: Files, name: str, kind: type[T]) -> T:
    """Read a file that `packed` has made; one that is damaged is refused by its name."""
    found = files.read(name)
    start = len(MAGIC) + _DIGEST
    data = found[start:]
    if found[:start] == MAGIC + hashlib.sha256(data).digest():
        try:
            return msgspec.msgpack.decode(zstandard.decompress(data), type=kind)
        except (zstandard.ZstdError, msgspec.MsgspecError):
            pass
    raise DamagedStoreError(
        f"{files.root}/{name}: is damaged; restore to a time before it, or after the next full copy"
    )


class ChainEnd(NamedTuple):
    """How far a chain goes: the position and mark of its last commit, and when it was made."""

    position: int
    mark: str
    time: float


class ArchiveChain:
    """A full copy and the commits after it, in a folder of an archive."""

    def __init__(self, folder: Files, name: str) -> None:
        self.name = name
        self.files = folder.below(name)

    @property
    def begun(self) -> float:
        """When it was begun: its full copy is not older."""
        return int(self.name.partition("-")[0]) / 1e6

    def head(self) -> ArchiveHead:
        """What it begins with."""
        return read_packed(self.files, HEAD, ArchiveHead)

    def segments(self) -> list[str]:
        """The names of its segments, in order."""
        return [name for name in self.files.names() if name.endswith(SEGMENT) and name[0] != "."]

    def commits(self) -> Iterator[ArchivedCommit]:
        """Its commits in order; raises an error where one is missing or a segment is damaged."""
        head = self.head()
        position, mark = head.position, head.mark
        for name in self.segments():
            segment = read_packed(self.files, name, ArchiveSegment)
            if segment.after != (position, mark):
                raise DamagedStoreError(
                    f"{self.files.root}/{name}: does not follow on commit {position}: what was "
                    "between them is missing; restore to an earlier time"
                )
            yield from segment.commits
            position, mark = segment.commits[-1].position, segment.commits[-1].mark

    def end(self) -> ChainEnd:
        """How far it goes, by its last segment."""
        segments = self.segments()
        if not segments:
            head = self.head()
            return ChainEnd(head.position, head.mark, head.time)
        last = read_packed(self.files, segments[-1], ArchiveSegment).commits[-1]
        return ChainEnd(last.position, last.mark, last.time)

    def put_segment(self, segment: ArchiveSegment) -> None:
        """Add commits at its end."""
        first = segment.commits[0].position
        self.files.write(f"{first:016d}{SEGMENT}", packed(segment))

    def put_base(
        self, copy: Any, tenant: str, position: int, mark: str, time: float
    ) -> ArchiveHead:
        """Write the full copy from an open file; with the head that it returns it is a chain."""
        digest, size = hashlib.sha256(), 0

        def fill(stream: Any) -> None:
            nonlocal size
            while piece := copy.read(_PIECE):
                digest.update(piece)
                size += len(piece)
                stream.write(piece)

        self.files.fill(BASE, fill)
        return ArchiveHead(tenant, position, mark, time, size, digest.digest())

    def put_head(self, head: ArchiveHead) -> None:
        """Make it a chain: from now on it is the one to restore from."""
        self.files.write(HEAD, packed(head))

    def copy_base(self, stream: Any) -> None:
        """Write the full copy to an open file; raises an error if it is not as it was."""
        head, digest = self.head(), hashlib.sha256()
        data = memoryview(self.files.map(BASE))
        for start in range(0, len(data), _PIECE):
            piece = data[start : start + _PIECE]
            digest.update(piece)
            stream.write(piece)
        if (len(data), digest.digest()) != (head.size, head.digest):
            raise DamagedStoreError(
                f"{self.files.root}/{BASE}: is damaged; restore to a time before it, or after "
                "the next full copy"
            )


class ServerArchive:
    """The archive of a server: a folder, local or any that pyarrow can open."""

    def __init__(self, root: str) -> None:
        self.files = Files(root)
        self._keys = self.files.below("keys")
        self._tenants = self.files.below("tenants")

    def tenants(self) -> list[str]:
        """The names of the tenants that it has something of."""
        return self._tenants.names()

    def chains(self, tenant: str) -> list[ArchiveChain]:
        """The chains of a tenant that have a full copy, in order of time."""
        folder = self._tenants.below(tenant)
        chains = [ArchiveChain(folder, name) for name in folder.names()]
        return [chain for chain in chains if chain.files.exists(HEAD)]

    def new_chain(self, tenant: str, time: float) -> ArchiveChain:
        """A chain that has nothing yet."""
        name = f"{int(time * 1e6):016d}-{secrets.token_hex(4)}"
        return ArchiveChain(self._tenants.below(tenant), name)

    def put_keys(self, data: bytes, time: float) -> None:
        """Keep the keys of the server as they are now."""
        self._keys.write(f"{int(time * 1e6):016d}{KEYS}", packed(data))

    def keys_at(self, time: float) -> bytes | None:
        """The keys as they were at a time, if there were any."""
        names = [name for name in self._keys.names() if name.endswith(KEYS) and name[0] != "."]
        names = [name for name in names if int(name.removesuffix(KEYS)) <= time * 1e6]
        return read_packed(self._keys, names[-1], bytes) if names else None

    def forget_before(self, tenant: str, time: float) -> None:
        """Remove the chains of a tenant that are not needed for that time or a later one."""
        folder = self._tenants.below(tenant)
        chains = self.chains(tenant)
        for old, later in pairwise(chains):
            if later.head().time <= time:
                folder.remove(f"{old.name}/{HEAD}")  # from now on it is no chain
                folder.remove(old.name)

    def check(self) -> None:
        """Raise an error if nothing can be written there."""
        try:
            self.files.write("archive.txt", b"Continuous copies of a Nearcast server.\n")
        except NearcastError as error:
            raise type(error)(f"{error}; choose another --archive") from None
