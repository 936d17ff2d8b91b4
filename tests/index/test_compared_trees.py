"""What sets the compared indexes apart: where rows are kept, and how many are looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidValue
from nearcast.geo import Box
from nearcast.index import INDEXES, Batch, Index, Table, match

TERMS, COUNT = 40, 600


def table_of(side: float, count: int = COUNT) -> Table:
    """Squares of one size all over a square, with one to three terms of which the first is rare."""
    random = np.random.default_rng(3)
    table = Table()
    table.ensure_terms(TERMS)
    table.frequency[:TERMS] = 1000 // np.arange(1, TERMS + 1)
    corners = random.uniform(0, 100 - side, (count, 2))
    lengths = random.integers(1, 4, count)
    terms = [random.choice(TERMS, length, replace=False) for length in lengths]
    starts = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    boxes = np.hstack((corners, corners + side))
    owners = np.arange(count, dtype=np.int32)
    table.add_boxes(owners, boxes, starts, np.concatenate(terms).astype(np.int32))
    return table


def messages(count: int = 50) -> Batch:
    """Points within the square, with twelve terms each."""
    random = np.random.default_rng(4)
    points = random.uniform(0, 100, (count, 2))
    terms = [random.choice(TERMS, 12, replace=False) for _ in range(count)]
    starts = np.arange(0, 12 * count + 1, 12, dtype=np.int64)
    return Batch(starts, np.concatenate(terms).astype(np.int32), np.hstack((points, points)))


def built(name: str, table: Table, **options: Any) -> Index:
    make: Any = INDEXES[name]
    index: Index = make(table, **options)
    index.build()
    return index


@pytest.mark.parametrize("name", ["iq-tree", "rq-tree"])
def test_copies_are_made_where_they_save_verifications(name: str) -> None:
    """Patience for one message keeps each row in one cell; for many, fewer rows are looked at."""
    table = table_of(side=12.0)
    none, some = (built(name, table, horizon=horizon) for horizon in (1e-3, 1e4))
    assert none.stats()["replication"] == 1
    assert some.stats()["replication"] > 2
    plain, better = match(none, messages()), match(some, messages())
    assert len(plain.owners) == len(better.owners) > 0
    assert better.candidates < 0.6 * plain.candidates


def test_a_tree_of_rare_terms_is_a_root() -> None:
    """A row of the RQ-Tree whose term hardly any message has is not worth a way down."""
    table = table_of(side=1.0)
    rare = built("rq-tree", table, horizon=1e-3).stats()
    assert rare["nodes"] <= TERMS
    assert built("iq-tree", table, horizon=1e-3).stats()["nodes"] > TERMS


def test_nodes_go_with_the_last_row() -> None:
    """Deleting everything leaves quadtrees and tries without nodes, ready for the same rows."""
    table = table_of(side=5.0)
    rows = table.live_rows()
    for name in ("iq-tree", "rq-tree", "keyword-trie"):
        index = built(name, table)
        before = index.stats()
        index.delete(rows)
        assert match(index, messages()).candidates == 0
        index.insert(rows)
        after = index.stats()
        assert after["nodes"] == before["nodes"], name
        assert after["bytes"] <= 1.5 * before["bytes"], name


def test_fewer_terms_at_nodes_look_at_fewer_rows() -> None:
    """Rt looks at rows of any common term, Rt+ of the rarest, the IR-Tree at those with all."""
    table = table_of(side=20.0)
    looked = {
        variant: match(built("rt-tree", table, variant=variant, fanout=8), messages()).candidates
        for variant in ("rt", "rt+", "rt++")
    }
    counted = match(built("ir-tree", table, fanout=8), messages())
    assert looked["rt+"] < 0.7 * looked["rt"]
    assert looked["rt++"] < 0.9 * looked["rt"]
    assert len(counted.owners) <= counted.candidates < looked["rt+"]


@pytest.mark.parametrize("name", ["rt-tree", "ir-tree"])
def test_a_row_goes_to_a_half_of_the_node_that_was_divided_for_it(name: str) -> None:
    """Also where another node, which may be full, would grow less than either half."""
    wide = [(0.0, 0.0), (1.0, 0.2), (100.0, 0.3)]  # one leaf: it covers what lies between them
    near = [(50.0, 1.0), (51.0, 1.1), (52.0, 1.1)]  # another leaf, near what lies between them
    more = [(101.0, 0.2), (53.0, 1.05), (50.0, 0.2)]  # both are full, then one comes between
    points = np.array([*wide, *near, *more])
    table = Table()
    table.ensure_terms(1)
    starts, terms = np.arange(7, dtype=np.int64), np.zeros(9, np.int32)
    boxes = np.hstack((points, points))
    table.add_boxes(np.arange(6, dtype=np.int32), boxes[:6], starts, terms[:6])
    index = built(name, table, fanout=4)
    for owner in range(6, 9):
        index.insert(table.add(owner, [([0], [])], Box(*boxes[owner].tolist())))
    everyone = match(index, Batch(np.arange(10, dtype=np.int64), terms, boxes))
    assert everyone.owners.tolist() == list(range(9))


def test_the_order_of_terms_changes_the_trie_and_not_what_it_finds() -> None:
    """Rows at the end of a way that a message can go are the same in any order."""
    table = table_of(side=20.0)
    found = [match(built("keyword-trie", table, order=order), messages())
             for order in ("tf", "idf", "random")]  # fmt: skip
    assert len({one.candidates for one in found}) == 1
    assert len({len(one.owners) for one in found}) == 1
    nodes = [built("keyword-trie", table, order=order).stats()["nodes"] for order in ("tf", "idf")]
    assert nodes[0] < nodes[1], "frequent terms first share more ways"


def test_a_history_says_where_and_what_messages_are() -> None:
    """An IQ-Tree that knows its messages keeps rows in fewer cells where there are none."""
    table, sent = table_of(side=12.0), messages(400)
    corner = Batch(sent.starts, sent.terms, sent.boxes * 0.2)
    informed, plain = built("iq-tree", table, history=corner), built("iq-tree", table)
    assert informed.stats()["replication"] < plain.stats()["replication"]
    assert len(match(informed, sent).owners) == len(match(plain, sent).owners) > 0


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("iq-tree", {"depth": 16}, "depth: 16 given; expected 1 to 15 levels"),
        ("rq-tree", {"horizon": 0}, "horizon: 0 given; expected a number above 0"),
        ("rt-tree", {"variant": "rt+++"}, "variant: 'rt+++' given; expected one of rt, rt+, rt++"),
        ("rt-tree", {"fanout": 65}, "fanout: 65 given; expected 4 to 64 entries a node"),
        ("keyword-trie", {"order": "abc"}, "order: 'abc' given; expected one of tf, idf, random"),
    ],
)
def test_options_that_cannot_be_are_refused(
    name: str, options: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InvalidValue, match=expected.replace("+", r"\+")):
        built(name, Table(), **options)
