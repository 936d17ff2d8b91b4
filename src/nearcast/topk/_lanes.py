# ruff: noqa: ARG001  # numba reads the parameters of an intrinsic, used or not
"""Sixteen postings, or the terms of a message, looked at together, on any processor.

The functions that end in `_plain` say the same as a loop; the tests compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nearcast._jit import kernel
from nearcast.index.rarest_term._lanes import as_number, load_plane, splat
from nearcast.index.rarest_term._layout import LANES
from nearcast.topk._layout import PALPHA, PREST, PTHETA, PWEIGHT, PX, PY, Int32s, Shorts

STEPS = 65535.0
"""Places, weights and thresholds of postings count steps of 1/65535."""
THETA_ZERO = 65538.0
"""What is added to a threshold in steps, so that none is below 0; two steps at a time count."""

_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTS = ir.VectorType(ir.IntType(32), LANES)


def _reached(typing: Any, planes: Any, at: Any, size: Any, x: Any, y: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, at, size, *numbers = args
        data = context.make_array(signature.args[0])(context, builder, array).data
        x, y, a, b = (splat(builder, number) for number in numbers)

        def plane(number: int) -> Any:
            place = builder.add(at, builder.mul(size, size.type(number)))
            shorts = ir.VectorType(ir.IntType(16), LANES)
            pointer = builder.bitcast(builder.gep(data, [place]), shorts.as_pointer())
            return builder.sitofp(builder.zext(builder.load(pointer, align=2), _INTS), _FLOATS)

        def all_lanes(value: float) -> Any:
            return ir.Constant(_FLOATS, [value] * LANES)

        text = builder.fadd(builder.fmul(a, plane(PWEIGHT)), builder.fmul(b, plane(PREST)))
        theta = builder.fmul(all_lanes(2.0), plane(PTHETA))
        u = builder.fadd(text, builder.fsub(all_lanes(THETA_ZERO), theta))
        dx, dy = builder.fsub(plane(PX), x), builder.fsub(plane(PY), y)
        squared = builder.fadd(builder.fmul(dx, dx), builder.fmul(dy, dy))
        far = builder.fmul(plane(PALPHA), squared)
        limit = builder.fmul(all_lanes(STEPS), builder.fmul(u, u))
        positive = builder.fcmp_ordered(">=", u, all_lanes(0.0))
        return as_number(builder, builder.and_(positive, builder.fcmp_ordered("<=", far, limit)))

    f, i = types.float32, types.int64
    return types.int64(planes, i, i, f, f, f, f), generate


reached: Any = intrinsic(_reached)
"""reached(planes, at, size, x, y, a, b): bits of those of sixteen postings, in planes of `size`,
that may reach their thresholds: by a message at x, y in steps, with weight a of the term."""


def _lane_of(typing: Any, numbers: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, number = args
        zero = ir.Constant(ir.IntType(64), 0)
        lanes = load_plane(context, builder, signature.args[0], array, zero)
        wanted = splat(builder, builder.trunc(number, ir.IntType(32)))
        mask = as_number(builder, builder.icmp_signed("==", lanes, wanted))
        mask = builder.or_(mask, mask.type(1 << LANES))
        return builder.cttz(mask, ir.Constant(ir.IntType(1), 1))

    return types.int64(numbers, types.int64), generate


lane_of: Any = intrinsic(_lane_of)
"""lane_of(numbers, number): where an int32 stands first among the first sixteen, or 16."""


@kernel
def reached_plain(planes: Shorts, at: int, size: int, x: Any, y: Any, a: Any, b: Any) -> int:
    """Say the same as `reached`, lane by lane."""
    mask = 0
    for lane in range(LANES):
        to = at + lane
        dx = np.float32(planes[to + PX * size]) - x
        dy = np.float32(planes[to + PY * size]) - y
        u = a * np.float32(planes[to + PWEIGHT * size]) + b * np.float32(planes[to + PREST * size])
        u += np.float32(THETA_ZERO) - np.float32(2.0) * np.float32(planes[to + PTHETA * size])
        far = np.float32(planes[to + PALPHA * size]) * (dx * dx + dy * dy)
        if u >= 0 and far <= np.float32(STEPS) * (u * u):
            mask |= 1 << lane
    return mask


@kernel
def lane_of_plain(numbers: Int32s, number: int) -> int:
    """Say the same as `lane_of`, lane by lane."""
    for lane in range(LANES):
        if numbers[lane] == number:
            return lane
    return LANES
