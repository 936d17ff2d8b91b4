"""Events that have no effect, and why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcast.engine.order import FINE, REFUSED, Rows, error_of
from nearcast.errors import InvalidValue
from nearcast.geo import MultiPolygon, Region


@dataclass
class Refusal:
    """An event that has no effect, and why."""

    row: int
    error: str


def refusals_in(rows: Rows, ids: Any, errors: dict[int, str]) -> list[Refusal]:
    """Say which rows have no effect; `errors` are those that were found when they were read."""
    refusals = []
    for row in np.flatnonzero(rows["verdict"] != FINE).tolist():
        if rows["verdict"][row] == REFUSED:
            refusals.append(Refusal(row, errors[row]))
        else:
            refusals.append(Refusal(row, str(error_of(rows[row], ids[row].as_py()))))
    return refusals


def check_taken(region: Region | None) -> None:
    """Refuse a region that a pipeline cannot match."""
    if isinstance(region, MultiPolygon):
        raise InvalidValue(
            "region",
            region,
            "a Box, a Circle or a Polygon: the pipeline on Spark does not take MultiPolygon yet",
        )
