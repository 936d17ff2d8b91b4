"""From a sample to what planners work on."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from nearcast.arrays.types import Int64s
from nearcast.partition import keys
from nearcast.partition.digest import Digest, digest_of, hits_of, hold, units_for
from nearcast.partition.estimate import Traced
from nearcast.partition.grid import Grid
from nearcast.partition.layout import Layout, cells_and_maps
from nearcast.partition.load import MEASURED, WorkCosts
from nearcast.partition.plan import BLOCK, Plan
from nearcast.partition.sample import Sample, frequent_terms
from nearcast.partition.tables import Terms

MOST_ROWS, MOST_MESSAGES = 2_000_000, 200_000
"""Rows and messages that are looked at; a larger sample is thinned out."""
MOST_PLACED = 200_000
"""Rows whose own cost is weighed while planning; each represents as many as were left out."""

_FEWEST_OPERATIONS = 0.02  # a message: so that holding a row twice is never free
_HEAVY = 0.002  # a term that makes so much of a worker's share is a unit of its own


class Prepared(NamedTuple):
    """A sample on a grid: the part to plan by, and the part that plans are compared on."""

    sample: Sample
    order: tuple[Terms, Int64s]
    fit: Digest
    fit_traced: Traced
    check_traced: Traced

    def plan(self, scheme: str, workers: int, layout: Layout, about: dict[str, Any]) -> Plan:
        """Write a layout as a plan."""
        cells, maps = cells_and_maps(layout, self.fit.units)
        return Plan(scheme, workers, "grid", self.fit.grid, cells, maps, *self.order, about=about)


def prepare(
    sample: Sample,
    workers: int,
    grid: Grid,
    costs: WorkCosts = MEASURED,
    most_placed: int = MOST_PLACED,
    most_messages: int = MOST_MESSAGES,
) -> Prepared:
    """Thin a sample out and put it on a grid; without messages held out, all are for both."""
    if not sample.held_out.size:
        sample = replace(sample, held_out=sample.messages)
    order = frequent_terms(sample.messages)
    before = sample.rows.size
    sample = sample.limited(MOST_ROWS, most_messages)
    rows = sample.rows
    scale = before / max(rows.size, 1)
    held = hold(rows, keys.choose_by(order, rows.starts, rows.terms), grid, BLOCK)
    parts = [hits_of(held, part, scale) for part in (sample.messages, sample.held_out)]
    rate = [costs.operation_ns * operations_a_row(sample, part.messages) * scale for part in parts]
    units = units_for(held, parts[0], costs, rate[0], _HEAVY / workers)
    placed = evenly(rows.size, most_placed)
    stands_for = rows.size / max(len(placed), 1)
    fit, check = (
        Traced(
            digest_of(held, hits, units, costs, ns * stands_for, placed),
            held.keys[hits.key],
            rows.boxes[placed],
            held.keys[held.key[placed]],
        )
        for hits, ns in zip(parts, rate, strict=True)
    )
    return Prepared(sample, order, fit.digest, fit, check)


def evenly(count: int, most: int) -> Int64s:
    """Give at most `most` of `count` numbers, drawn at random and always alike."""
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.sort(np.random.default_rng(0).choice(count, most, replace=False)).astype(np.int64)


def operations_a_row(sample: Sample, messages: int) -> float:
    """How often a row comes or goes while that many messages arrive."""
    arrived = max(sample.messages.size + sample.held_out.size, 1)
    subscriptions = max(int(sample.rows.owners.max(initial=0)) + 1, 1)
    rate = max(sample.operations / arrived, _FEWEST_OPERATIONS)
    return rate * messages / subscriptions
