"""Strings by number, copied by a kernel that asks for them ahead: they lie all over memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import kernel, read_only
from nearcast.arrays.lanes import copy_sixteen, prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Bytes, Int32s

_FAR, _NEAR = 32, 16  # how many strings ahead their place, and then their letters, are asked for
_AT_A_TIME = 16  # bytes
_MOST = 2**31 - 1 - _AT_A_TIME


@kernel
def _measure(starts: Int32s, which: Int32s, ends: npt.NDArray[np.int64]) -> None:
    """Write where each string ends if all are copied side by side."""
    size = 0
    ends[0] = 0
    for at in range(len(which)):
        if at + _FAR < len(which):
            prefetch(starts, wide(which[at + _FAR]))
        size += starts[which[at] + 1] - starts[which[at]]
        ends[at + 1] = size


@kernel
def _copy(data: Bytes, starts: Int32s, which: Int32s, ends: Int32s, out: Bytes) -> None:
    """Copy strings side by side; string i goes to `out[ends[i] : ends[i + 1]]`.

    Sixteen bytes at a time: what is written beyond a string is written over by the next ones, and
    `out` has room for it behind the last.
    """
    last = len(data) - _AT_A_TIME
    for at in range(len(which)):
        if at + _NEAR < len(which):
            prefetch(data, wide(starts[which[at + _NEAR]]))
        begin, end = wide(starts[which[at]]), wide(starts[which[at] + 1])
        to = wide(ends[at])
        while begin < end and begin <= last:
            copy_sixteen(data, begin, out, to)
            begin += _AT_A_TIME
            to += _AT_A_TIME
        while begin < end:
            out[to] = data[begin]
            begin += 1
            to += 1


def take_strings(strings: pa.StringArray, which: Int32s) -> pa.StringArray:
    """The strings with these numbers; none of them is null."""
    _, offsets, data = strings.buffers()
    if data is None or not len(which):
        return strings.take(pa.array(which))
    first = strings.offset
    starts = read_only(np.frombuffer(offsets, np.int32)[first : first + len(strings) + 1])
    ends = np.empty(len(which) + 1, np.int64)
    _measure(starts, which, ends)
    if ends[-1] > _MOST:
        return strings.take(pa.array(which))
    short, out = ends.astype(np.int32), np.empty(int(ends[-1]) + _AT_A_TIME, np.uint8)
    _copy(read_only(np.frombuffer(data, np.uint8)), starts, which, short, out)
    return pa.StringArray.from_buffers(len(which), pa.py_buffer(short), pa.py_buffer(out))
