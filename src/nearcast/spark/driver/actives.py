"""The active messages of a pipeline, as the driver keeps them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int64s
from nearcast.spark.entries import with_everyone
from nearcast.spark.operations import (
    LASTING,
    LOG,
    WITHDRAWN,
    hash_lists,
    lists_in,
    of_kind,
    with_columns,
)
from nearcast.text.columns import HashedTexts

_MOST_PIECES = 64
_WORTH_TIDYING = 1 << 14


class Actives:
    """Rows of logs, in pieces; ended ones are removed when they are as many as the active ones."""

    def __init__(self) -> None:
        self._pieces: list[pa.Table] = []
        self._ends: list[Floats] = []

    def follow(self, log: pa.Table) -> None:
        """Add the lasting messages of a log, and end those that it replaces or retracts."""
        lasting, withdrawn = of_kind(log, LASTING), of_kind(log, WITHDRAWN)
        if len(lasting):
            if lasting["body"].null_count:
                lasting = _with_everyone(lasting)
            self._pieces.append(lasting)
            self._ends.append(lasting["end"].to_numpy().copy())
        if len(withdrawn):
            gone = withdrawn["old"].to_numpy()
            for piece, ends in zip(self._pieces, self._ends, strict=True):
                ends[np.isin(piece["seq"].to_numpy(), gone)] = -np.inf

    def count(self, now: float) -> int:
        """How many are active."""
        return sum(int((ends > now).sum()) for ends in self._ends)

    def at(self, now: float) -> pa.Table:
        """Those that are active, in the order in which they came."""
        self.forget(now)
        if not self._pieces:
            return LOG.empty_table()
        return pa.concat_tables(self._pieces).filter(pa.array(self._going_on(now)))

    def of(self, seqs: Int64s) -> pa.Table:
        """Messages by their sequence numbers; all of them are active."""
        found = [LOG.empty_table()]
        for piece in self._pieces:
            wanted = np.isin(piece["seq"].to_numpy(), seqs)
            if wanted.any():
                found.append(piece.filter(pa.array(wanted)))
        known = pa.concat_tables(found)
        numbers = known["seq"].to_numpy()
        order = np.argsort(numbers, kind="stable")
        return known.take(pa.array(order[np.searchsorted(numbers[order], seqs)]))

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


def _with_everyone(lasting: pa.Table) -> pa.Table:
    """Give messages of an earlier release the term that every message has."""
    terms = hash_lists(*with_everyone(HashedTexts(*lists_in(lasting["terms"]))))
    return with_columns(lasting, {"terms": terms})
