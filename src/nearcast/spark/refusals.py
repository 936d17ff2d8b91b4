"""Events that have no effect, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcast.spark.deciding import FINE, REFUSED, Records, error_of


@dataclass
class Refusal:
    """An event that has no effect, and why."""

    row: int
    error: str


def refusals_in(rows: Records, ids: Any, errors: dict[int, str]) -> list[Refusal]:
    """Say which rows have no effect; `errors` are those that were found when they were read."""
    refusals = []
    for row in np.flatnonzero(rows["verdict"] != FINE).tolist():
        if rows["verdict"][row] == REFUSED:
            refusals.append(Refusal(row, errors[row]))
        else:
            refusals.append(Refusal(row, str(error_of(rows[row], ids[row].as_py()))))
    return refusals
