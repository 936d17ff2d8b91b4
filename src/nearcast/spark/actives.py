"""The lasting messages that are active, as the driver remembers them: for whoever starts anew."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats
from nearcast.spark.messages import cut_in_two
from nearcast.spark.operations import LASTING, LOG, boxes_in, of_kind

_MOST_PIECES = 64
_WORTH_TIDYING = 1 << 14


class Actives:
    """Rows of logs, in pieces; those that have ended go when they are as many as the others."""

    def __init__(self) -> None:
        self._pieces: list[pa.Table] = []
        self._ends: list[Floats] = []

    def follow(self, log: pa.Table) -> None:
        """Take in the lasting messages of a log."""
        lasting = of_kind(log, LASTING)
        if len(lasting):
            self._pieces.append(lasting)
            self._ends.append(lasting["end"].to_numpy())

    def count(self, now: float) -> int:
        """How many are active."""
        return sum(int((ends > now).sum()) for ends in self._ends)

    def at(self, now: float) -> pa.Table:
        """Those that are active, in the order in which they came."""
        self.forget(now)
        if not self._pieces:
            return LOG.empty_table()
        return pa.concat_tables(self._pieces).filter(pa.array(self._going_on(now)))

    def boxes(self, now: float) -> Floats:
        """Where those are that are active; one across the antimeridian has two boxes."""
        return cut_in_two(boxes_in(self.at(now)))

    def _going_on(self, now: float) -> npt.NDArray[np.bool_]:
        going_on: npt.NDArray[np.bool_] = np.concatenate(self._ends) > now
        return going_on

    def forget(self, now: float) -> None:
        """Forget what has ended, if that is worth its time."""
        if not self._pieces:
            return
        going_on = self._going_on(now)
        left = int(going_on.sum())
        many = len(self._pieces) > _MOST_PIECES
        if left and not many and len(going_on) < max(_WORTH_TIDYING, 2 * left):
            return
        kept = pa.concat_tables(self._pieces).filter(pa.array(going_on)).combine_chunks()
        self._pieces, self._ends = [], []
        self.follow(kept)
