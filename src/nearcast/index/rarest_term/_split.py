# ruff: noqa: ARG001  # numba reads the parameters of an intrinsic, used or not
"""Where to part a block that is full, and has to take one entry more.

There are three orders to cut: by the centres of the boxes, in both directions, and by their sizes,
since a few large boxes among small ones are best kept apart from them. Each of the sixteen boxes
in the block is tried as the last one before the cut, all at once, a lane each: nothing is sorted.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nearcast.arrays.lanes import LANES, as_number, fold, load_plane, splat

MARGIN = np.float32(1e-3)
"""Degrees added to the sides of a box before areas are compared, so that lines and points count."""
ENTRIES = LANES + 1
"""What has to be parted: the entries of a full block, and one more."""
LEAST_PART = 6
"""How many entries the smaller part has at least."""

_INT32 = ir.IntType(32)
_INF = float("inf")
_NEW = LANES  # the number of the entry that is not in the block


class _Entries:
    """Seventeen boxes: sixteen in planes, and one more in numbers."""

    def __init__(self, builder: Any, planes: list[Any], numbers: list[Any]) -> None:
        self.builder, self.sides, self.new = builder, planes, numbers

    def keys(self, sides: list[Any]) -> tuple[Any, Any, Any]:
        """By what boxes are put in order: the centre across, the centre along, and the size."""
        builder = self.builder
        x0, y0, x1, y1 = sides
        size = builder.fadd(builder.fsub(x1, x0), builder.fsub(y1, y0))
        return builder.fadd(x0, x1), builder.fadd(y0, y1), size

    def all_lanes(self, vector: Any, number: Any, entry: int) -> Any:
        """Repeat in every lane what `vector` has for an entry; `number` is that of the new one."""
        if entry == _NEW:
            return splat(self.builder, number)
        lanes = ir.Constant(ir.VectorType(_INT32, LANES), [entry] * LANES)
        return self.builder.shuffle_vector(vector, vector, lanes)

    def first_part(self, key: Any, new_key: Any, entry: int) -> Any:
        """Say for each lane whether an entry is in the part that ends with the lane's box."""
        builder = self.builder
        other = self.all_lanes(key, new_key, entry)
        # Of equal ones the first comes first, so that there is a cut for any boxes.
        before = [int(entry <= lane) for lane in range(LANES)]
        equal = builder.and_(
            builder.fcmp_ordered("==", other, key),
            ir.Constant(ir.VectorType(ir.IntType(1), LANES), before),
        )
        return builder.or_(builder.fcmp_ordered("<", other, key), equal)


def _area(builder: Any, box: list[Any], margin: Any) -> Any:
    x0, y0, x1, y1 = box
    across = builder.fadd(builder.fsub(x1, x0), margin)
    return builder.fmul(across, builder.fadd(builder.fsub(y1, y0), margin))


def _taken_in(builder: Any, box: list[Any], other: list[Any], where: Any) -> list[Any]:
    """Extend boxes, in some lanes, by others."""
    extended = []
    for side, (mine, his) in enumerate(zip(box, other, strict=True)):
        further = builder.fcmp_ordered("<" if side < 2 else ">", his, mine)
        extended.append(builder.select(builder.and_(where, further), his, mine))
    return extended


def _cut_costs(entries: _Entries, key: Any, new_key: Any, margin: Any) -> Any:
    """Give for each lane the areas of both parts together if the first ends with its box."""
    builder = entries.builder
    kind = ir.VectorType(ir.FloatType(), LANES)
    nothing = [ir.Constant(kind, [sign * _INF] * LANES) for sign in (1, 1, -1, -1)]
    first, rest = nothing, nothing
    count = ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES)
    for entry in range(ENTRIES):
        box = [
            entries.all_lanes(side, number, entry)
            for side, number in zip(entries.sides, entries.new, strict=True)
        ]
        inside = entries.first_part(key, new_key, entry)
        first = _taken_in(builder, first, box, inside)
        rest = _taken_in(builder, rest, box, builder.not_(inside))
        count = builder.add(count, builder.zext(inside, count.type))
    cost = builder.fadd(_area(builder, first, margin), _area(builder, rest, margin))
    least, most = (
        ir.Constant(count.type, [limit] * LANES) for limit in (LEAST_PART, ENTRIES - LEAST_PART)
    )
    fair = builder.and_(
        builder.icmp_signed(">=", count, least), builder.icmp_signed("<=", count, most)
    )
    return builder.select(fair, cost, ir.Constant(kind, [_INF] * LANES))


def _best_part(
    typing: Any, planes: Any, at: Any, x0: Any, y0: Any, x1: Any, y1: Any, margin: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, *new, margin = args
        sides = [load_plane(context, builder, signature.args[0], array, place, n) for n in range(4)]
        entries = _Entries(builder, sides, new)
        margin = splat(builder, margin)
        part, least = None, None
        for key, new_key in zip(entries.keys(sides), entries.keys(new), strict=True):
            costs = _cut_costs(entries, key, new_key, margin)
            cost = fold(builder, costs, "<")
            best = as_number(builder, builder.fcmp_ordered("==", costs, cost))
            cost = builder.extract_element(cost, ir.Constant(_INT32, 0))
            last = builder.trunc(builder.cttz(best, ir.Constant(ir.IntType(1), 0)), _INT32)
            members = _members(builder, key, new_key, last)
            if part is None:
                part, least = members, cost
            else:
                better = builder.fcmp_ordered("<", cost, least)
                part = builder.select(better, members, part)
                least = builder.select(better, cost, least)
        return context.make_tuple(builder, signature.return_type, (part, least))

    f = types.float32
    answer = types.Tuple((types.int64, f))  # type: ignore[no-untyped-call] # numba is half typed
    return answer(planes, types.int64, f, f, f, f, f), generate


def _members(builder: Any, key: Any, new_key: Any, last: Any) -> Any:
    """Give the bits of the entries up to the one in lane `last`, the new one's behind the lanes."""
    limit = builder.extract_element(key, last)
    limits = splat(builder, limit)
    numbers = ir.Constant(ir.VectorType(_INT32, LANES), list(range(LANES)))
    before = builder.icmp_signed("<=", numbers, splat(builder, last))
    equal = builder.and_(builder.fcmp_ordered("==", key, limits), before)
    bits = as_number(builder, builder.or_(builder.fcmp_ordered("<", key, limits), equal))
    new = builder.zext(builder.fcmp_ordered("<", new_key, limit), bits.type)
    return builder.or_(bits, builder.shl(new, ir.Constant(bits.type, _NEW)))


best_part: Any = intrinsic(_best_part)
"""best_part(planes, at, x0, y0, x1, y1, margin): the bits of those of sixteen boxes, and of one
more as bit 16, that had better part from the others: the bounding boxes of both parts together
have the least area then, which is given too. The margin is added to all sides."""
