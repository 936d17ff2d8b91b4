"""Kernels compiled before the first message needs them."""

from __future__ import annotations

import numpy as np

from nearcast._jit import announced_compilation
from nearcast.geo import Box
from nearcast.index.base import Batch, Index, match
from nearcast.index.table import Table

_warm: set[type[Index]] = set()


def warm_up(kind: type[Index]) -> None:
    """Let an index do everything once on a tiny table, once in a process.

    What is not compiled on this machine yet is compiled here, and said so.
    """
    if kind in _warm:
        return
    with announced_compilation():
        table = Table()
        table.ensure_terms(2)
        index = kind(table)
        table.add(0, [([0], [])], Box(0, 0, 1, 1))
        index.build()
        rows = table.add(1, [([0, 1], [])], Box(0, 0, 1, 1))
        index.insert(rows)
        index.move(rows)
        message = Batch(np.array([0, 2]), np.array([0, 1], np.int32), np.zeros((1, 4)))
        match(index, message)
        index.delete(rows)
    _warm.add(kind)
