"""Writing an event log: JSON Lines or Parquet, compressed or not, as the file's name says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from nearcast.errors import SourceError
from nearcast.events.events import Event, event_to_json
from nearcast.events.streams import STANDARD, ByteSink, open_sink

_JSON_LINES = {".jsonl", ".ndjson", ".json"}
_PACKED = {".gz", ".zst"}


class _Sink(Protocol):
    def write(self, fields: dict[str, Any]) -> None: ...
    def close(self) -> None: ...


class _JsonLinesSink:
    """Writes events as lines, some thousand at a time."""

    def __init__(self, file: ByteSink) -> None:
        self._file = file
        self._encode = msgspec.json.Encoder().encode
        self._lines: list[bytes] = []

    def write(self, fields: dict[str, Any]) -> None:
        self._lines.append(self._encode(fields))
        if len(self._lines) >= 4096:
            self._flush()

    def _flush(self) -> None:
        self._lines.append(b"")
        self._file.write(b"\n".join(self._lines))
        self._lines.clear()

    def close(self) -> None:
        if self._lines:
            self._flush()


class EventWriter:
    """Takes events one by one, as events or in their JSON form."""

    def __init__(self, sink: _Sink) -> None:
        self._sink = sink
        self.written = 0

    def write(self, event: Event | Mapping[str, Any]) -> None:
        """Append one event."""
        fields = dict(event) if isinstance(event, Mapping) else event_to_json(event)
        self._sink.write(fields)
        self.written += 1


def _is_parquet(path: str | Path) -> bool:
    if str(path) == STANDARD:
        return False
    suffixes = [s.lower() for s in Path(path).suffixes]
    while suffixes and suffixes[-1] in _PACKED:
        suffixes.pop()
    kind = suffixes[-1] if suffixes else ""
    if kind == ".parquet":
        return True
    if kind in _JSON_LINES:
        return False
    raise SourceError(
        f"{path}: the name does not show the format; "
        "end it in .jsonl or .parquet, and .gz or .zst after that if it is to be compressed"
    )


@contextmanager
def open_writer(path: str | Path) -> Iterator[EventWriter]:
    """Open an event log for writing; `-` is standard output, as JSON Lines."""
    as_parquet = _is_parquet(path)
    with open_sink(path) as file:
        sink: _Sink
        if as_parquet:
            from nearcast.events.parquet import ParquetSink

            sink = ParquetSink(file)
        else:
            sink = _JsonLinesSink(file)
        yield EventWriter(sink)
        sink.close()
