"""Whether a row really matches a message: the one exact check that all indexes share.

Kernels call `accepts` on the rows they propose. The terms of the message stand in a bitmap over
term ids, in words of 64 bits: set before its rows are checked, cleared after, so that only the
words of its own terms are ever touched.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.geo import predicates
from nearcast.geo.kernels import box_meets_circle, box_meets_polygon, point_in_circle
from nearcast.geo.kernels import point_in_polygon
from nearcast.index.table import CIRCLE, EXCLUDES, POLYGON, Int32s, Rows

Bitmap = npt.NDArray[np.uint64]


def bitmap_words(terms: int) -> int:
    """How many words a bitmap over so many terms needs."""
    return (terms + 63) // 64 + 1


@kernel
def set_terms(bitmap: Bitmap, terms: Int32s, start: int, stop: int) -> None:
    """Mark the terms of a message."""
    for at in range(start, stop):
        term = terms[at]
        bitmap[term >> 6] |= np.uint64(1) << np.uint64(term & 63)


@kernel
def clear_terms(bitmap: Bitmap, terms: Int32s, start: int, stop: int) -> None:
    """Forget the terms of a message."""
    for at in range(start, stop):
        bitmap[terms[at] >> 6] = np.uint64(0)


@kernel
def has_term(bitmap: Bitmap, term: int) -> bool:
    """Tell whether the message has a term."""
    return ((bitmap[term >> 6] >> np.uint64(term & 63)) & np.uint64(1)) != np.uint64(0)
