"""The rarest-term index finds what looking at every row finds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast.errors import SourceError
from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.index import Batch, Pairs, Table, index_named, match
from nearcast.index.rarest_term import RarestTerm
from nearcast.index.sequential import Sequential

Rng = np.random.Generator
Ints = npt.NDArray[np.int32]
GRID = [-120.0, -0.1, 0.0, 0.1, 1 / 3, 25.7, 25.700001, 60.0]


def coordinate(rng: Rng, limit: float) -> float:
    """A number that often equals another one, or is its neighbour in 64 bits."""
    if rng.random() < 0.4:
        return float(rng.uniform(-limit, limit))
    value = float(np.clip(GRID[rng.integers(len(GRID))], -limit, limit))
    way = rng.integers(4)
    if way == 0:
        return float(np.clip(np.nextafter(value, -np.inf), -limit, limit))
    if way == 1:
        return float(np.clip(np.nextafter(value, np.inf), -limit, limit))
    return value


def box(rng: Rng) -> tuple[float, float, float, float]:
    west, east = sorted((coordinate(rng, 180.0), coordinate(rng, 180.0)))
    south, north = sorted((coordinate(rng, 90.0), coordinate(rng, 90.0)))
    if rng.random() < 0.2:
        return west, south, west, south
    if rng.random() < 0.4:
        east, north = min(180.0, west + rng.random()), min(90.0, south + rng.random())
    return west, south, east, north


def region(rng: Rng) -> Region:
    kind = rng.random()
    west, south, east, north = box(rng)
    if kind < 0.1:
        return Circle((west, south), radius=float(rng.uniform(0, 2e6)))
    if kind < 0.2 and east - west > 1e-6 and north - south > 1e-6:
        return Polygon([[(west, south), (east, south), (west, north), (west, south)]])
    if kind < 0.3:
        return Box(east, south, west, north)  # across the antimeridian, most of the time
    return Box(west, south, east, north)


def term_set(rng: Rng, vocabulary: int, most: int) -> list[int]:
    """Some different terms, the low numbers often."""
    drawn = (vocabulary * rng.random(rng.integers(1, most + 1)) ** 3).astype(int)
    return sorted(set(drawn.tolist()))


def subscribe(rng: Rng, table: Table, owner: int, vocabulary: int) -> Ints:
    conjuncts: list[tuple[list[int], list[int]]] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        required = term_set(rng, vocabulary, 6)
        excluded = term_set(rng, vocabulary, 2) if rng.random() < 0.2 else []
        conjuncts.append((required, [term for term in excluded if term not in required]))
    return table.add(owner, conjuncts, region(rng))


def batch_of(term_sets: Sequence[Sequence[int]], boxes: Sequence[Sequence[float]]) -> Batch:
    starts = np.cumsum([0, *map(len, term_sets)]).astype(np.int64)
    terms = [term for some in term_sets for term in some]
    return Batch(starts, np.array(terms, np.int32), np.array(boxes, np.float64).reshape(-1, 4))


def some_messages(rng: Rng, count: int, vocabulary: int) -> Batch:
    boxes: list[tuple[float, ...]] = []
    for _ in range(count):
        sides = box(rng)
        boxes.append(sides[:2] * 2 if rng.random() < 0.5 else sides)
    return batch_of([term_set(rng, vocabulary, 12) for _ in range(count)], boxes)


def pairs(found: Pairs) -> list[tuple[int, int]]:
    listed = list(zip(found.messages.tolist(), found.rows.tolist(), strict=True))
    assert found.messages.tolist() == sorted(found.messages.tolist())
    assert len(listed) == len(set(listed))
    return sorted(listed)


def check(index: RarestTerm, batch: Batch) -> int:
    """Compare with a look at every row, and give how many pairs there were."""
    expected = pairs(Sequential(index.table).candidates(batch))
    assert pairs(index.candidates(batch)) == expected
    return len(expected)


def check_order(index: RarestTerm) -> None:
    """Every live row stands where the index says, and blocks lie inside what is said of them."""
    state, stats = index._state, index.stats()
    assert stats["rows"] == index.table.live
    bounds = state.memory.reshape(-1, 8)
    for row in index.table.live_rows():
        place = int(state.places[row])
        if place >= 0:
            assert state.ints.reshape(-1, 8)[place, 4] in (row, ~row)
            continue
        leaf, lane = ~place // 16 * 16, ~place % 16
        block = state.memory[leaf * 8 : leaf * 8 + 128].reshape(8, 16)
        ints = state.ints[leaf * 8 : leaf * 8 + 128].reshape(8, 16)
        assert ints[4, lane] in (row, ~row)
        assert (block[0] < np.inf).sum() == ints[7, 2]
        inner = block[:4, lane]
        parent = int(ints[7, 0])
        while parent != -1:
            start = parent // 16 * 16
            node = bounds[start : start + 16].reshape(8, 16)
            outer = node[:4, parent % 16]
            assert (block[7, 8:12] == outer).all()  # a block knows what is said of it
            block = node
            assert (outer[:2] <= inner[:2]).all()
            assert (outer[2:] >= inner[2:]).all()
            parent = int(node.view(np.int32)[7, 0])


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


def many_boxes(rng: Rng, count: int, vocabulary: int) -> Table:
    """A table of plain boxes, small ones among large ones, whose terms follow Zipf's law."""
    table = Table()
    table.ensure_terms(vocabulary)
    add_boxes(rng, table, count, vocabulary)
    table.frequency[:vocabulary] = 100_000 // (1 + np.arange(vocabulary))
    return table


def add_boxes(rng: Rng, table: Table, count: int, vocabulary: int) -> Ints:
    terms = (vocabulary ** rng.random((count, 3)) - 1).astype(np.int32)
    keep = np.ones((count, 3), np.bool_)
    keep[:, 1] = (terms[:, 1] != terms[:, 0]) & (rng.random(count) < 0.7)
    keep[:, 2] = (terms[:, 2] != terms[:, 0]) & (terms[:, 2] != terms[:, 1]) & keep[:, 1]
    starts = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int64)
    middle = np.column_stack((rng.uniform(-170, 170, count), rng.uniform(-80, 80, count)))
    half = 10 ** rng.uniform(-3, 0.9, (count, 2))
    boxes = np.column_stack((middle - half, middle + half))
    first = len(table)
    owners = np.arange(first, first + count, dtype=np.int32)
    return table.add_boxes(owners, boxes, starts, terms[keep])


def far_messages(rng: Rng, count: int, vocabulary: int, terms: int = 9) -> Batch:
    points = np.column_stack((rng.uniform(-170, 170, count), rng.uniform(-80, 80, count)))
    sizes = rng.choice([0.0, 0.0, 5.0], count)[:, None]
    drawn = [
        np.unique((vocabulary ** rng.random(terms) - 1).astype(int)).tolist() for _ in range(count)
    ]
    return batch_of(drawn, np.column_stack((points - sizes, points + sizes)).tolist())


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


def large_boxes(rng: Rng, table: Table, count: int) -> Ints:
    """Boxes of one term that overlap so much that parting them saves nothing."""
    middle = np.column_stack((rng.uniform(-100, 100, count), rng.uniform(-50, 50, count)))
    half = rng.uniform(4, 30, (count, 2))
    owners = len(table) + np.arange(count, dtype=np.int32)
    boxes = np.column_stack((middle - half, middle + half))
    return table.add_boxes(owners, boxes, np.arange(count + 1), np.zeros(count, np.int32))


def test_a_fifth_more_makes_a_message_look_at_hardly_more() -> None:
    """Full leaves are not split where one beside them has room: the new rows fill those."""
    rng = np.random.default_rng(21)
    table = Table()
    large_boxes(rng, table, 10_000)
    index = RarestTerm(table)
    index.build()
    index.insert(large_boxes(rng, table, 2000))
    check_order(index)
    batch = far_messages(rng, 200, 8)
    assert check(index, batch) > 1000
    fresh = RarestTerm(table)
    fresh.build()
    assert index.candidates(batch).candidates < 1.1 * fresh.candidates(batch).candidates
    assert index.stats()["blocks"] < 1.2 * fresh.stats()["blocks"]


def test_deleting_everything_frees_everything() -> None:
    """No leaf, node or record stays behind, and the room is used again."""
    rng = np.random.default_rng(8)
    table = many_boxes(rng, 4000, 60)
    index = RarestTerm(table)
    index.build()
    for _ in range(4):
        rows = rng.permutation(table.live_rows()).astype(np.int32)
        assert len(index.delete(rows)) == len(rows)
        table.remove(rows)
        stats = index.stats()
        assert [stats[name] for name in ("rows", "runs", "blocks", "directories", "records")] == [
            0
        ] * 5
        assert pairs(index.candidates(far_messages(rng, 20, 60))) == []
        index.insert(add_boxes(rng, table, 4000, 60))
        check_order(index)
    check(index, far_messages(rng, 100, 60))
    assert index.stats()["bytes"] < 3 * 4000 * 32 + 4 * len(table) + 2048


def test_churn_keeps_memory_and_bounding_boxes_in_bounds() -> None:
    """After each row has been replaced several times, a message looks at hardly more rows."""
    rng = np.random.default_rng(9)
    table = many_boxes(rng, 5000, 30)
    index = RarestTerm(table)
    index.build()
    batch = far_messages(rng, 300, 30)
    for _ in range(30):
        gone = rng.permutation(table.live_rows())[:1000].astype(np.int32)
        index.delete(gone)
        table.remove(gone)
        index.insert(add_boxes(rng, table, 1000, 30))
    check(index, batch)
    fresh = RarestTerm(table)
    fresh.build()
    assert index.candidates(batch).candidates < 2 * fresh.candidates(batch).candidates
    assert index.stats()["blocks"] < 2.5 * fresh.stats()["blocks"]


def test_a_population_that_shrinks_gives_its_leaves_back() -> None:
    """Of a tenth of the rows, a few a leaf remain nowhere."""
    rng = np.random.default_rng(16)
    table = many_boxes(rng, 6000, 10)
    index = RarestTerm(table)
    index.build()
    before = index.stats()["blocks"]
    gone = rng.permutation(6000)[:5400].astype(np.int32)
    for part in np.array_split(gone, 9):
        index.delete(part)
        table.remove(part)
        check_order(index)
    assert index.stats()["blocks"] < before / 3
    check(index, far_messages(rng, 100, 10))


def test_moves_far_and_near() -> None:
    """A row is found where it is now, and nowhere else, and blocks do not sprawl."""
    rng = np.random.default_rng(10)
    table = many_boxes(rng, 3000, 25)
    index = RarestTerm(table)
    index.build()
    batch = far_messages(rng, 200, 25)
    for way in (0.01, 1.0, 300.0):
        rows = rng.permutation(3000)[:2000].astype(np.int32)
        boxes = table.rows.box[rows]
        step = rng.normal(0, way, (len(rows), 2))
        half = (boxes[:, 2:] - boxes[:, :2]) / 2
        middle = (boxes[:, 2:] + boxes[:, :2]) / 2 + step
        corner = np.array([170.0, 80.0])
        middle = (middle + corner) % (2 * corner) - corner
        table.move(rows, np.column_stack((middle - half, middle + half)))
        index.move(rows)
        check_order(index)
        check(index, batch)
    fresh = RarestTerm(table)
    fresh.build()
    assert index.candidates(batch).candidates < 2 * fresh.candidates(batch).candidates


def test_after_twenty_moves_of_everyone_a_message_looks_at_hardly_more() -> None:
    """Trees are arranged anew as moves loosen them, the longest of them too."""
    rng = np.random.default_rng(22)
    table = Table()
    large_boxes(rng, table, 9000)
    index = RarestTerm(table)
    index.build()
    batch = far_messages(rng, 200, 8)
    for share in [0.01] * 10 + [0.1] * 10:
        for rows in np.array_split(rng.permutation(9000).astype(np.int32), 3):
            boxes = table.rows.box[rows]
            turn = rng.uniform(0, 2 * np.pi, (len(rows), 1))
            way = share * (boxes[:, 2:] - boxes[:, :2]) * np.hstack([np.cos(turn), np.sin(turn)])
            table.move(rows, boxes + np.hstack([way, way]))
            index.move(rows)
    check_order(index)
    assert check(index, batch) > 1000
    fresh = RarestTerm(table)
    fresh.build()
    assert index.candidates(batch).candidates < 1.1 * fresh.candidates(batch).candidates
    assert index.stats()["blocks"] < 1.05 * fresh.stats()["blocks"]


@pytest.mark.parametrize("messages", [1000, 9000])
def test_after_far_jumps_of_everyone_messages_look_at_hardly_more_in_the_end(
    messages: int,
) -> None:
    """Trees that jumps have left loose are arranged anew, as messages come, or for many at once."""
    rng = np.random.default_rng(23)
    table = many_boxes(rng, 9000, 8)
    index = RarestTerm(table)
    index.build()
    batch = far_messages(rng, 200, 8)
    places = table.rows.box[rng.permutation(9000)]
    for rows in np.array_split(np.arange(9000, dtype=np.int32), 9):
        table.move(rows, places[rows])
        index.move(rows)
    fresh = RarestTerm(table)
    fresh.build()
    assert index.stats()["blocks"] > 1.1 * fresh.stats()["blocks"]
    for _ in range(0, 9000, messages):
        index.tidy(messages)
    check_order(index)
    assert check(index, batch) > 100
    wanted = fresh.candidates(batch).candidates
    assert index.candidates(batch).candidates < 1.03 * wanted
    assert index.stats()["blocks"] == fresh.stats()["blocks"]
    before = index._state.places.copy()
    index.tidy(9000)  # there is nothing left to do
    assert (before == index._state.places).all()


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
