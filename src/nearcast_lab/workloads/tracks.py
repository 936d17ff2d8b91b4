"""Recorded tracks from a table: columns `id`, `time`, `lon`, `lat`, one row a position.

`oid` and `ts` are taken for `id` and `time`. The file is Parquet, or CSV if its name ends so.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq

from nearcast.arrays.types import Floats
from nearcast.errors import SourceError
from nearcast_lab.workloads.draws import Ints
from nearcast_lab.workloads.space import WorldBox

_NAMES = {"oid": ("oid", "id"), "ts": ("ts", "time"), "lon": ("lon",), "lat": ("lat",)}


class Tracks(NamedTuple):
    """Positions in order of time; `track` numbers the tracks by the order of their `oid`."""

    track: Ints
    times: Floats
    points: Floats
    first: Ints
    """The row where each track starts."""

    @property
    def space(self) -> WorldBox:
        """The box around all positions, at least a thousandth of a degree wide and high."""
        west, south = np.maximum(self.points.min(axis=0) - 0.0005, (-180.0, -90.0)).tolist()
        east, north = np.minimum(self.points.max(axis=0) + 0.0005, (180.0, 90.0)).tolist()
        return WorldBox(west, south, east, north)


def read_tracks(path: str) -> Tracks:
    """Read tracks; the time is a timestamp, or a number of seconds.

    Rows with missing or impossible values, such as the 181 degrees of a receiver without a fix,
    are left out.
    """
    try:
        table = pv.read_csv(path) if path.endswith(".csv") else pq.read_table(path)
        found = {
            name: next((other for other in others if other in table.column_names), name)
            for name, others in _NAMES.items()
        }
        columns = {name: table[other].combine_chunks() for name, other in found.items()}
    except (OSError, KeyError, pa.ArrowInvalid) as error:
        raise SourceError(
            f"tracks: cannot read {path!r} as a table with the columns id, time, lon, lat; "
            f"{str(error).splitlines()[0]}"
        ) from None
    times = columns["ts"]
    if pa.types.is_timestamp(times.type):
        seconds = times.cast(pa.timestamp("us", tz=times.type.tz)).cast(pa.int64())
        times = pc.divide(seconds.cast(pa.float64(), safe=False), 1e6)
    at, lon, lat = (
        values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
        for values in (times, columns["lon"], columns["lat"])
    )
    named = columns["oid"].is_valid().to_numpy(zero_copy_only=False)
    usable = named & np.isfinite(at) & (np.abs(lon) <= 180) & (np.abs(lat) <= 90)
    if not usable.any():
        raise SourceError(f"tracks: {path!r} has no usable position; give a file with some")
    rows = np.flatnonzero(usable)
    rows = rows[np.argsort(at[rows], kind="stable")]
    names = columns["oid"].to_numpy(zero_copy_only=False)[rows]
    _, first, track = np.unique(names, return_index=True, return_inverse=True)
    points = np.column_stack((lon[rows], lat[rows]))
    return Tracks(track.astype(np.int64), at[rows], points, first.astype(np.int64))
