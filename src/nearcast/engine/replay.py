"""Replay of an event log through an engine; bad events stop it or are set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

import msgspec

from nearcast.errors import NearcastError, SourceError, show
from nearcast.events import Event, Record, Update
from nearcast.events.bodies import NOTHING, Include
from nearcast.events.streams import ByteSink

_json = msgspec.json.Encoder().encode


class EventApplier(Protocol):
    """An object that applies events one by one and returns their updates."""

    def apply(self, event: Event) -> list[Update]:
        """Take one event."""
        ...


Refusal = Callable[[Record, NearcastError], None]


def replay(
    records: Iterable[Record], engine: EventApplier, refuse: Refusal
) -> Iterator[tuple[int, list[Update]]]:
    """Apply the events in order; yield each position with its updates.

    A record that is not an event, or that conflicts with the state, is passed to `refuse`, which
    raises to stop or returns to go on with the next.
    """
    for record in records:
        error = record.error
        if record.event is not None:
            try:
                yield record.position, engine.apply(record.event)
            except NearcastError as problem:
                error = problem
        if error is not None:
            refuse(record, error)


def stop_at(name: str) -> Refusal:
    """Return a refusal that stops, with the file, the line and the error."""

    def refuse(record: Record, error: NearcastError) -> None:
        problem = SourceError(f"{name}:{record.line}: {error}")
        for note in getattr(error, "__notes__", ()):
            problem.add_note(note)
        raise problem from error

    return refuse


class Quarantine:
    """A refusal that writes the event, its line and its error to a file, and goes on."""

    def __init__(self, file: ByteSink) -> None:
        self._file = file
        self.count = 0

    def __call__(self, record: Record, error: NearcastError) -> None:
        """Set one record aside."""
        entry = {"line": record.line, "error": str(error), "event": as_given(record.raw)}
        try:
            written = _json(entry)
        except RecursionError:  # it could be read, but is nested too deeply to write inside another
            written = _json(entry | {"event": as_text(record.raw)})
        self._file.write(written + b"\n")
        self._file.flush()
        self.count += 1


def as_given(raw: bytes | dict[str, Any]) -> object:
    """The event as JSON where it is JSON, as text where it is not."""
    if isinstance(raw, dict):
        return {key: value for key, value in raw.items() if value is not None}
    try:
        return msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        return as_text(raw)


def as_text(raw: bytes | dict[str, Any]) -> str:
    """The event as text, whatever it is; a row only as far as an error shows values."""
    return show(raw) if isinstance(raw, dict) else raw.decode(errors="replace")


def update_line(event: int, update: Update, include: Include = NOTHING) -> bytes:
    """Write one update as a line of JSON, with what is to be included."""
    score = b"" if update.score is None else b', "score": ' + repr(update.score).encode()
    body = meta = b""
    if include.message and update.late is not None:
        body = b', "body": ' + update.late.json
    if include.meta and update.meta is not None:
        meta = b', "meta": ' + _json(update.meta)
    return b'{"event": %d, "op": "%b", "subscription": %b, "message": %b%b%b%b}\n' % (
        event,
        update.op.encode(),
        _json(update.subscription),
        _json(update.message),
        score,
        body,
        meta,
    )
