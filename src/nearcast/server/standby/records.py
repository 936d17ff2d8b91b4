"""The commits of a tenant as they are sent to a standby, and what the standby does with them.

A commit is sent as the events that it accepted. They have the same effect on the standby: the
state, the updates and their ids are a function of the events. What is not the effect of events
(answers under idempotency keys, webhooks, terms) is sent as rows for named statements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from nearcast.engine import Engine
from nearcast.engine.outcome import EventOutcome
from nearcast.errors import NearcastError
from nearcast.events import Event, event_from_json, event_to_json
from nearcast.events.log import decode_json
from nearcast.store.lineage import NumberedCommit

_MOST_EVENTS = 4096


class ReplicaError(NearcastError):
    """A commit that does not follow on from the state of the standby, or has another effect."""


class CommitRecord(msgspec.Struct, array_like=True):
    """A commit: its events as lines of JSON, and the numbers that are right after it."""

    position: int
    mark: str
    seq: int
    last: int
    events: bytes
    notes: list[tuple[str, list[list[Any]]]]


_encode = msgspec.msgpack.Encoder().encode
_line = msgspec.json.Encoder().encode
_decode = msgspec.msgpack.Decoder(list[CommitRecord]).decode


def encode_commit(commit: NumberedCommit, events: Sequence[Event], seq: int, last: int) -> bytes:
    """Encode one commit."""
    lines = b"\n".join([_line(event_to_json(event)) for event in events])
    return _encode(CommitRecord(commit.position, commit.mark, seq, last, lines, commit.notes))  # type: ignore[arg-type]  # rows are encoded as lists


def join_commits(frames: Sequence[bytes]) -> bytes:
    """Many encoded commits as one message."""
    return b"\xdd" + len(frames).to_bytes(4, "big") + b"".join(frames)  # an array of MessagePack


def decode_commits(data: bytes) -> list[CommitRecord]:
    """Read a message with commits."""
    return _decode(data)


Repeated = tuple[list[Event], list[EventOutcome], float | None]
"""Events that were applied together, their outcomes, and the time before them."""


def repeat_commits(engine: Engine, records: Sequence[CommitRecord]) -> Iterator[Repeated]:
    """Make commits of the primary again, some at a time; those of events are joined."""
    lineage = engine.lineage
    if lineage is None:
        raise ReplicaError("a standby keeps its data in a folder; start it with --data DIR")
    for some in _groups(records):
        if some[0].position != lineage.position + 1:
            raise ReplicaError(
                f"commit {some[0].position} does not follow on commit {lineage.position}"
            )
        end = some[-1]
        events = [event for record in some for event in _events(record)]
        before = engine.now
        if events:
            lineage.expect(end.position, end.mark)
            outcomes = engine.apply_all(events, _answers(some))
            if any(outcome.error is not None for outcome in outcomes):
                raise ReplicaError(f"commit {end.position} has an event that is refused here")
            yield events, outcomes, before
        else:
            lineage.repeat(end.position, end.mark, end.notes)
        if (engine.seq, engine.log.last) != (end.seq, end.last):
            raise ReplicaError(
                f"commit {end.position} ends with event {engine.seq} and update "
                f"{engine.log.last} here, with {end.seq} and {end.last} on the primary"
            )


def _groups(records: Sequence[CommitRecord]) -> Iterator[list[CommitRecord]]:
    """Commits of events that follow each other; those without events alone."""
    some: list[CommitRecord] = []
    count = 0
    for record in records:
        events = record.events.count(b"\n") + 1 if record.events else 0
        if some and (not events or count + events > _MOST_EVENTS):
            yield some
            some, count = [], 0
        if events:
            some.append(record)
            count += events
        else:
            yield [record]
    if some:
        yield some


def _events(record: CommitRecord) -> Iterator[Event]:
    for line in record.events.splitlines():
        yield event_from_json(decode_json(line))


def _answers(records: Sequence[CommitRecord]) -> dict[str, bytes]:
    """The answers to store with the events."""
    found: dict[str, bytes] = {}
    for record in records:
        for name, rows in record.notes:
            if name != "remember":
                raise ReplicaError(f"commit {record.position} has events and {name!r} in one")
            found |= {key: answer for key, answer, _ in rows}
    return found
