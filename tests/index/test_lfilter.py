"""What MBRTrie, PT-Quadtree and LFilter are made of: ids, pivotal terms, prices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nearcast.index import Batch, Table, match
from nearcast.index.lfilter import LFilter, MbrTrie, PtQuadtree
from nearcast.index.lfilter.quadtree import NODES
from nearcast.index.lfilter.search import PRICES

TERMS = 60


def filled_table(count: int, seed: int = 3, side: float = 8.0) -> Table:
    """Random boxes with one to four terms each, frequent ones first."""
    random = np.random.default_rng(seed)
    table = Table()
    table.ensure_terms(TERMS)
    add_rows(table, count, random, side)
    return table


def add_rows(table: Table, count: int, random: np.random.Generator, side: float = 8.0) -> Any:
    chosen = [np.unique(random.zipf(1.4, int(random.integers(1, 5))) % TERMS) for _ in range(count)]
    starts = np.concatenate([[0], np.cumsum([len(terms) for terms in chosen])]).astype(np.int64)
    corners = random.uniform(-50, 50, (count, 2))
    boxes = np.hstack([corners, corners + random.uniform(0, side, (count, 2))])
    owners = np.arange(len(table), len(table) + count, dtype=np.int32)
    return table.add_boxes(owners, boxes, starts, np.concatenate(chosen).astype(np.int32))


def subtree(trie: Any, node: int) -> list[int]:
    """The rows below a node, in order of their term sets."""
    at = trie.nodes[node]
    rows: list[int] = trie.rows.cells[0, at["rows"] : at["rows"] + at["held"]].tolist()
    labels: list[int] = []
    slot = at["first"]
    while len(labels) < at["count"]:
        kid = int(trie.kids.cells[1, slot])
        if kid >= 0:
            labels.append(int(trie.kids.cells[0, slot]))
            rows += subtree(trie, kid)
        slot += 1
    assert labels == sorted(set(labels))
    numbers = [int(trie.ids[row]) for row in rows]
    assert numbers == sorted(set(numbers)), "ids follow the order of term sets"
    if rows:
        assert (at["low"], at["high"]) == (numbers[0], numbers[-1])
    return rows


@pytest.mark.parametrize("order", ["idf", "tf"])
def test_ids_follow_the_order_of_term_sets_through_insertions(order: str) -> None:
    """Built or inserted one by one, the rows below a node are a range of ids."""
    table = filled_table(200)
    index = MbrTrie(table, order=order)
    index.build()
    random = np.random.default_rng(4)
    for _ in range(150):
        index.insert(add_rows(table, 1, random))
    trie = index._trie
    rows = subtree(trie, 0)
    assert sorted(rows) == list(range(350))
    labels = index._order.labels
    sets = [
        sorted(labels[table.rows.terms[first : first + count]].tolist())
        for first, count in zip(table.rows.first, table.rows.required, strict=True)
    ]
    assert [sets[row] for row in rows] == sorted(sets)
    assert index.stats()["trie_nodes"] == len({tuple(s[:i]) for s in sets for i in range(6)})


def pivots_above(quad: Any, node: int) -> tuple[set[int], list[set[int]]]:
    """What the nodes from a node up to the root cover, and their non-cover sets."""
    covered: set[int] = set()
    others = []
    while node >= 0:
        at = quad.nodes[node]
        covered |= set(quad.sets.cells[0, at["cover"] : at["cover"] + at["covers"]].tolist())
        others.append(set(quad.sets.cells[0, at["other"] : at["other"] + at["others"]].tolist()))
        node = int(at["parent"])
    return covered, others


@pytest.mark.parametrize("mx_cif", [False, True])
def test_every_row_of_a_list_has_a_pivotal_term_all_the_way_up(mx_cif: bool) -> None:
    """So no list with a match is ever passed by, after building and after insertions."""
    table = filled_table(300)
    index = PtQuadtree(table, tau_num=8, mx_cif=mx_cif, push_down=0.5 if mx_cif else 0.0)
    index.build()
    random = np.random.default_rng(5)
    before = index.stats()["quadtree_nodes"]
    index.insert(add_rows(table, 250, random, side=0.5))
    quad, labels = index._quadtree.quad, index._order.labels
    assert index.stats()["quadtree_nodes"] > before > 20, "leaves were divided"
    some_cover = False
    places: dict[int, int] = {}
    for node in range(int(quad.counts[NODES])):
        at = quad.nodes[node]
        covered, others = pivots_above(quad, node)
        some_cover |= bool(at["covers"])
        listed = quad.lists.cells[0, at["list"] : at["list"] + at["count"]].tolist()
        assert listed == sorted(set(listed))
        for row in listed:
            places[row] = places.get(row, 0) + 1
            first, count = table.rows.first[row], table.rows.required[row]
            own = set(labels[table.rows.terms[first : first + count]].tolist())
            everywhere = set.intersection(*others)
            assert own & (covered | everywhere), (node, row)
    assert sorted(places) == list(range(550))
    copies = sum(places.values()) / 550
    assert copies <= 1.5 if mx_cif else copies > 1.0
    assert some_cover


def test_pivotal_terms_are_few() -> None:
    """The greedy choice takes the term that most rows share: one, where all share one."""
    table = Table()
    table.ensure_terms(40)
    for row in range(30):
        table.add_boxes(
            np.array([row], np.int32), np.array([[0.0, 0, 1, 1]]), np.array([0, 2]),
            np.array([7, 8 + row], np.int32),
        )  # fmt: skip
    index = PtQuadtree(table, tau_num=100)
    index.build()
    assert index._quadtree.quad.nodes[0]["others"] == 1


def test_rows_are_kept_once_in_an_mx_cif_quadtree_and_contained() -> None:
    """Without pushing down, each row is at one node, whose region contains it."""
    table = filled_table(400)
    index = PtQuadtree(table, tau_num=4, mx_cif=True)
    index.build()
    quad = index._quadtree.quad
    assert index.stats()["entries"] == 400
    for at in quad.nodes[: quad.counts[NODES]]:
        for row in quad.lists.cells[0, at["list"] : at["list"] + at["count"]]:
            box = table.rows.box[row]
            assert at["west"] <= box[0] <= box[2] <= at["east"]
            assert at["south"] <= box[1] <= box[3] <= at["north"]


def test_replication_is_contained() -> None:
    """Regions that cover everything are not copied into every leaf."""
    table = filled_table(5000, side=100.0)
    index = PtQuadtree(table, tau_num=2, tau_area=1e-6, max_replication=3.0)
    index.build()
    assert 5000 < index.stats()["entries"] <= 15_000


def test_prices_are_measured_and_every_way_gives_the_same() -> None:
    """A large index knows what each way costs; whichever is taken, the answers are equal."""
    table = filled_table(6000)
    random = np.random.default_rng(6)
    lengths = [3, 9, 30, 50] * 10
    starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    terms = np.concatenate([random.permutation(TERMS)[:n] for n in lengths]).astype(np.int32)
    corners = random.uniform(-50, 50, (40, 2))
    boxes = np.hstack([corners, corners + np.where(np.arange(40) < 20, 0.0, 15.0)[:, None]])
    batch = Batch(starts, terms, boxes)
    answers = []
    for chosen in ("cost", "formulas", "trie", "quadtree"):
        index = LFilter(table, filter=chosen, tau_num=32)
        index.build()
        assert (index._prices[:, :2] > 0).all()
        assert (index._plan.filters == PRICES) == (chosen == "cost")
        found = match(index, batch)
        answers.append(sorted(zip(found.messages.tolist(), found.owners.tolist(), strict=True)))
    assert len(answers[0]) > 100
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("kind", [MbrTrie, PtQuadtree, LFilter])
def test_rows_that_it_was_not_told_of_are_not_taken_in(kind: Any) -> None:
    """The table may be ahead of an index, which may rebuild itself meanwhile."""
    table = filled_table(300)
    index = kind(table)
    index.build()
    late = add_rows(table, 5, np.random.default_rng(8))
    gone = np.arange(200, dtype=np.int32)
    freed = index.delete(gone)
    table.remove(gone)
    assert sorted(freed.tolist()) == gone.tolist(), "it was rebuilt"
    everything = np.arange(TERMS, dtype=np.int32)
    batch = Batch(np.array([0, TERMS]), everything, np.array([[-90.0, -90, 90, 90]]))
    assert sorted(match(index, batch).owners.tolist()) == list(range(200, 300))
    index.insert(late)
    assert sorted(match(index, batch).owners.tolist()) == list(range(200, 305))
