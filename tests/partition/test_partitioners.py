"""What each partitioner is for: even loads, few copies, and nothing at all as a start."""

import numpy as np
import pytest

from nearcast.errors import InvalidValue
from nearcast.partition import keys, routing
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.partition.registry import PARTITIONERS, partitioner_named
from nearcast.partition.sample import Sample, SampleRows, messages_of, rows_of, sample_of
from nearcast.partition.space import kd_cells, runs
from nearcast.partition.text import heaviest_first

GRID = Grid(0.0, 0.0, 32.0, 32.0, 32, 32)


def town(topics: int = 4) -> Sample:
    """Messages and rows all over a town; the terms of a message belong to one topic."""
    draws = np.random.default_rng(5)
    topic = draws.integers(0, topics, 4000)
    terms = (topic[:, None] * 50 + draws.integers(0, 50, (4000, 3))).ravel()
    places = draws.random((4000, 2)) ** 2 * 32
    starts = np.arange(4001) * 3
    messages = messages_of(np.hstack((places, places)), starts, terms)
    corners = draws.random((2000, 2)) ** 2 * 30
    boxes = np.hstack((corners, corners + draws.random((2000, 2)) * 2))
    rows = rows_of(boxes, np.arange(2001), draws.integers(0, topics * 50, 2000))
    return sample_of(rows, messages)


def spread(plan: Plan, sample: Sample) -> tuple[float, float, float]:
    """Copies of a row, copies of a message, and the highest by the mean of rows x messages."""
    rows: SampleRows = sample.rows
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms)
    held = routing.route_rows(plan, rows.boxes, chosen, rows.owners)[1]
    sent = routing.route_messages(plan, None, *sample.held_out)[1]
    work = np.bincount(held, minlength=plan.workers) * np.bincount(sent, minlength=plan.workers)
    return len(held) / rows.size, len(sent) / sample.held_out.size, work.max() / work.mean()


@pytest.mark.parametrize("name", ["space-grid", "space-kd", "space-rtree"])
def test_space_is_shared_out_evenly(name: str) -> None:
    """By space, a point goes to one worker, few rows are copied, and no worker is crushed."""
    sample = town()
    row_copies, message_copies, highest = spread(PARTITIONERS[name](sample, 4, GRID), sample)
    assert message_copies == 1.0
    assert 1.0 < row_copies < 1.3
    assert highest < 1.25


@pytest.mark.parametrize("name", ["text-frequency", "text-hypergraph", "text-metric"])
def test_text_is_shared_out_evenly(name: str) -> None:
    """By text, a row is never copied, and no worker is crushed."""
    sample = town()
    row_copies, _, highest = spread(PARTITIONERS[name](sample, 4, GRID), sample)
    assert row_copies == 1.0
    assert highest < 1.4


@pytest.mark.parametrize("name", ["text-hypergraph", "text-metric"])
def test_terms_that_occur_together_stay_together(name: str) -> None:
    """Where messages keep to a topic, they go to fewer workers than by frequencies alone."""
    sample = town()
    by_frequency = spread(PARTITIONERS["text-frequency"](sample, 4, GRID), sample)[1]
    assert spread(PARTITIONERS[name](sample, 4, GRID), sample)[1] < 0.75 * by_frequency


@pytest.mark.parametrize("name", sorted(PARTITIONERS))
def test_a_plan_is_the_same_for_the_same_sample(name: str) -> None:
    """Plans are repeatable to the byte, and leave the sample as it is."""
    sample = town()
    before = [array.copy() for array in (*sample.rows, *sample.messages)]
    plans = [PARTITIONERS[name](sample, 5, GRID).to_bytes() for _ in range(2)]
    assert plans[0] == plans[1]
    for array, kept in zip((*sample.rows, *sample.messages), before, strict=True):
        assert (array == kept).all()


def test_more_workers_than_cells_is_no_trouble() -> None:
    """A worker without a cell is idle, and every cell has one."""
    sample = town()
    grid = Grid(0.0, 0.0, 32.0, 32.0, 2, 1)
    for name in ("space-grid", "space-kd", "space-rtree"):
        cells = PARTITIONERS[name](sample, 7, grid).cell_worker
        assert len(set(cells.tolist())) == 2


def test_kd_cuts_by_weight() -> None:
    """Each worker has a rectangle, and the weights in them are alike where cells allow it."""
    weights = np.zeros((32, 32))
    weights[:8, :8] = 1.0
    cells = kd_cells(weights.ravel(), 4, GRID).reshape(32, 32)
    for worker in range(4):
        rows, columns = np.nonzero(cells == worker)
        assert len(rows) == (np.ptp(rows) + 1) * (np.ptp(columns) + 1)
        assert weights[rows, columns].sum() == 16.0


def test_weights_are_spread() -> None:
    """From the heaviest down to the lightest worker, or in runs."""
    weights = np.array([3.0, 1.0, 1.0, 1.0, 2.0])
    assert np.bincount(heaviest_first(weights, 2), weights).tolist() == [4.0, 4.0]
    assert runs(np.ones(6), 3).tolist() == [0, 0, 1, 1, 2, 2]
    assert runs(np.zeros(4), 2).tolist() == [0, 0, 1, 1]


def test_an_unknown_partitioner_is_refused_with_the_known_ones() -> None:
    """The error lists what there is."""
    assert partitioner_named("space-kd") is PARTITIONERS["space-kd"]
    with pytest.raises(InvalidValue, match="partitioner: 'best' given; expected one of .*space-kd"):
        partitioner_named("best")
