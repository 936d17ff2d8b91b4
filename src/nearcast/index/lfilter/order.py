"""The global order of terms, which trie, pivotal sets and messages share."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.types import Int32s
from nearcast.index.ap_tree.cost import last_term, term_counts, term_order
from nearcast.index.table import Rows, Table

NONE = np.int32(-(2**31))
"""The label of a term that no row requires."""


@lean_kernel
def _label_new(rows: Rows, chosen: Int32s, labels: Int32s, used: int, step: int) -> int:
    for row in chosen:
        for at in range(rows.first[row], rows.first[row] + rows.required[row]):
            term = rows.terms[at]
            if labels[term] == NONE:
                labels[term] = used * step
                used += 1
    return used


@inner
def label_of(labels: Int32s, term: int) -> int:
    """Give the label of a term of a message, or NONE."""
    return int(labels[term]) if term < len(labels) else int(NONE)


class TermOrder:
    """Gives each term that some row requires a label; terms are ordered by their labels.

    Labels count from 0, upwards ("tf": frequent terms first) or downwards ("idf": rare terms
    first). So a term that comes later is where rare ones are.
    """

    def __init__(self, kind: str) -> None:
        self._step = 1 if kind == "tf" else -1
        self.labels: Int32s = np.empty(0, np.int32)
        self.used = 0

    def start(self, table: Table, chosen: Int32s) -> None:
        """Order the terms that some rows require, by how many of them do."""
        rank = term_order("tf", term_counts(table, chosen))
        self.used = int(rank.max(initial=-1)) + 1
        self.labels = np.where(rank < 0, NONE, self._step * rank).astype(np.int32)

    def extend(self, table: Table, chosen: Int32s) -> None:
        """Give labels to the terms that have come with some rows."""
        rows, known = table.rows, len(self.labels)
        size = last_term(rows, chosen) + 1
        if size > known:
            more = np.full(max(size - known, known), NONE, np.int32)
            self.labels = np.concatenate([self.labels, more])
        self.used = _label_new(rows, chosen, self.labels, self.used, self._step)
