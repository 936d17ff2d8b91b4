"""The active messages as the driver keeps them, for shards that are rebuilt."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats
from nearcast.spark.operations import LASTING, LOG, boxes_in, of_kind
from nearcast.spark.workers.messages import cut_in_two

_MOST_PIECES = 64
_WORTH_TIDYING = 1 << 14


class Actives:
    """Rows of logs, in pieces; ended ones are removed when they are as many as the active ones."""

    def __init__(self) -> None:
        self._pieces: list[pa.Table] = []
        self._ends: list[Floats] = []

    def follow(self, log: pa.Table) -> None:
        """Add the lasting messages of a log."""
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
        """The boxes of active messages; a message across the antimeridian has two."""
        return cut_in_two(boxes_in(self.at(now)))

    def _going_on(self, now: float) -> npt.NDArray[np.bool_]:
        going_on: npt.NDArray[np.bool_] = np.concatenate(self._ends) > now
        return going_on

    def forget(self, now: float) -> None:
        """Remove ended messages, if there are enough of them."""
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
