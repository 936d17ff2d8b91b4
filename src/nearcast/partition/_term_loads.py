"""The load of each term, and which sampled messages hold it: what text is split by."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition import keys
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan, TextMap
from nearcast.partition.sample import Sample, frequent_terms
from nearcast.partition.tables import Terms


class TermLoads(NamedTuple):
    """The keys of the sampled rows that occur in sampled messages, sorted.

    `rows` counts the rows with that key, `messages` the messages with that term; those of term i
    are `holders[starts[i] : starts[i + 1]]`, numbered from 0 to `message_count` - 1.
    """

    order: tuple[Terms, Int64s]
    terms: Terms
    rows: Int64s
    messages: Int64s
    starts: Int64s
    holders: Int32s
    message_count: int

    @property
    def loads(self) -> Floats:
        """The work of each term: its messages against its rows, and the messages themselves."""
        return (self.messages * self.rows + self.messages).astype(np.float64)


def term_loads(sample: Sample) -> TermLoads:
    """Count what the sample says about the keys of its rows."""
    order = frequent_terms(sample.messages)
    known, rows = np.unique(
        keys.choose_by(order, sample.rows.starts, sample.rows.terms), return_counts=True
    )
    messages = sample.messages
    number = np.repeat(np.arange(messages.size, dtype=np.int32), np.diff(messages.starts))
    place = np.minimum(np.searchsorted(known, messages.terms), max(len(known) - 1, 0))
    hit = known[place] == messages.terms if len(known) else np.zeros(len(place), np.bool_)
    place, number = place[hit], number[hit]
    counts = np.bincount(place, minlength=len(known))
    used = counts > 0
    return TermLoads(
        order=order,
        terms=known[used],
        rows=rows[used].astype(np.int64),
        messages=counts[used].astype(np.int64),
        starts=np.concatenate(([0], np.cumsum(counts[used]))).astype(np.int64),
        holders=number[np.argsort(place, kind="stable")],
        message_count=messages.size,
    )


def text_plan(scheme: str, workers: int, grid: Grid, loads: TermLoads, chosen: Int32s) -> Plan:
    """Give the plan in which every cell is split by the same map; other terms are spread evenly."""
    everyone = np.arange(workers, dtype=np.int32)
    split = np.full(grid.cells, -1, np.int32)
    maps = [TextMap(loads.terms, chosen, everyone)]
    return Plan(scheme, workers, "grid", grid, split, maps, *loads.order)
