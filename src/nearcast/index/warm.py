"""Kernels compiled before the first message needs them."""

from __future__ import annotations

from typing import Literal

import numpy as np

from nearcast._jit import announced_compilation
from nearcast.geo import Box, Circle
from nearcast.index.base import Batch, Index, match
from nearcast.index.table import Table

Task = Literal["messages", "bulk", "shapes"]
_warm: set[tuple[type[Index], Task]] = set()


def warm_up(kind: type[Index], task: Task = "messages") -> None:
    """Let an index do a task once on a tiny table, once in a process.

    What is not compiled on this machine yet is compiled here, with a message that says so: what
    inserting and matching need, what building from many subscriptions needs, or what shapes need.
    The rest is compiled when it is used, so that no caller waits for what it does not need.
    """
    if (kind, task) in _warm:
        return
    with announced_compilation():
        table = Table()
        table.ensure_terms(2)
        index = kind(table)
        index.build()
        region = Circle((0, 0), 1) if task == "shapes" else Box(0, 0, 1, 1)
        rows = table.add(0, [([0, 1], [])], region)
        if task == "bulk":
            index.build()
        else:
            index.insert(rows)
            message = Batch(np.array([0, 2]), np.array([0, 1], np.int32), np.zeros((1, 4)))
            match(index, message)
    _warm.add((kind, task))
