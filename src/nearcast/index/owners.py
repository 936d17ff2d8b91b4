"""From rows to the owners of rows, each once a message."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.types import Int32s
from nearcast.index.table import SHARED


@kernel
def owners_once(
    messages: Int32s, rows: Int32s, owner: Int32s, flags: npt.NDArray[np.uint8], found: Int32s,
    whose: Int32s,
) -> int:  # fmt: skip
    """Write the owners of rows that match messages, ordered by message, to `found` and `whose`.

    Row r belongs to `owner[r]`. Only messages that meet a row whose owner has others are sorted.
    Gives how many there are.
    """
    written = start = 0
    for stop in range(1, len(messages) + 1):
        if stop < len(messages) and messages[stop] == messages[start]:
            continue
        first, shared = written, False
        for at in range(start, stop):
            found[written], whose[written] = messages[at], owner[rows[at]]
            shared |= flags[rows[at]] & SHARED != 0
            written += 1
        if shared:
            sort(whose, first, written)
            kept = first + 1
            for at in range(first + 1, written):
                if whose[at] != whose[at - 1]:
                    whose[kept] = whose[at]
                    kept += 1
            written = kept
        start = stop
    return written
