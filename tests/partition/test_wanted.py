"""What is wanted where is counted exactly."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from nearcast.errors import InvalidValue, StateError
from nearcast.partition.grid import Grid, cells_of
from nearcast.partition.sample import hashed
from nearcast.partition.wanted import WantedKeys
from nearcast.partition.wanted_kernels import ROWS

GRID = Grid(0.0, 0.0, 11.0, 9.0, 11, 9)
KEYS = hashed(np.arange(4))
EVERYWHERE = np.repeat(np.arange(GRID.cells), len(KEYS)), np.tile(KEYS, GRID.cells)

sides = st.integers(-1, 12)


class AddAndRemove(RuleBasedStateMachine):
    """A table beside a Counter of (cell, key)."""

    def __init__(self) -> None:
        super().__init__()
        self.wanted = WantedKeys(GRID)
        self.counter: Counter[tuple[int, int]] = Counter()
        self.boxes: list[tuple[Any, Any]] = []

    def count(self, cells: Any, keys: Any, delta: int) -> None:
        for pair in zip(cells.tolist(), keys.tolist(), strict=True):
            self.counter[pair] += delta

    @rule(x=sides, y=sides, width=sides, height=sides, key=st.integers(0, 3))
    def add_row(self, x: int, y: int, width: int, height: int, key: int) -> None:
        box = np.array([[x, y, x + max(width, 0) + 0.5, y + max(height, 0) + 0.5]])
        self.boxes.append((box, KEYS[[key]]))
        self.wanted.add_rows(*self.boxes[-1])
        cells = cells_of(GRID, box)[1]
        self.count(cells, np.repeat(KEYS[[key]], len(cells)), 1)

    @rule(which=st.integers(0, 99))
    def remove_row(self, which: int) -> None:
        if self.boxes:
            box, key = self.boxes.pop(which % len(self.boxes))
            self.wanted.remove_rows(box, key)
            cells = cells_of(GRID, box)[1]
            self.count(cells, np.repeat(key, len(cells)), -1)

    @rule(cell=st.integers(0, GRID.cells - 1), key=st.integers(0, len(KEYS) - 1))
    def remove_what_is_not_there(self, cell: int, key: int) -> None:
        x, y = cell % 11, cell // 11
        if not self.counter[cell, int(KEYS[key])]:
            with pytest.raises(StateError, match="1 wanted keys were removed more often than add"):
                self.wanted.remove_rows(np.array([[x, y, x + 0.5, y + 0.5]]), KEYS[[key]])

    @invariant()
    def equal(self) -> None:
        pairs = zip(EVERYWHERE[0].tolist(), EVERYWHERE[1].tolist(), strict=True)
        expected = [self.counter[pair] for pair in pairs]
        assert self.wanted.counts(*EVERYWHERE).tolist() == expected
        used = {
            (cell // 11 // 4, cell % 11 // 4, key) for (cell, key), n in self.counter.items() if n
        }
        assert len(self.wanted) == len(used)


TestAddAndRemove = AddAndRemove.TestCase
TestAddAndRemove.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@given(st.integers(0, 9))
@settings(max_examples=5, deadline=None)
def test_thousands_of_rows_come_and_go(seed: int) -> None:
    """Counts hold while the table grows, and all of it can go again."""
    draws = np.random.default_rng(seed)
    corners = draws.random((3000, 2)) * (11, 9)
    boxes = np.hstack((corners, corners + draws.random((3000, 2)) * 5))
    keys = hashed(draws.integers(0, 400, 3000))
    wanted = WantedKeys(GRID)
    wanted.add_rows(boxes, keys)
    numbers, cells = cells_of(GRID, boxes)
    counter = Counter(zip(cells.tolist(), keys[numbers].tolist(), strict=True))
    pairs = np.array([cell for cell, _ in counter]), np.array([k for _, k in counter], np.uint64)
    assert wanted.counts(*pairs).tolist() == list(counter.values())
    wanted.remove_rows(boxes[::-1], keys[::-1])
    assert len(wanted) == 0
    assert not wanted.counts(*pairs).any()


def test_keys_that_come_and_go_take_no_room_for_good() -> None:
    """The table stays small while ever new keys are wanted for a while."""
    wanted = WantedKeys(GRID)
    box = np.tile([0.0, 0.0, 1.0, 1.0], (100, 1))
    for turn in range(200):
        keys = hashed(np.arange(100) + 100 * turn)
        wanted.add_rows(box, keys)
        wanted.remove_rows(box, keys)
    assert len(wanted.slots) <= 1024
    wanted.add_rows(box, keys)
    assert wanted.counts(np.zeros(100, np.int64), keys).tolist() == [1] * 100


def test_rows_of_counters_are_used_again() -> None:
    """Entries that need a count for each cell give their counts back."""
    wanted = WantedKeys(GRID)
    boxes = np.array([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 2.0, 2.0]])
    several = np.repeat(boxes, 10, axis=0)
    for turn in range(500):
        keys = hashed(np.tile(np.arange(10) + 10 * turn, 2))
        wanted.add_rows(several, keys)
        wanted.remove_rows(several, keys)
    assert len(wanted) == 0
    assert wanted.arrays.state[ROWS] == 10


def test_a_row_around_the_world_takes_few_entries() -> None:
    """However many cells a row meets it takes 16 entries or less, and all cells know of it."""
    grid = Grid(-180.0, -90.0, 180.0, 90.0, 128, 64)
    wanted = WantedKeys(grid)
    wanted.add_rows(np.array([[-180.0, -90.0, 180.0, 90.0]] * 3), KEYS[[0, 0, 1]])
    assert len(wanted) <= 2 * 16 + 1
    cells = np.arange(grid.cells)
    assert (wanted.counts(cells, np.repeat(KEYS[0], len(cells))) == 2).all()
    assert (wanted.counts(cells, np.repeat(KEYS[1], len(cells))) == 1).all()
    assert not wanted.counts(cells, np.repeat(KEYS[2], len(cells))).any()


def test_a_coarse_entry_reaches_as_far_as_its_blocks() -> None:
    """A box of 20 x 20 cells is known to the 16 x 16-cell parts it meets, to the block in them."""
    grid = Grid(0.0, 0.0, 128.0, 64.0, 128, 64)
    wanted = WantedKeys(grid)
    wanted.add_rows(np.array([[17.5, 2.5, 37.5, 22.5]]), KEYS[:1])
    cells = np.arange(grid.cells)
    known = wanted.counts(cells, np.repeat(KEYS[0], len(cells))).reshape(64, 128)
    rows, columns = np.nonzero(known)
    assert (columns.min(), rows.min(), columns.max(), rows.max()) == (16, 0, 39, 23)
    assert known[:24, 16:40].all()


def test_wrong_lengths_are_refused() -> None:
    """Keys that do not pair up change nothing."""
    wanted = WantedKeys(GRID)
    with pytest.raises(InvalidValue, match="keys: 2 given; expected as many keys as boxes"):
        wanted.add_rows(np.zeros((1, 4)), KEYS[:2])
    assert len(wanted) == 0
