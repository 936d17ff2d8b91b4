"""However rows come, go and move, the rarest-term index stays small and looks at little."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.index import Table
from nearcast.index.rarest_term import RarestTerm
from rarest_rows import (
    Ints,
    Rng,
    add_boxes,
    check,
    check_order,
    far_messages,
    many_boxes,
    pairs,
)


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
    """Trees are rearranged as moves loosen them, the longest of them too."""
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
    """Trees that jumps have left loose are rearranged, as messages come, or for many at once."""
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
