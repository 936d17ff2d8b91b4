"""What a plan is made from: a sample of subscriptions and messages, as arrays of hashed terms."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.lists import picked, starts_of
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.events import Event, Message, Move, Publish, Subscribe, Subscription, Unsubscribe
from nearcast.geo import Bounds
from nearcast.partition.tables import Terms
from nearcast.text import DEFAULT, Analyser, parse_query
from nearcast.text.columns import hash_terms

HELD_OUT = 0.2
"""The share of the messages that plans are scored on and not made from."""

_MOST_FREQUENT = 1 << 17


class SampleRows(NamedTuple):
    """One row for each conjunct and plain box of a subscription.

    The required terms of row i are `terms[starts[i] : starts[i + 1]]`; `owners[i]` numbers the
    subscription that it belongs to.
    """

    boxes: Floats
    starts: Int64s
    terms: Terms
    owners: Int32s

    @property
    def size(self) -> int:
        """How many rows there are."""
        return len(self.boxes)


class SampleMessages(NamedTuple):
    """One entry for each message, of size zero at a point; two where a box crosses 180 degrees."""

    boxes: Floats
    starts: Int64s
    terms: Terms

    @property
    def size(self) -> int:
        """How many entries there are."""
        return len(self.boxes)


@dataclass(frozen=True, eq=False)
class Sample:
    """Rows and messages to plan from, and other messages to score plans on.

    `operations` is how many subscriptions were made, moved and ended while the messages (both
    parts) arrived. `letters` are those of its terms, if they are known: their hash is plain.
    """

    rows: SampleRows
    messages: SampleMessages
    held_out: SampleMessages
    operations: int = 0
    letters: Sequence[str] = ()

    def limited(self, most_rows: int, most_messages: int, seed: int = 0) -> Sample:
        """Thin out to at most that many rows, and messages in each part, all equally likely."""
        draw = np.random.default_rng(seed)
        rows = _drawn(draw, self.rows.size, most_rows)
        kept = [
            take_messages(part, _drawn(draw, part.size, most_messages))
            for part in (self.messages, self.held_out)
        ]
        before = max(self.messages.size + self.held_out.size, 1)
        share = (kept[0].size + kept[1].size) / before
        return replace(
            self,
            rows=take_rows(self.rows, rows),
            messages=kept[0],
            held_out=kept[1],
            operations=round(self.operations * share),
        )


def _drawn(draw: np.random.Generator, count: int, most: int) -> Int64s:
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.sort(draw.choice(count, most, replace=False)).astype(np.int64)


def hashed(numbers: npt.NDArray[np.integer]) -> Terms:
    """Give each number a hash of 64 bits of its own, for term ids without a text."""
    value = numbers.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def take(starts: Int64s, terms: Terms, chosen: Int64s) -> tuple[Int64s, Terms]:
    """Give the term lists of the chosen rows."""
    taken, places = picked(starts, chosen)
    return taken, terms[places]


def take_rows(rows: SampleRows, chosen: Int64s) -> SampleRows:
    """Give the chosen rows."""
    return SampleRows(
        rows.boxes[chosen], *take(rows.starts, rows.terms, chosen), rows.owners[chosen]
    )


def take_messages(messages: SampleMessages, chosen: Int64s) -> SampleMessages:
    """Give the chosen messages."""
    return SampleMessages(messages.boxes[chosen], *take(messages.starts, messages.terms, chosen))


def joined_messages(parts: Sequence[SampleMessages]) -> SampleMessages:
    """Give the messages of all parts, one part after the other."""
    lengths = np.concatenate([np.diff(part.starts) for part in parts])
    return SampleMessages(
        np.concatenate([part.boxes for part in parts]),
        starts_of(lengths),
        np.concatenate([part.terms for part in parts]),
    )


def sample_of(
    rows: SampleRows,
    messages: SampleMessages,
    operations: int = 0,
    held_out: float = HELD_OUT,
    seed: int = 0,
) -> Sample:
    """Make a sample from arrays; a share of the messages, drawn at random, is held out."""
    if not 0.0 <= held_out < 1.0:
        raise InvalidValue("held_out", held_out, "a share from 0 to less than 1")
    apart = np.random.default_rng(seed).random(messages.size) < held_out
    return Sample(
        rows=rows,
        messages=take_messages(messages, np.flatnonzero(~apart)),
        held_out=take_messages(messages, np.flatnonzero(apart)),
        operations=operations,
    )


def rows_of(
    boxes: Floats, starts: Int64s, terms: npt.NDArray[np.integer], owners: Int32s | None = None
) -> SampleRows:
    """Make rows from arrays with term ids, which are hashed; by default each has its own owner."""
    if owners is None:
        owners = np.arange(len(boxes), dtype=np.int32)
    return SampleRows(
        np.ascontiguousarray(boxes, np.float64),
        np.ascontiguousarray(starts, np.int64),
        hashed(terms),
        np.ascontiguousarray(owners, np.int32),
    )


def messages_of(boxes: Floats, starts: Int64s, terms: npt.NDArray[np.integer]) -> SampleMessages:
    """Make messages from arrays with term ids, which are hashed."""
    return SampleMessages(
        np.ascontiguousarray(boxes, np.float64),
        np.ascontiguousarray(starts, np.int64),
        hashed(terms),
    )


def sample_from_events(
    events: Iterable[Event],
    analyser: Analyser = DEFAULT,
    held_out: float = HELD_OUT,
    seed: int = 0,
) -> Sample:
    """Make a sample from a history: its messages, and the subscriptions there are at its end.

    Subscriptions for the best few (top-k) take no part: they are planned otherwise. Operations
    are counted from the first message on, so that a population loaded beforehand is no load.
    """
    reader = _HistoryReader(analyser)
    for event in events:
        reader.take(event)
    sample = sample_of(reader.rows(), reader.messages(), reader.operations, held_out, seed)
    return replace(sample, letters=reader.letters)


def frequent_terms(messages: SampleMessages, most: int = _MOST_FREQUENT) -> tuple[Terms, Int64s]:
    """Give the terms in most messages (in at least 2), sorted, and in how many each occurs."""
    terms, counts = np.unique(messages.terms, return_counts=True)
    kept = np.flatnonzero(counts >= 2)
    if len(kept) > most:
        kept = np.sort(kept[np.argsort(-counts[kept], kind="stable")[:most]])
    return terms[kept], counts[kept].astype(np.int64)


class _Lists:
    """Boxes with a list of terms each, as they come."""

    def __init__(self) -> None:
        self.boxes: list[Bounds] = []
        self.lengths: list[int] = []
        self.terms: list[int] = []
        self.owners: list[int] = []

    def add(self, box: Bounds, terms: list[int], owner: int) -> None:
        self.boxes.append(box)
        self.lengths.append(len(terms))
        self.terms.extend(terms)
        self.owners.append(owner)

    def columns(self, hashes: Terms) -> tuple[Floats, Int64s, Terms]:
        starts = starts_of(self.lengths)
        boxes = np.array(self.boxes, np.float64).reshape(-1, 4)
        return boxes, starts, hashes[np.array(self.terms, np.int64)]


class _HistoryReader:
    """Collects the messages and current subscriptions of a history.

    Terms are numbered in the order of their appearance.
    """

    def __init__(self, analyser: Analyser) -> None:
        self._analyser = analyser
        self._numbers: dict[str, int] = {}
        self._current: dict[str, Subscription] = {}
        self._messages = _Lists()
        self._started = False
        self.operations = 0

    def take(self, event: Event) -> None:
        if isinstance(event, Publish):
            self._started = True
            self._publish(event.message)
            return
        self.operations += self._started
        if isinstance(event, Subscribe):
            if event.subscription.top is None:
                self._current[event.subscription.id] = event.subscription
        elif isinstance(event, Unsubscribe):
            self._current.pop(event.id, None)
        elif isinstance(event, Move) and event.id in self._current and event.region is not None:
            moved = replace(self._current[event.id], region=event.region)
            self._current[event.id] = moved

    def _numbered(self, terms: Iterable[str]) -> list[int]:
        numbers = self._numbers
        return sorted(numbers.setdefault(term, len(numbers)) for term in terms)

    def _publish(self, message: Message) -> None:
        terms = self._numbered(self._analyser.terms(message.text))
        if message.point is not None:
            self._messages.add((*message.point, *message.point), terms, 0)
        elif message.region is not None:
            for box in message.region.bounds():
                self._messages.add(box, terms, 0)

    def rows(self) -> SampleRows:
        lists = _Lists()
        for owner, subscription in enumerate(self._current.values()):
            if subscription.region is None or subscription.query is None:
                continue  # which a pipeline does not take
            query = parse_query(subscription.query, self._analyser)
            for conjunct in query.conjuncts:
                terms = self._numbered(conjunct.required)
                for box in subscription.region.bounds():
                    lists.add(box, terms, owner)
        return SampleRows(*lists.columns(self._hashes()), np.array(lists.owners, np.int32))

    def messages(self) -> SampleMessages:
        return SampleMessages(*self._messages.columns(self._hashes()))

    @property
    def letters(self) -> list[str]:
        return list(self._numbers)

    def _hashes(self) -> Terms:
        return hash_terms(self.letters)
