"""The partitioners by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from nearcast.errors import InvalidValue
from nearcast.partition.auto import auto
from nearcast.partition.grid import Grid
from nearcast.partition.hybrid import hybrid, hybrid_real
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample
from nearcast.partition.space import by_hash, shared, space_grid, space_kd, space_rtree
from nearcast.partition.text import text_frequency, text_hypergraph, text_metric

Partitioner: TypeAlias = Callable[[Sample, int, Grid], Plan]
"""Makes a plan from a sample, for a number of workers, over a grid."""

PARTITIONERS: dict[str, Partitioner] = {
    "shared": shared,
    "hash": by_hash,
    "text-frequency": text_frequency,
    "text-hypergraph": text_hypergraph,
    "text-metric": text_metric,
    "space-grid": space_grid,
    "space-kd": space_kd,
    "space-rtree": space_rtree,
    "hybrid": hybrid,
    "hybrid-real": hybrid_real,
    "auto": auto,
}


def partitioner_named(name: str) -> Partitioner:
    """Find a partitioner by its name."""
    try:
        return PARTITIONERS[name]
    except KeyError:
        raise InvalidValue("partitioner", name, f"one of {', '.join(PARTITIONERS)}") from None
