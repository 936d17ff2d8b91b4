"""The subscription table keeps its rows, and stays as small as what is in it."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast import Box, Circle, MultiPolygon, Polygon
from nearcast.errors import SourceError
from nearcast.geo import Region
from nearcast.index import Batch, Table, match
from nearcast.index.rarest_term import RarestTerm
from nearcast.index.sequential import Sequential

REGIONS: list[Region] = [
    Box(0, 0, 10, 10),
    Box(170, -10, -170, 10),
    Circle((5, 5), 200_000),
    Circle((180, 0), 300_000),
    Polygon([[(0, 0), (8, 0), (0, 8), (0, 0)]]),
    Polygon(
        [
            [(0, 0), (9, 0), (9, 9), (0, 9), (0, 0)],
            [(2, 2), (7, 2), (7, 7), (2, 7), (2, 2)],
        ]
    ),
    MultiPolygon(
        [
            [[(0, 0), (9, 0), (9, 9), (0, 0)], [(5, 1), (8, 1), (8, 4), (5, 1)]],
            [[(170, -5), (180, -5), (180, 5), (170, -5)]],
            [[(-180, -5), (-170, -5), (-180, 5), (-180, -5)]],
            [[(4, 0), (9, 0), (9, 5), (4, 0)]],  # lies in the first, and touches its hole
        ]
    ),
]
CONJUNCTS: list[list[tuple[list[int], list[int]]]] = [
    [([1], [])],
    [([1, 2], [3])],
    [([1], []), ([2], [1, 3])],
]
PLACES = [(1.0, 1.0), (5.0, 5.0), (8.5, 8.5), (175.0, 0.0), (-179.0, 1.0), (3.0, 1.5)]
TEXTS = [[1], [2], [1, 2], [1, 2, 3]]


def everything() -> Batch:
    """Every text at every place."""
    terms = [text for text in TEXTS for _ in PLACES]
    starts = np.cumsum([0] + [len(text) for text in terms])
    boxes = np.array([(*place, *place) for _ in TEXTS for place in PLACES])
    return Batch(starts, np.array([t for text in terms for t in text], np.int32), boxes)


@settings(max_examples=5)
@given(
    st.lists(st.tuples(st.integers(0, len(REGIONS) - 1), st.integers(0, 2)), min_size=1, max_size=8)
)
def test_rows_answer_the_same_after_many_others_came_and_went(
    kept: list[tuple[int, int]],
) -> None:
    table = Table()
    table.ensure_terms(4)
    index = Sequential(table)
    for owner, (region, conjuncts) in enumerate(kept):
        table.add(owner, CONJUNCTS[conjuncts], REGIONS[region])
    before = match(index, everything())
    size = table.nbytes
    for round_ in range(3000):
        rows = table.add(99, CONJUNCTS[round_ % 3], REGIONS[round_ % len(REGIONS)])
        table.release(index.delete(rows))
        table.remove(rows)
    after = match(index, everything())
    assert before.owners.tolist() == after.owners.tolist()
    assert before.messages.tolist() == after.messages.tolist()
    assert table.nbytes < size + 500_000
    assert len(table) <= len(table.live_rows()) + 8  # rows of one subscription


def test_many_boxes_at_once_are_rows_like_any_other() -> None:
    table = Table()
    table.ensure_terms(4)
    index = Sequential(table)
    boxes = np.array([(0.0, 0.0, 10.0, 10.0), (5.0, 5.0, 6.0, 6.0)])
    rows = table.add_boxes(
        np.array([7, 9], np.int32), boxes, np.array([0, 1, 3]), np.array([1, 1, 2], np.int32)
    )
    assert rows.tolist() == [0, 1]
    message = Batch(np.array([0, 2]), np.array([1, 2], np.int32), np.array([(5.0, 5.0, 5.0, 5.0)]))
    assert match(index, message).owners.tolist() == [7, 9]
    table.move(rows[1:], np.array([(0.0, 0.0, 1.0, 1.0)]))
    assert match(index, message).owners.tolist() == [7]


def test_boxes_take_numbers_that_are_free_in_whatever_order() -> None:
    table = Table()
    boxes = np.arange(24.0).reshape(6, 4)
    starts, terms = np.arange(7), np.arange(6, dtype=np.int32)
    table.add_boxes(np.arange(6, dtype=np.int32), boxes, starts, terms)
    gone = np.array([4, 1], np.int32)
    table.remove(gone)
    table.release(gone)
    rows = table.add_boxes(np.array([7, 8, 9], np.int32), boxes[:3] + 50, starts[:4], terms[3:])
    assert sorted(rows.tolist()) == [1, 4, 6]
    now = table.rows
    assert now.owner[rows].tolist() == [7, 8, 9]
    assert (now.box[rows] == boxes[:3] + 50).all()
    assert now.terms[now.first[rows]].tolist() == [3, 4, 5]
    others = [0, 2, 3, 5]
    assert now.owner[others].tolist() == others
    assert (now.box[others] == boxes[others]).all()
    assert now.terms[now.first[others]].tolist() == others


def test_a_table_that_was_saved_goes_on_where_it_was(tmp_path: Path) -> None:
    table = Table()
    table.ensure_terms(4)
    kept = [table.add(n, CONJUNCTS[n % 3], REGIONS[n % len(REGIONS)]) for n in range(14)]
    table.release(kept[3])
    table.remove(kept[3])
    table.save(tmp_path / "table")
    loaded = Table.load(tmp_path / "table")
    for both in (table, loaded):
        both.add(50, CONJUNCTS[2], REGIONS[5])
    one, other = (match(Sequential(each), everything()) for each in (table, loaded))
    assert one.owners.tolist() == other.owners.tolist()
    assert one.messages.tolist() == other.messages.tolist()
    assert len(table) == len(loaded)
    again = Table.load(tmp_path / "table")  # what was added stayed in this process
    assert 50 not in again.rows.owner
    with pytest.raises(SourceError, match="holds table of version 1"):
        RarestTerm.load(tmp_path / "table", again)
