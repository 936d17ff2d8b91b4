"""How alike the text of messages and of subscriptions is: cosine similarity of term counts.

PS2Stream, section IV-B: where messages and subscriptions speak of different things, few messages
ask for anything, and splitting by text repeats little. The cosine is ruled by the most frequent
terms: in `sts-q1` and `sts-q2` it is above 0.99 nearly everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.grid import Grid, spans_of
from nearcast.partition.kdt import Rect
from nearcast.partition.sample import Sample


def cosine(one: Floats, other: Floats) -> float:
    """The cosine of two vectors of counts: 1 if they are proportional, 0 if one is empty."""
    length = float(np.sqrt(np.dot(one, one) * np.dot(other, other)))
    return float(np.dot(one, other)) / length if length > 0 else 0.0


class SampledTexts(NamedTuple):
    """The terms of sampled messages and rows, numbered alike, with the cells they lie in."""

    columns: Int32s
    rows: Int32s
    message_starts: Int64s
    message_terms: Int32s
    spans: Int32s
    row_starts: Int64s
    row_terms: Int32s
    terms: int

    def similarity(self, rect: Rect) -> float:
        """How alike the messages in some cells and the rows that meet those cells are."""
        objects = np.zeros(self.terms)
        queries = np.zeros(self.terms)
        _count_messages(
            self.columns, self.rows, self.message_starts, self.message_terms, rect, objects
        )
        _count_rows(self.spans, self.row_starts, self.row_terms, rect, queries)
        return cosine(objects, queries)

    def middle(self, rect: Rect, axis: int) -> int:
        """The line that has half of the messages in a rect on each side, as far as lines can."""
        inside = (self.columns >= rect.west) & (self.columns < rect.east)
        inside &= (self.rows >= rect.south) & (self.rows < rect.north)
        at = (self.columns, self.rows)[axis][inside]
        low, high = rect[axis], rect[axis + 2]
        if not len(at):
            return (low + high) // 2
        below = np.cumsum(np.bincount(at - low, minlength=high - low))[:-1]
        return low + 1 + int(np.argmin(np.abs(below - len(at) / 2)))


def texts_of(sample: Sample, grid: Grid) -> SampledTexts:
    """Number the terms of a sample; a message with a box counts at its south-western cell."""
    messages, rows = sample.messages, sample.rows
    known, number = np.unique(np.concatenate((messages.terms, rows.terms)), return_inverse=True)
    numbered: Int32s = number.reshape(-1).astype(np.int32)
    spans = spans_of(grid, messages.boxes)
    return SampledTexts(
        columns=np.ascontiguousarray(spans[:, 0]),
        rows=np.ascontiguousarray(spans[:, 1]),
        message_starts=messages.starts,
        message_terms=numbered[: len(messages.terms)],
        spans=spans_of(grid, rows.boxes),
        row_starts=rows.starts,
        row_terms=numbered[len(messages.terms) :],
        terms=len(known),
    )


@kernel
def _count_messages(
    columns: Int32s,
    rows: Int32s,
    starts: Int64s,
    terms: Int32s,
    rect: Rect,
    counts: Floats,
) -> None:
    for at in range(len(columns)):
        if rect.west <= columns[at] < rect.east and rect.south <= rows[at] < rect.north:
            for place in range(starts[at], starts[at + 1]):
                counts[terms[place]] += 1.0


@kernel
def _count_rows(
    spans: Int32s,
    starts: Int64s,
    terms: Int32s,
    rect: Rect,
    counts: Floats,
) -> None:
    for at in range(len(spans)):
        if (
            spans[at, 0] < rect.east
            and spans[at, 2] >= rect.west
            and spans[at, 1] < rect.north
            and spans[at, 3] >= rect.south
        ):
            for place in range(starts[at], starts[at + 1]):
                counts[terms[place]] += 1.0
