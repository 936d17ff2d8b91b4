"""A row may ask for more than region and terms: that is decided last, for every index alike."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from nearcast.arrays.types import Int32s
from nearcast.geo import Box, Circle
from nearcast.index import INDEXES, Batch, Table, index_named, match

WORLD = Box(-180.0, -90.0, 180.0, 90.0)
NEAR = Circle((0.0, 0.0), 1000.0)
BATCH = Batch(
    np.array([0, 2, 4, 5]), np.array([1, 2, 1, 3, 2], np.int32), np.zeros((3, 4), np.float64)
)
"""Three messages at one point, with the terms 1 and 2, 1 and 3, and 2."""


def odd_ones(messages: Int32s, numbers: Int32s) -> npt.NDArray[np.bool_]:
    """Predicate 7 holds for the messages 1 and 3, predicate 8 for none."""
    assert set(numbers.tolist()) <= {7, 8}
    return np.asarray((numbers == 7) & (messages % 2 == 1))


def filled() -> Table:
    table = Table()
    table.ensure_terms(8)
    table.add(0, [([1], [])], WORLD)
    table.add(1, [([1], [])], WORLD, [7])
    table.add(2, [([1], [2])], NEAR, [7])
    table.add(3, [([1], [3])], NEAR, [8])
    table.add(4, [([1], []), ([2], [])], WORLD, [8, None])
    return table


EXPECTED = {(0, 0), (1, 0), (1, 1), (1, 2), (0, 4), (2, 4)}


def found(name: str, table: Table, threads: int = 1) -> set[tuple[int, int]]:
    index = index_named(name)(table)
    index.build()
    answer = match(index, BATCH, threads, odd_ones)
    pairs = list(zip(answer.messages.tolist(), answer.owners.tolist(), strict=True))
    assert len(pairs) == len(set(pairs))
    return set(pairs)


@pytest.mark.parametrize("name", sorted(INDEXES))
def test_a_residual_predicate_rejects_what_else_matches(name: str) -> None:
    assert found(name, filled()) == EXPECTED


def test_messages_are_known_by_their_places_also_with_threads() -> None:
    many = Batch(
        np.arange(0, 9, dtype=np.int64), np.ones(8, np.int32), np.zeros((8, 4), np.float64)
    )
    table = Table()
    table.ensure_terms(8)
    table.add(0, [([1], [])], WORLD, [7])
    index = index_named("rarest-term")(table)
    index.build()
    assert match(index, many, 3, odd_ones).messages.tolist() == [1, 3, 5, 7]


def test_residuals_stay_when_others_go_and_the_table_is_compacted() -> None:
    table = filled()
    more = [table.add(9, [(list(range(8)), [])], NEAR, [8]) for _ in range(2000)]
    table.remove(np.concatenate(more))
    assert table.nbytes < 2000 * 64
    assert found("rarest-term", table) == EXPECTED


def test_residuals_are_saved_with_the_table(tmp_path: Path) -> None:
    filled().save(tmp_path)
    assert found("rarest-term", Table.load(tmp_path)) == EXPECTED
