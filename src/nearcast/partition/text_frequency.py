"""`text-frequency`: terms shared out by how frequent they are (PS2Stream, section VI-B).

From the most frequent term down, each goes to the worker whose terms are least frequent together.
Frequent means in many messages; a term that is the key of no row is no load and has no place.
"""

from __future__ import annotations

from nearcast.partition._spread import heaviest_first
from nearcast.partition._term_loads import term_loads, text_plan
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample


def text_frequency(sample: Sample, workers: int, grid: Grid) -> Plan:
    """Plan by the frequencies of terms."""
    loads = term_loads(sample)
    chosen = heaviest_first(loads.messages.astype(float), workers)
    return text_plan("text-frequency", workers, grid, loads, chosen)
