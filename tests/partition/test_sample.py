"""Samples are what the history says, as arrays."""

from typing import Any

import numpy as np
import pytest

from nearcast.arrays.slots import term_hash
from nearcast.errors import InvalidValue
from nearcast.events import event_from_json
from nearcast.partition.sample import (
    Sample,
    SampleRows,
    frequent_terms,
    hashed,
    messages_of,
    rows_of,
    sample_from_events,
    sample_of,
)
from nearcast.text import Analyser

BOX = {"type": "Box", "bbox": [0, 0, 1, 1]}
ACROSS = {"type": "Box", "bbox": [170, 0, -170, 1]}


def history(*events: dict[str, Any], **options: Any) -> Sample:
    return sample_from_events(map(event_from_json, events), held_out=0.0, **options)


def rows_in(rows: SampleRows) -> list[tuple[int, list[float], set[int]]]:
    found = [
        (
            int(rows.owners[at]),
            rows.boxes[at].tolist(),
            set(rows.terms[rows.starts[at] : rows.starts[at + 1]].tolist()),
        )
        for at in range(rows.size)
    ]
    return sorted(found, key=lambda row: row[:2])


def hashes(text: str) -> set[int]:
    return {term_hash(term) for term in text.split()}


def test_a_row_for_each_conjunct_and_plain_box() -> None:
    """OR and the antimeridian multiply rows, NOT leaves no trace, and terms are hashed."""
    sample = history(
        {"op": "subscribe", "id": "a", "query": "Jazz (Blues OR soul) NOT loud", "region": BOX},
        {"op": "subscribe", "id": "b", "query": "jazz", "region": ACROSS},
    )
    found = rows_in(sample.rows)
    assert [(owner, box) for owner, box, _ in found] == [
        *[(0, [0, 0, 1, 1])] * 2,
        *((1, [-180, 0, -170, 1]), (1, [170, 0, 180, 1])),
    ]
    assert {frozenset(terms) for _, _, terms in found[:2]} == {
        *(frozenset(hashes("jazz blues")), frozenset(hashes("jazz soul")))
    }
    assert [terms for _, _, terms in found[2:]] == [hashes("jazz")] * 2


def test_messages_are_points_or_plain_boxes() -> None:
    """A point is a box of size zero; a box across the antimeridian is there twice."""
    sample = history(
        {"op": "publish", "id": "m", "text": "the jazz, jazz!", "point": [3, 4]},
        {"op": "publish", "id": "n", "text": "blues", "region": ACROSS},
        analyser=Analyser(stop_words=["the"]),
    )
    messages = sample.messages
    assert messages.boxes.tolist() == [[3, 4, 3, 4], [170, 0, 180, 1], [-180, 0, -170, 1]]
    assert messages.starts.tolist() == [0, 1, 2, 3]
    assert messages.terms.tolist() == [term_hash("jazz"), term_hash("blues"), term_hash("blues")]


def test_the_population_is_the_one_at_the_end() -> None:
    """Replaced, moved and ended subscriptions count as such, and top-k ones not at all."""
    top = {"k": 1, "alpha": 0.5}
    sample = history(
        {"op": "subscribe", "id": "a", "query": "old", "region": BOX},
        {"op": "subscribe", "id": "b", "query": "gone", "region": BOX},
        {"op": "subscribe", "id": "t", "query": "best", "point": [0, 0], "top": top},
        {"op": "publish", "id": "m", "text": "x", "point": [0, 0]},
        {"op": "subscribe", "id": "a", "query": "new", "region": BOX},
        {"op": "unsubscribe", "id": "b"},
        {"op": "move", "id": "a", "region": {"type": "Box", "bbox": [5, 5, 6, 6]}},
        {"op": "move", "id": "t", "point": [1, 1]},
    )
    assert rows_in(sample.rows) == [(0, [5, 5, 6, 6], hashes("new"))]
    assert sample.operations == 4


def test_nothing_gives_an_empty_sample() -> None:
    """A history without events is a sample without rows and messages."""
    sample = history()
    assert (sample.rows.size, sample.messages.size, sample.held_out.size) == (0, 0, 0)
    assert sample.rows.boxes.shape == (0, 4)


def test_messages_held_out_are_not_planned_from() -> None:
    """Every message is in exactly one part, with its own terms, and the share is about right."""
    count = 2000
    places = np.repeat(np.arange(count, dtype=np.float64)[:, None], 4, axis=1)
    messages = messages_of(places, np.arange(count + 1), np.arange(count))
    rows = rows_of(places[:5], np.arange(6), np.arange(5))
    sample = sample_of(rows, messages, operations=100, held_out=0.25)
    parts = [sample.messages, sample.held_out]
    assert sorted(np.concatenate([part.boxes[:, 0] for part in parts])) == list(range(count))
    for part in parts:
        assert part.terms.tolist() == hashed(part.boxes[:, 0].astype(np.int64)).tolist()
    assert 400 < sample.held_out.size < 600
    small = sample.limited(3, 100)
    assert (small.rows.size, small.messages.size, small.held_out.size) == (3, 100, 100)
    assert small.operations == 10
    assert small.messages.terms.tolist() == hashed(small.messages.boxes[:, 0].astype(int)).tolist()
    assert rows_in(small.rows)[0][0] == int(small.rows.boxes[0, 0])
    with pytest.raises(InvalidValue, match="held_out: 1.5 given"):
        sample_of(rows, messages, held_out=1.5)


def test_frequent_terms_are_sorted_and_cut_to_the_most_frequent() -> None:
    """Terms in one message only are left out, and of too many the rarest go."""
    ids = np.array([1, 2, 1, 2, 3, 1, 4, 4])
    messages = messages_of(np.zeros((8, 4)), np.arange(9), ids)
    known = dict(zip(hashed(np.arange(5)).tolist(), range(5), strict=True))
    terms, counts = frequent_terms(messages)
    assert terms.tolist() == sorted(terms.tolist())
    found = {known[t]: n for t, n in zip(terms.tolist(), counts.tolist(), strict=True)}
    assert found == {1: 3, 2: 2, 4: 2}
    terms, counts = frequent_terms(messages, most=1)
    assert ([known[t] for t in terms.tolist()], counts.tolist()) == ([1], [3])
