"""Cutting space and text in two on real load, evening out, and what trees become."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_samples import GRID, made_sample
from nearcast.errors import InvalidValue
from nearcast.partition.auto import hilbert_order, hilbert_ranges
from nearcast.partition.bisect import By, bisect, everything, load_of
from nearcast.partition.digest import BUCKETS, units_of
from nearcast.partition.grid import Grid
from nearcast.partition.kdt import Growing, Leaf, SpaceSplit, TextSplit, layout_of
from nearcast.partition.layout import cells_and_maps, loads_of
from nearcast.partition.prepare import prepare
from nearcast.partition.refine import Refinement

WAYS: list[By] = ["space", "text", "both", "space-first"]


@pytest.mark.parametrize("by", WAYS)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000), workers=st.integers(1, 12))
def test_parts_have_everything_once(by: By, seed: int, workers: int) -> None:
    """Each hit is in one part, each row in at least one, and loads are those of the layout."""
    fit = prepare(made_sample(seed), workers, GRID).fit
    cut = bisect(fit, workers, by)
    assert 1 <= len(cut.parts) <= workers
    hits = np.concatenate([part.hits for part in cut.parts])
    assert sorted(hits.tolist()) == list(range(len(fit.message)))
    assert set(np.concatenate([part.rows for part in cut.parts]).tolist()) == set(
        range(len(fit.spans))
    )
    loads = loads_of(layout_of(cut.tree, GRID, fit.units), fit, workers)
    expected = [load_of(fit, part) for part in cut.parts]
    assert loads[: len(expected)] == pytest.approx(expected)
    assert not loads[len(expected) :].any()


def test_cuts_are_of_the_kind_that_was_asked_for() -> None:
    """By space no cell is split by text, by text all are, and lines keep to their steps."""
    fit = prepare(made_sample(3), 4, GRID).fit
    cells, maps = cells_and_maps(
        layout_of(bisect(fit, 4, "space").tree, GRID, fit.units), fit.units
    )
    assert not maps
    assert set(cells.tolist()) == {0, 1, 2, 3}
    cells, maps = cells_and_maps(layout_of(bisect(fit, 4, "text").tree, GRID, fit.units), fit.units)
    assert len(maps) == 1
    assert set(cells.tolist()) == {-1}
    layout = layout_of(bisect(fit, 4, "space", step=8).tree, GRID, fit.units)
    blocks = layout.cells.reshape(2, 8, 4, 8)
    assert (blocks == blocks[:, :1, :, :1]).all()
    with pytest.raises(InvalidValue, match="passes: 0 given; expected 1 or more"):
        bisect(fit, 4, passes=0)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), workers=st.integers(2, 12))
def test_evening_out_never_makes_it_worse(seed: int, workers: int) -> None:
    """The heaviest load falls with every step, and is what the layout says."""
    fit = prepare(made_sample(seed), workers, GRID).fit
    refinement = Refinement(fit, bisect(fit, workers, "both", passes=1), workers)
    heaviest = refinement.heaviest
    for _ in range(3 * workers):
        moved = refinement.step()
        assert refinement.heaviest <= heaviest * (1 + 1e-9)
        heaviest = refinement.heaviest
        if not moved:
            break
    loads = loads_of(layout_of(refinement.tree(), GRID, fit.units), fit, workers)
    assert float(loads.max()) == pytest.approx(heaviest)


def test_evening_out_gives_to_those_who_have_less() -> None:
    """From one worker with everything, others get their shares."""
    fit = prepare(made_sample(5, rows=2000, messages=4000), 4, GRID).fit
    everyone = bisect(fit, 1)
    refinement = Refinement(fit, everyone, 4)
    refinement.run(100)
    assert refinement.heaviest < 0.4 * load_of(fit, everything(fit))


def test_costs_can_change_between_steps() -> None:
    """Heavier hits make heavier workers."""
    fit = prepare(made_sample(5), 4, GRID).fit
    refinement = Refinement(fit, bisect(fit, 4), 4)
    before = refinement.heaviest
    refinement.reweigh(fit._replace(cost=fit.cost * 10))
    assert refinement.heaviest > before


def test_a_tree_is_painted_cell_by_cell() -> None:
    """West to worker 0; east by text, and what one side has of it by space again."""
    grid = Grid(0.0, 0.0, 4.0, 2.0, 4, 2)
    units = units_of(np.array([7, 9], np.uint64))
    side = np.ones(units.size, np.int32)
    side[1] = 0  # the term 9
    tree = SpaceSplit(0, 2, Leaf(0), TextSplit(side, [SpaceSplit(1, 1, Leaf(1), Leaf(2)), Leaf(3)]))
    cells, maps = cells_and_maps(layout_of(tree, grid, units), units)
    assert cells.reshape(2, 4)[:, :2].tolist() == [[0, 0], [0, 0]]
    south, north = cells.reshape(2, 4)[:, 2:]
    assert south[0] == south[1] != north[0] == north[1]
    for code, worker in ((south[0], 1), (north[0], 2)):
        chosen = maps[-1 - code]
        assert chosen.terms.tolist() == [9]
        assert chosen.workers.tolist() == [worker]
        assert chosen.others.tolist() == [3] * BUCKETS


def test_a_growing_tree_puts_workers_at_its_leaves() -> None:
    """A leaf that was split is gone; the others have the workers they are given."""
    growing = Growing(Leaf(0), 1)
    low, high = growing.numbers(2)
    growing.split(0, SpaceSplit(0, 3, Leaf(low), Leaf(high)))
    assert growing.finished({low: 5, high: 4}) == SpaceSplit(0, 3, Leaf(5), Leaf(4))


def test_units_tell_heavy_terms_from_buckets() -> None:
    """A heavy term is its own unit, any other belongs to the bucket of its hash."""
    units = units_of(np.array([3, 600], np.uint64))
    assert units.of(np.array([3, 600, 4, 600 + BUCKETS], np.uint64)).tolist() == [
        0,
        1,
        2 + 4,
        2 + 88,
    ]
    assert units_of(np.empty(0, np.uint64)).of(np.array([5], np.uint64)).tolist() == [5]


def test_the_curve_goes_from_neighbour_to_neighbour() -> None:
    """All cells once, each beside the one before."""
    order = np.argsort(hilbert_order(Grid(0, 0, 1, 1, 16, 16)))
    x, y = order % 16, order // 16
    assert sorted(order.tolist()) == list(range(256))
    assert (np.abs(np.diff(x)) + np.abs(np.diff(y)) == 1).all()


def test_ranges_of_the_curve_are_even() -> None:
    """No worker has much more than the mean, where cells allow it."""
    fit = prepare(made_sample(5, rows=3000, messages=6000), 6, GRID).fit
    loads = loads_of(hilbert_ranges(fit, 6), fit, 6)
    assert loads.max() < 1.3 * loads.mean()
    with pytest.raises(InvalidValue, match="passes"):
        hilbert_ranges(fit, 6, passes=0)
