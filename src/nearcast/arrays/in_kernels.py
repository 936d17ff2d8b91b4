"""Arrays inside kernels: growing and sorting.

Plain loops, because slices and the sorts of numba take seconds to compile for each type.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nearcast._jit import inner_counting, kernel

_RUN = 16


@inner_counting
def longer(array: Any, size: int) -> Any:
    """Give an array with room for `size` entries: the same one, or one twice as long."""
    if size <= len(array):
        return array
    fresh = np.empty(max(size, 2 * len(array)), array.dtype)
    for at in range(len(array)):
        fresh[at] = array[at]
    return fresh


@inner_counting
def taller(array: Any, size: int) -> Any:
    """Give an array with room for `size` lines: the same one, or one twice as tall."""
    if size <= len(array):
        return array
    fresh = np.empty((max(size, 2 * len(array)), array.shape[1]), array.dtype)
    for at in range(len(array)):
        for column in range(array.shape[1]):
            fresh[at, column] = array[at, column]
    return fresh


@kernel
def sort(values: Any, start: int, stop: int) -> None:
    """Sort a part of an array in place: short runs by insertion, then merged two by two."""
    for low in range(start, stop, _RUN):
        for at in range(low + 1, min(low + _RUN, stop)):
            value = values[at]
            place = at - 1
            while place >= low and values[place] > value:
                values[place + 1] = values[place]
                place -= 1
            values[place + 1] = value
    if stop - start <= _RUN:
        return
    source, target = values[start:stop], np.empty(stop - start, values.dtype)
    size, width, turns = stop - start, _RUN, 0
    while width < size:
        for low in range(0, size, 2 * width):
            middle, high = min(low + width, size), min(low + 2 * width, size)
            left, right = low, middle
            for at in range(low, high):
                if left < middle and (right >= high or source[left] <= source[right]):
                    target[at] = source[left]
                    left += 1
                else:
                    target[at] = source[right]
                    right += 1
        source, target = target, source
        width *= 2
        turns += 1
    if turns % 2:
        for at in range(size):
            target[at] = source[at]
