"""The definitions of subscriptions, by owner.

They stay in the files of the state where these can be mapped: of a subscription, memory has only
where its definition is, and a box.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.spark.operations import BEGUN, begins, boxes_in

_PLACED = ["owner", "box"]


class Definitions:
    """Rows of logs, in pieces; of an owner that was reused, the latest row counts."""

    def __init__(self) -> None:
        self._begun: list[pa.Table] = []
        self._where: Int64s = np.empty(0, np.int64)  # by owner: the piece and the row in it
        self._boxes: Floats = np.empty((0, 4))  # by owner: around its region, NaN if not known

    @property
    def pieces(self) -> int:
        """How many tables there are."""
        return len(self._begun)

    def remember(self, log: pa.Table) -> None:
        """Add the subscriptions that begin in a log; the log is kept as it is."""
        rows = np.flatnonzero(begins(log))
        if not len(rows):
            return
        log = log.select(BEGUN.names).combine_chunks()
        begun = log if len(rows) == len(log) else log.select(_PLACED).take(pa.array(rows))
        owners = begun["owner"].to_numpy()
        more = int(owners.max()) + 1 - len(self._where)
        if more > 0:
            more = max(more, len(self._where))
            self._where = np.concatenate([self._where, np.zeros(more, np.int64)])
            self._boxes = np.concatenate([self._boxes, np.full((more, 4), np.nan)])
        self._where[owners] = (len(self._begun) << 32) + rows
        self._boxes[owners] = boxes_in(begun)
        self._begun.append(log)

    def settle(self, pieces: int, log: pa.Table) -> None:
        """Replace all but the first tables by a log that has the same subscriptions."""
        del self._begun[pieces:]
        self.remember(log)

    def of(self, owners: Int32s) -> pa.Table:
        """The definitions of some owners, in their order."""
        return self.kept(owners)()

    def kept(self, owners: Int32s) -> Callable[[], pa.Table]:
        """The current definitions of some owners, as a function that any thread may call later."""
        where, pieces = self._where[owners], list(self._begun)
        return lambda: _taken(where, pieces)

    def near(self, owners: Int32s, met: Callable[[Floats], npt.NDArray[np.bool_]]) -> Int32s:
        """The owners whose boxes `met` accepts, and all whose box is not known.

        It delays the next batch, so it reads nothing but boxes.
        """
        boxes = self._boxes[owners]
        taken = np.isnan(boxes[:, 0])
        known = ~taken
        taken[known] = met(boxes[known])
        return owners[taken]


def _taken(where: Int64s, pieces: list[pa.Table]) -> pa.Table:
    """Rows of pieces, in the order of `where`."""
    if not len(where):
        return BEGUN.empty_table()
    order = np.argsort(where, kind="stable")
    piece, row = where[order] >> 32, where[order] & 0xFFFFFFFF
    numbers, starts = np.unique(piece, return_index=True)
    parts = [
        pieces[number].take(pa.array(rows))
        for number, rows in zip(numbers, np.split(row, starts[1:]), strict=True)
    ]
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return pa.concat_tables(parts).take(pa.array(back)).combine_chunks()
