# ruff: noqa: ARG001  # numba reads the parameters of an intrinsic, used or not
"""Which message ends first: a heap of eight branches, its keys apart from its slots.

The children of a place lie in one cache line, and their ends with them: to take one out of a
million reads seven lines, most of which are in the cache.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nearcast._jit import inner
from nearcast.active.kernels.layout import FIRST, ActiveArrays
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s

_BRANCHES = 8
# The children of FIRST, 7, are 8 to 15; those of 8 are 16 to 23, and so on.
_ABOVE = FIRST - 1


def _first_of(typing: Any, ends: Any, at: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, count = args
        number, wide_number = ir.IntType(32), ir.IntType(64)
        data = context.make_array(signature.args[0])(context, builder, array).data
        vector = ir.VectorType(ir.DoubleType(), _BRANCHES)
        pointer = builder.bitcast(builder.gep(data, [place]), vector.as_pointer())
        values = builder.load(pointer, align=8)
        lanes = ir.VectorType(wide_number, _BRANCHES)
        nothing = ir.Constant(lanes, ir.Undefined)
        many = builder.insert_element(nothing, count, ir.Constant(number, 0))
        zeros = ir.Constant(ir.VectorType(number, _BRANCHES), [0] * _BRANCHES)
        many = builder.shuffle_vector(many, nothing, zeros)
        there = builder.icmp_signed("<", ir.Constant(lanes, list(range(_BRANCHES))), many)
        endless = ir.Constant(vector, [float("inf")] * _BRANCHES)
        values = least = builder.select(there, values, endless)
        for half in (4, 2, 1):
            order = [lane ^ half for lane in range(_BRANCHES)]
            shuffle = ir.Constant(ir.VectorType(number, _BRANCHES), order)
            other = builder.shuffle_vector(least, least, shuffle)
            least = builder.select(builder.fcmp_ordered("<", least, other), least, other)
        equal = builder.bitcast(builder.fcmp_ordered("==", values, least), ir.IntType(_BRANCHES))
        return builder.cttz(builder.zext(equal, wide_number), ir.Constant(ir.IntType(1), 1))

    return types.int64(ends, types.int64, types.int64), generate


first_of: Any = intrinsic(_first_of)
"""first_of(ends, at, count): which of eight numbers, or of the first `count`, is the least."""


@inner
def push(heap: Int32s, ends: Floats, size: int, slot: int, end: float) -> None:
    """Put a slot into the heap, which has `size` of them."""
    at = wide(FIRST) + size
    while at > FIRST:
        above = at // _BRANCHES + _ABOVE
        if ends[above] <= end:
            break
        heap[at], ends[at] = heap[above], ends[above]
        at = above
    heap[at], ends[at] = slot, end


@inner
def pop(heap: Int32s, ends: Floats, size: int) -> int:
    """Take out the slot that ends first."""
    first, stop = wide(heap[FIRST]), wide(FIRST) + size - 1
    last, end = heap[stop], ends[stop]
    at = wide(FIRST)
    while True:
        below = (at - _ABOVE) * _BRANCHES
        if below >= stop:
            break
        prefetch(heap, below)
        best = below + first_of(ends, below, stop - below)
        least = ends[best]
        if least >= end:
            break
        heap[at], ends[at] = heap[best], least
        at = best
    heap[at], ends[at] = last, end
    return first


@inner
def has_ended(state: ActiveArrays, now: float) -> bool:
    """Return whether some message has ended by now and is still there; there must be one."""
    return bool(state.due_at[FIRST] <= now)
