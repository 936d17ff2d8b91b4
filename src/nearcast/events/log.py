"""The event log: JSON Lines or Parquet, read as a stream of records.

A record holds an event, or the error that kept it from being one; the reader never stops at a bad
record. What to do about it is for the caller to decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple

from nearcast.errors import InvalidValue, NearcastError, SourceError
from nearcast.events.events import Event, event_from_json
from nearcast.events.lines import split_lines
from nearcast.events.sized import decode_sized
from nearcast.events.streams import STANDARD, Chunks, open_source

_PARQUET_MAGIC = b"PAR1"


class Record(NamedTuple):
    """One event of a log and its position.

    `position` counts events from 0, `line` lines (or rows) from 1; `raw` is the event as it was
    given. Exactly one of `event` and `error` is set.
    """

    position: int
    line: int
    raw: bytes | dict[str, Any]
    event: Event | None
    error: NearcastError | None


def decode_json(data: bytes, field: str = "event") -> Any:
    """Decode one JSON value, or raise an error that says what is wrong with it."""
    try:
        return decode_sized(data)
    except (ValueError, RecursionError) as error:
        given = data[:1000].decode(errors="replace")
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise InvalidValue(field, given, f"one JSON object on one line ({reason})") from None


class EventLog:
    """The records of one open log, in order; may be iterated once."""

    def __init__(self, file: BinaryIO, name: str, size: int | None, stack: ExitStack) -> None:
        self.name = name
        self._file = file
        self._size = size
        self._stack = stack
        self._chunks = Chunks(file)
        self._parquet_progress: float | None = None

    @property
    def progress(self) -> float | None:
        """The part of the log read so far, from 0 to 1, or None where its size is not known."""
        if self._parquet_progress is not None:
            return self._parquet_progress
        return min(1.0, self._chunks.read / self._size) if self._size else None

    def __iter__(self) -> Iterator[Record]:
        chunks = iter(self._chunks)
        first = b""
        try:
            while len(first) < len(_PARQUET_MAGIC) and (more := next(chunks, b"")):
                first += more
        except SourceError as error:
            return self._json_lines(_broken_off(first, error))
        if first.startswith(_PARQUET_MAGIC):
            return self._parquet(first, chunks)
        return self._json_lines(chain([first], chunks))

    def _json_lines(self, chunks: Iterable[bytes]) -> Iterator[Record]:
        for position, (number, data, error) in enumerate(split_lines(chunks)):
            if error is not None:
                yield Record(position, number, data, None, error)
                continue
            try:
                event = event_from_json(decode_json(data))
            except NearcastError as problem:
                yield Record(position, number, data, None, problem)
            else:
                yield Record(position, number, data, event, None)

    def _parquet(self, first: bytes, chunks: Iterator[bytes]) -> Iterator[Record]:
        from nearcast.events.parquet import read_rows

        whole = self._seekable(first, chunks)
        for position, (fields, progress) in enumerate(read_rows(whole, self.name)):
            self._parquet_progress = progress
            try:
                event = event_from_json(fields)
            except NearcastError as problem:
                yield Record(position, position + 1, fields, None, problem)
            else:
                yield Record(position, position + 1, fields, event, None)

    def _seekable(self, first: bytes, chunks: Iterator[bytes]) -> BinaryIO:
        """Parquet is read from its end: what cannot be wound back is copied to disk first."""
        if self._size is not None:
            self._file.seek(0)
            plain = self._file.read(len(_PARQUET_MAGIC)) == _PARQUET_MAGIC
            self._file.seek(0)
            if plain:
                return self._file
            first, chunks = b"", iter(Chunks(self._file))
        copy = self._stack.enter_context(TemporaryFile())  # noqa: SIM115 - the stack closes it
        copy.write(first)
        try:
            for chunk in chunks:
                copy.write(chunk)
        except SourceError as error:
            raise SourceError(f"{self.name}: {error}") from None
        copy.seek(0)
        return copy


def _broken_off(start: bytes, error: SourceError) -> Iterator[bytes]:
    """Yield chunks that end in an error, as those of any damaged file do."""
    yield start
    raise error


@contextmanager
def open_log(path: str | Path) -> Iterator[EventLog]:
    """Open an event log for reading; `-` is standard input.

    Compression (gzip, zstd) and format (JSON Lines, Parquet) are detected from the contents.
    """
    with ExitStack() as stack:
        file = stack.enter_context(open_source(path))
        size = None
        if str(path) != STANDARD and Path(path).is_file():
            size = Path(path).stat().st_size
        name = "standard input" if str(path) == STANDARD else str(path)
        yield EventLog(file, name, size, stack)


def events_of(log: Iterable[Record], name: str) -> Iterator[Event]:
    """Yield the events of a log, and stop at the first record that is not one."""
    for record in log:
        if record.event is None:
            raise SourceError(f"{name}:{record.line}: {record.error}")
        yield record.event
