"""The rarest-term index finds what looking at every row finds."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import SourceError
from nearcast.geo import Box
from nearcast.index import Table, index_named, match
from nearcast.index.rarest_term import RarestTerm
from rarest_rows import (
    Ints,
    add_boxes,
    batch_of,
    box,
    check,
    check_order,
    far_messages,
    many_boxes,
    pairs,
    some_messages,
    subscribe,
)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("count", "vocabulary"), [(1, 3), (40, 4), (700, 12), (700, 300)])
def test_a_built_index_finds_what_a_scan_finds(seed: int, count: int, vocabulary: int) -> None:
    """All shapes, NOT, several conjuncts, point and range messages; runs of every kind."""
    rng = np.random.default_rng(seed)
    table = Table()
    table.ensure_terms(vocabulary)
    for owner in range(count):
        subscribe(rng, table, owner, vocabulary)
    table.frequency[:vocabulary] = rng.integers(0, 50, vocabulary)
    index = RarestTerm(table)
    index.build()
    check_order(index)
    found = check(index, some_messages(rng, 60, vocabulary))
    assert found > 0 or count == 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([2, 9, 60]), st.integers(1, 6))
def test_any_order_of_changes_leaves_the_answer_right(
    seed: int, vocabulary: int, rounds: int
) -> None:
    """Inserts, deletes, moves, stale frequencies, new terms and rebuilds, in between."""
    rng = np.random.default_rng(seed)
    table = Table()
    index = RarestTerm(table)
    owners: list[Ints] = []
    for number in range(rounds):
        vocabulary += int(rng.integers(0, 3))
        table.ensure_terms(vocabulary)
        if rng.random() < 0.5:
            table.frequency[:vocabulary] = rng.integers(0, 1000, vocabulary)
        for owner in range(rng.integers(0, 120)):
            rows = subscribe(rng, table, 1000 * number + owner, vocabulary)
            index.insert(rows)
            owners.append(rows)
        for _ in range(rng.integers(0, 80)):
            if owners:
                rows = owners.pop(rng.integers(len(owners)))
                released = index.delete(rows)
                table.remove(rows)
                table.release(released)
        plain = table.live_rows()
        plain = plain[(table.rows.flags[plain] & 3) == 0]
        moved = rng.permutation(plain)[: rng.integers(0, 60)].astype(np.int32)
        if len(moved):
            table.move(moved, np.array([box(rng) for _ in moved]))
            index.move(moved)
        if rng.random() < 0.2:
            index.build()
        check_order(index)
        check(index, some_messages(rng, 15, vocabulary))


def test_deep_trees_built_and_grown_agree() -> None:
    """Thousands of rows in a run: several levels, split many times, with sizes mixed."""
    rng = np.random.default_rng(7)
    table = many_boxes(rng, 9000, 40)
    index = RarestTerm(table)
    index.build()
    batch = far_messages(rng, 300, 40)
    assert check(index, batch) > 100
    new = add_boxes(rng, table, 9000, 40)
    index.insert(new)
    check_order(index)
    assert check(index, batch) > 200
    assert index.stats()["directories"] > 100


def test_frequencies_may_be_wrong_and_are_caught_up_with() -> None:
    """Rows hang on terms that turn out frequent; later inserts hang them on rare ones."""
    rng = np.random.default_rng(11)
    table = Table()
    table.ensure_terms(64)
    index = RarestTerm(table)
    every = np.array([0, 2], np.int64)
    for number in range(300):
        here = np.array([[0.0, 0.0, 1.0, 1.0]])
        terms = np.array([63, number % 60], np.int32)  # of equal frequencies the newer one is key
        index.insert(table.add_boxes(np.array([number], np.int32), here, every, terms))
    batch = batch_of([[63, 1], [63, 2, 3]], [[0.5, 0.5, 0.5, 0.5]] * 2)
    assert index.stats()["runs"] == 1
    assert check(index, batch) == 15
    table.frequency[63] = 1_000_000
    add = add_boxes(rng, table, 20_000, 50)
    index.insert(add)
    check(index, batch)
    assert index.stats()["runs"] > 50
    assert index._state.runs[2 * 63] == 0


def test_a_message_of_100_000_terms_fits() -> None:
    """Queues grow to what a message needs; short messages around it are not disturbed."""
    rng = np.random.default_rng(12)
    table = many_boxes(rng, 30_000, 100_000)
    index = RarestTerm(table)
    index.build()
    world = [-180.0, -90.0, 180.0, 90.0]
    batch = batch_of(
        [[1, 2, 3], list(range(100_000)), [], [2, 5, 99_999]],
        [[0.0, 0.0, 90.0, 45.0], world, world, world],
    )
    assert check(index, batch) >= 30_000


def test_a_term_that_the_table_was_not_told_of_is_a_term() -> None:
    """Arrays over terms grow with the rows that have them."""
    table = Table()
    index = RarestTerm(table)
    for term in (3, 1000, 50_000):
        index.insert(table.add(term, [([term, 2], [])], Box(0, 0, 1, 1)))
    batch = batch_of([[2, 3, 50_000], [2, 1000]], [[0.5, 0.5, 0.5, 0.5]] * 2)
    assert pairs(index.candidates(batch)) == [(0, 0), (0, 2), (1, 1)]


def test_terms_that_the_index_never_saw_are_ignored() -> None:
    table = Table()
    table.ensure_terms(4)
    index = RarestTerm(table)
    index.insert(table.add(1, [([3], [])], Box(0, 0, 1, 1)))
    batch = batch_of([[3, 10_000_000], [10_000_000]], [[0.5, 0.5, 0.5, 0.5]] * 2)
    assert pairs(index.candidates(batch)) == [(0, 0)]


def around(*numbers: float) -> list[float]:
    """The numbers, and their neighbours in 64 bits."""
    return [
        beside
        for number in numbers
        for beside in (np.nextafter(number, -np.inf), number, np.nextafter(number, np.inf))
    ]


def test_borders_are_decided_in_64_bits() -> None:
    """Numbers without a 32-bit form: the border belongs to the box, its neighbour does not."""
    table = Table()
    table.ensure_terms(2)
    west, south, east, north = 0.1, 0.3, 25.700001, 33.333333333333336
    wanted = []
    for copies in (1, 5, 40):  # in records, in records, and in leaves
        index = RarestTerm(table)
        table.add_boxes(
            np.arange(copies, dtype=np.int32),
            np.array([[west, south, east, north]] * copies),
            np.arange(copies + 1, dtype=np.int64),
            np.zeros(copies, np.int32),
        )
        index.build()
        points = [(x, y) for x in around(west, east) for y in around(south, north)]
        batch = batch_of([[0]] * len(points), [[x, y, x, y] for x, y in points])
        inside = sum(west <= x <= east and south <= y <= north for x, y in points)
        wanted.append(inside * len(table))
        assert check(index, batch) == wanted[-1]
    assert wanted[0] == 16


def test_threads_match_at_the_same_time() -> None:
    """Calls from several threads do not disturb each other, nor does `match` on threads."""
    rng = np.random.default_rng(13)
    table = many_boxes(rng, 5000, 50)
    index = RarestTerm(table)
    index.build()
    batches = [far_messages(rng, 200, 50) for _ in range(8)]
    alone = [pairs(index.candidates(batch)) for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda batch: pairs(index.candidates(batch)), batches * 5))
    assert together == alone * 5
    one, two = match(index, batches[0]), match(index, batches[0], threads=2)
    assert sorted(zip(*one[:2], strict=True)) == sorted(zip(*two[:2], strict=True))


def test_matching_does_not_change_its_input() -> None:
    rng = np.random.default_rng(14)
    table = many_boxes(rng, 500, 20)
    index = RarestTerm(table)
    index.build()
    batch = far_messages(rng, 50, 20)
    before = [array.copy() for array in (*batch, *table.rows)]
    index.candidates(batch)
    for old, new in zip(before, (*batch, *table.rows), strict=True):
        np.testing.assert_array_equal(old, new)


OTHER_PROCESS = """
    import sys
    from pathlib import Path
    import numpy as np
    from nearcast.index import Batch, Table
    from nearcast.index.rarest_term import RarestTerm

    folder = Path(sys.argv[1])
    given = np.load(folder / "given.npz")
    table = Table()
    table.ensure_terms(len(given["frequency"]))
    table.frequency[:] = given["frequency"]
    table.add_boxes(given["owner"], given["box"], given["first"], given["terms"])
    index = RarestTerm.load(folder / "index", table)
    found = index.candidates(Batch(given["starts"], given["message_terms"], given["boxes"]))
    print(sorted(zip(found.messages.tolist(), found.rows.tolist())))
"""


def test_saved_and_loaded_elsewhere_it_gives_the_same_answers(tmp_path: Path) -> None:
    """Another process maps the files; a loaded index goes on changing without touching them."""
    rng = np.random.default_rng(15)
    table = many_boxes(rng, 2000, 30)
    index = RarestTerm(table)
    index.build()
    batch = far_messages(rng, 60, 30)
    expected = pairs(index.candidates(batch))
    index.save(tmp_path / "index")
    rows = table.rows
    np.savez(
        tmp_path / "given.npz", frequency=table.frequency, owner=rows.owner, box=rows.box,
        first=np.append(rows.first.astype(np.int64), len(rows.terms)), terms=rows.terms,
        starts=batch.starts, message_terms=batch.terms, boxes=batch.boxes,
    )  # fmt: skip
    ran = subprocess.run(
        [sys.executable, "-c", dedent(OTHER_PROCESS), str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout.strip() == str(expected)

    loaded = RarestTerm.load(tmp_path / "index", table)
    loaded.insert(add_boxes(rng, table, 2000, 30))
    gone = rng.permutation(2000)[:500].astype(np.int32)
    loaded.delete(gone)
    table.remove(gone)
    check_order(loaded)
    check(loaded, batch)
    with pytest.raises(SourceError, match="not a saved rarest-term"):
        RarestTerm.load(tmp_path, table)


def test_an_empty_index_answers() -> None:
    index = index_named("rarest-term")(Table())  # a protocol has no init
    batch = batch_of([[0, 1], []], [[0, 0, 0, 0]] * 2)
    assert pairs(index.candidates(batch)) == []
    index.build()
    assert pairs(index.candidates(batch)) == []
    assert len(index.candidates(batch_of([], [])).rows) == 0
