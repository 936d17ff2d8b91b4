"""What is known of subscriptions, found by their owners."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.index.table import Floats, Int32s, Int64s
from nearcast.spark.operations import BEGUN, OTHER, boxes_in


class Definitions:
    """Rows of logs, in pieces; of an owner that was used again the latest counts."""

    def __init__(self) -> None:
        self._begun: list[pa.Table] = []
        self._where: Int64s = np.empty(0, np.int64)  # by owner: the piece and the row in it

    def remember(self, begun: pa.Table) -> None:
        """Keep what begins."""
        if not len(begun):
            return
        owners = begun["owner"].to_numpy()
        more = int(owners.max()) + 1 - len(self._where)
        if more > 0:
            self._where = np.concatenate(
                [self._where, np.zeros(max(more, len(self._where)), np.int64)]
            )
        self._where[owners] = (len(self._begun) << 32) + np.arange(len(begun))
        self._begun.append(begun.combine_chunks())

    def of(self, owners: Int32s) -> pa.Table:
        """What is known of some, in their order."""
        if not len(owners):
            return BEGUN.empty_table()
        where = self._where[owners]
        order = np.argsort(where, kind="stable")
        piece, row = where[order] >> 32, where[order] & 0xFFFFFFFF
        numbers, starts = np.unique(piece, return_index=True)
        parts = [
            self._begun[number].take(pa.array(rows))
            for number, rows in zip(numbers, np.split(row, starts[1:]), strict=True)
        ]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(parts).take(pa.array(back)).combine_chunks()

    def near(self, owners: Int32s, met: Callable[[Floats], npt.NDArray[np.bool_]]) -> Int32s:
        """Those of some owners whose boxes `met` says are met, and all that have no box.

        Only boxes are read, not what else is known: it is asked between two batches.
        """
        asked = np.zeros(len(self._where), np.bool_)
        asked[owners] = True
        found = []
        for number, piece in enumerate(self._begun):
            own = piece["owner"].to_numpy()
            latest = self._where[own] == (number << 32) + np.arange(len(own))
            rows = np.flatnonzero(asked[own] & latest)
            boxed = piece["kind"].to_numpy()[rows] != OTHER
            taken = np.ones(len(rows), np.bool_)
            taken[boxed] = met(boxes_in(piece.select(["box"]).take(pa.array(rows[boxed]))))
            found.append(own[rows[taken]])
        return np.concatenate([owners[:0], *found])
