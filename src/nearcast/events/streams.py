"""Bytes in and out: plain, gzip or zstd, a path or a standard stream, a chunk at a time.

The format of a source is detected from its first bytes, so standard input needs no hint.
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from nearcast.errors import SourceError

CHUNK = 1 << 17
_PACKED_SLICE = 1 << 10  # decompressed at once, so that damage costs no more than this
STANDARD = "-"

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


class _Decompressor(Protocol):
    def decompress(self, data: bytes, /) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def _format(kind: str) -> tuple[Callable[[], _Decompressor], type[Exception]]:
    """Return what decompresses a member of a file, and what it raises if there is damage."""
    if kind == "gzip":
        return lambda: zlib.decompressobj(wbits=31), zlib.error
    import zstandard  # here, because it is large and few logs need it

    return lambda: zstandard.ZstdDecompressor().decompressobj(), zstandard.ZstdError


@contextmanager
def open_source(path: str | Path) -> Iterator[BinaryIO]:
    """Open a path for reading, `-` being standard input, or say why it cannot be done."""
    if str(path) == STANDARD:
        if sys.stdin is None:  # as Python has it when the stream was closed before the start
            raise SourceError("standard input: is closed; give the path of an event log")
        yield sys.stdin.buffer
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - only opening it may fail here
    except OSError as error:
        raise cannot_read(path, error) from None
    with file:
        yield file


def cannot_read(path: str | Path, error: OSError) -> SourceError:
    """Say why a path cannot be read, and what would be right."""
    reasons = {
        FileNotFoundError: "no such file; give the path of an event log, or - for standard input",
        IsADirectoryError: "is a directory; give the path of one file",
        PermissionError: "permission denied; make the file readable",
    }
    return SourceError(f"{path}: {reasons.get(type(error), error.strerror or str(error))}")


class Chunks:
    """The plain bytes of a file, decompressed if need be, counted as they are read from disk."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.read = 0

    def __iter__(self) -> Iterator[bytes]:
        head = self._next()
        while 0 < len(head) < len(_ZSTD_MAGIC):
            more = self._next()
            if not more:
                break
            head += more
        if head.startswith(_GZIP_MAGIC):
            yield from self._decompress(head, "gzip")
        elif head.startswith(_ZSTD_MAGIC):
            yield from self._decompress(head, "zstd")
        else:
            while head:
                yield head
                head = self._next()

    def _next(self) -> bytes:
        try:
            data = (
                self._file.read1(CHUNK) if hasattr(self._file, "read1") else self._file.read(CHUNK)
            )
        except OSError as error:
            raise SourceError(f"cannot be read any further: {error.strerror or error}") from None
        self.read += len(data)
        return bytes(data)

    def _decompress(self, data: bytes, kind: str) -> Iterator[bytes]:
        """Decompress one member after the other; what came before a damage is still delivered."""
        new, damage = _format(kind)
        member: _Decompressor | None = None
        while data:
            member = member or new()
            now, later = data[:_PACKED_SLICE], data[_PACKED_SLICE:]
            try:
                plain = member.decompress(now)
            except damage as error:
                raise SourceError(
                    f"damaged {kind} data ({error}); the data before it was read, "
                    "get a complete copy of the file for the rest"
                ) from None
            if plain:
                yield plain
            if member.eof:
                later = (member.unused_data + later).lstrip(b"\0")
                member = None
            data = later or self._next()
        if member is not None:
            raise SourceError(
                f"the {kind} data ends too early, as if cut off; what was there was read, "
                "get a complete copy of the file for the rest"
            )


class ByteSink(Protocol):
    """Anything that bytes can be written to."""

    def write(self, data: bytes, /) -> int:
        """Write some bytes."""
        ...

    def flush(self) -> object:
        """Flush the written bytes."""
        ...


def same_file(one: str | Path, other: str | Path) -> bool:
    """Whether two paths lead to one file, so that writing one would overwrite the other.

    It is never so for devices and pipes, which store nothing.
    """
    if STANDARD in (str(one), str(other)):
        return False
    one, other = Path(one).resolve(), Path(other).resolve()
    return (one.is_file() and other.exists() and one.samefile(other)) or (
        one == other and not one.exists()
    )


@contextmanager
def open_sink(path: str | Path) -> Iterator[ByteSink]:
    """Open a path for writing, compressed as its name says, `-` being standard output."""
    import gzip

    if str(path) == STANDARD:
        if sys.stdout is None:
            raise SourceError("standard output: is closed; give the path of a file to write")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        file = Path(path).open("wb")  # noqa: SIM115 - only opening it may fail here
    except OSError as error:
        raise SourceError(f"{path}: cannot be written: {error.strerror}; choose another") from None
    with file:
        if str(path).endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
                yield packed
        elif str(path).endswith(".zst"):
            import zstandard

            with zstandard.ZstdCompressor().stream_writer(file, closefd=False) as writer:
                yield writer
        else:
            yield file
