"""Hits: what messages ask for, found by a slow and obvious search."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_samples import GRID, made_sample
from nearcast.partition import keys
from nearcast.partition.digest import hits_of, hold, thinned, units_for
from nearcast.partition.digest import looked_at as compiled_looked_at
from nearcast.partition.grid import spans_of
from nearcast.partition.load import MEASURED
from nearcast.partition.prepare import operations_a_row, prepare
from nearcast.partition.sample import frequent_terms

# Part of other kernels only: compiled, it cannot be called from Python.
looked_at = cast("Any", compiled_looked_at).py_func


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 1000))
def test_hits_are_what_is_wanted_where_a_message_is(seed: int) -> None:
    """A point hits a key if a row with that key meets its cell; as expensive as the rows it meets.

    It is reported to those of them that ask for nothing but that key.
    """
    sample = made_sample(seed, rows=80, messages=100)
    rows, messages = sample.rows, sample.messages
    chosen = keys.choose_by(frequent_terms(messages), rows.starts, rows.terms)
    found = hits_of(hold(rows, chosen, GRID, 4), messages)
    spans, places = spans_of(GRID, rows.boxes), spans_of(GRID, messages.boxes)
    alone = np.diff(rows.starts) == 1
    expected = []
    for message in range(messages.size):
        x, y = places[message, :2]
        lon, lat = messages.boxes[message, :2]
        here = (spans[:, 0] <= x) & (spans[:, 2] >= x) & (spans[:, 1] <= y) & (spans[:, 3] >= y)
        box = rows.boxes
        met = (box[:, 0] <= lon) & (box[:, 2] >= lon) & (box[:, 1] <= lat) & (box[:, 3] >= lat)
        for term in messages.terms[messages.starts[message] : messages.starts[message + 1]]:
            mine = chosen == term
            if (here & mine).any():
                both = int((met & mine).sum())
                cost = looked_at(int(mine.sum()), both)
                reported = int((met & mine & alone).sum())
                expected.append((message, int(x), int(y), both, reported, pytest.approx(cost)))
    columns = (found.message, found.column, found.row, found.met, found.reported, found.candidates)
    assert list(zip(*(each.tolist() for each in columns), strict=True)) == expected
    assert found.messages == messages.size


def test_a_message_with_an_extent_hits_once_a_block() -> None:
    """Every block of cells that it meets and where a row wants its term, and no other."""
    sample = made_sample(3, rows=300, messages=300, boxes=True)
    chosen = keys.choose_by(frequent_terms(sample.messages), sample.rows.starts, sample.rows.terms)
    held = hold(sample.rows, chosen, GRID, 4)
    found = hits_of(held, sample.messages)
    spans, wants = spans_of(GRID, sample.messages.boxes), spans_of(GRID, sample.rows.boxes)
    expected = set()
    for message, (x0, y0, x1, y1) in enumerate(spans.tolist()):
        first, end = sample.messages.starts[message : message + 2]
        said = set(sample.messages.terms[first:end].tolist())
        for row, (u0, v0, u1, v1) in enumerate(wants.tolist()):
            if chosen[row] in said and u0 <= x1 and u1 >= x0 and v0 <= y1 and v1 >= y0:
                # A row counts in all of its blocks, once it meets the message at all.
                for x in range(max(x0 // 4, u0 // 4), min(x1 // 4, u1 // 4) + 1):
                    for y in range(max(y0 // 4, v0 // 4), min(y1 // 4, v1 // 4) + 1):
                        expected.add((message, x, y, int(chosen[row])))
    keyed = list(
        zip(found.message, found.column // 4, found.row // 4, held.keys[found.key], strict=True)
    )
    assert len(set(keyed)) == len(keyed)
    assert set(keyed) == expected
    assert len(expected) > len({(message, key) for message, _, _, key in expected})
    assert (spans[found.message, 0] <= found.column).all()
    assert (found.column <= spans[found.message, 2]).all()
    assert (spans[found.message, 1] <= found.row).all()
    assert (found.row <= spans[found.message, 3]).all()


def test_runs_are_looked_at_as_the_index_does() -> None:
    """Short runs whole, one leaf of sixteen, and then more the more is met."""
    assert looked_at(5, 0) == 5.0
    assert looked_at(12, 3) == 16.0
    assert 12.0 < looked_at(1000, 0) < 16.0
    assert looked_at(1000, 50) > 50.0
    assert looked_at(1000, 51) > looked_at(1000, 50)


def test_heavy_terms_are_those_that_carry_load() -> None:
    """No term outside the heavy ones carries more than the share."""
    sample = made_sample(8, rows=2000, messages=2000)
    chosen = keys.choose_by(frequent_terms(sample.messages), sample.rows.starts, sample.rows.terms)
    held = hold(sample.rows, chosen, GRID, 4)
    found = hits_of(held, sample.messages)
    units = units_for(held, found, MEASURED, 0.0, 0.02)
    load = np.bincount(found.key, MEASURED.check_ns * found.candidates + MEASURED.message_ns)
    heavy = np.isin(held.keys[: len(load)], units.terms)
    assert 0 < heavy.sum() < len(load)
    assert (load[heavy] > 0.02 * load.sum()).all()
    assert (load[~heavy] <= 0.02 * load.sum()).all()


def test_a_thinned_digest_keeps_its_proportions() -> None:
    """Half of the messages, a third of the rows: each row represents three, for half the time."""
    fit = prepare(made_sample(8, rows=300, messages=1000), 2, GRID).fit
    less = thinned(fit, fit.messages // 2, 100)
    assert less.message.max(initial=0) < fit.messages // 2
    assert len(less.spans) == 100
    assert less.row_ns == pytest.approx(fit.row_ns * 3 / 2, rel=0.01)
    assert thinned(fit, 10**9, 10**9).cost.tolist() == fit.cost.tolist()


def test_rows_cost_what_operations_make_of_them() -> None:
    """Operations are spread over subscriptions and time; holding rows is never free."""
    sample = made_sample(2, rows=100, messages=1000)
    subscriptions = int(sample.rows.owners.max()) + 1
    all_messages = sample.messages.size + sample.held_out.size
    assert operations_a_row(sample, all_messages) == pytest.approx(200 / subscriptions)
    assert operations_a_row(sample, all_messages // 2) == pytest.approx(
        100 / subscriptions, rel=0.01
    )
    prepared = prepare(sample, 2, GRID)
    assert prepared.fit.row_ns > prepared.check_traced.digest.row_ns > 0.0
