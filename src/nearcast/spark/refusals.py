"""Events that have no effect, and why."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Bools, Int64s
from nearcast.spark.deciding import FINE, REFUSED, Records, error_of
from nearcast.spark.packed import StepEvents


@dataclass
class Refusal:
    """An event that has no effect, and why."""

    row: int
    error: str


def refusals_in(rows: Records, events: StepEvents) -> list[Refusal]:
    """Say which rows have no effect, and why."""
    bad = np.flatnonzero(rows["verdict"] != FINE)
    if not len(bad):
        return []
    errors = _texts(*events.table("errors"), "error", rows["verdict"] == REFUSED)
    others = (rows["verdict"] != FINE) & (rows["verdict"] != REFUSED)
    ids: dict[int, str] = {}
    for name in ("named", "begun"):
        ids |= _texts(*events.table(name), "id", others)
    return [
        Refusal(row, errors[row] if row in errors else str(error_of(rows[row], ids.get(row, ""))))
        for row in bad.tolist()
    ]


def _texts(table: pa.Table, where: Int64s, name: str, wanted: Bools) -> dict[int, str]:
    """The texts of a column, by row, of wanted rows."""
    some = wanted[where]
    return dict(
        zip(where[some].tolist(), table[name].filter(pa.array(some)).to_pylist(), strict=True)
    )
