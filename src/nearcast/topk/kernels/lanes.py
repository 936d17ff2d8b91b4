# ruff: noqa: ARG001  # numba reads the parameters of an intrinsic, used or not
"""Sixteen postings, entries of circles, or terms of a message, together, on any processor.

The functions that end in `_plain` say the same as a loop; the tests compare.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from nearcast._jit import kernel
from nearcast.arrays.lanes import LANES, as_number, load_plane, splat
from nearcast.arrays.types import Float32s, Int32s, Shorts
from nearcast.topk.kernels.layout import PALPHA, PREST, PTHETA, PWEIGHT, PX, PY

STEPS = 65535.0
"""Places, weights and thresholds of postings count steps of 1/65535."""
THETA_ZERO = 65538.0
"""What is added to a threshold in steps, so that none is below 0; two steps at a time count."""

_FLOATS = ir.VectorType(ir.FloatType(), LANES)
_INTS = ir.VectorType(ir.IntType(32), LANES)
_ROOT = f"llvm.sqrt.v{LANES}f32"


def _all_lanes(value: float) -> Any:
    return ir.Constant(_FLOATS, [value] * LANES)


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

        text = builder.fadd(builder.fmul(a, plane(PWEIGHT)), builder.fmul(b, plane(PREST)))
        theta = builder.fmul(_all_lanes(2.0), plane(PTHETA))
        u = builder.fadd(text, builder.fsub(_all_lanes(THETA_ZERO), theta))
        dx, dy = builder.fsub(plane(PX), x), builder.fsub(plane(PY), y)
        squared = builder.fadd(builder.fmul(dx, dx), builder.fmul(dy, dy))
        far = builder.fmul(plane(PALPHA), squared)
        limit = builder.fmul(_all_lanes(STEPS), builder.fmul(u, u))
        positive = builder.fcmp_ordered(">=", u, _all_lanes(0.0))
        return as_number(builder, builder.and_(positive, builder.fcmp_ordered("<=", far, limit)))

    f, i = types.float32, types.int64
    return types.int64(planes, i, i, f, f, f, f), generate


reached: Any = intrinsic(_reached)
"""reached(planes, at, size, x, y, a, b): bits of those of sixteen postings, in planes of `size`,
that may reach their thresholds: by a message at x, y in steps, with weight a of the term."""


def _entries(context: Any, builder: Any, kind: Any, array: Any, at: Any, size: Any) -> Any:
    """Of sixteen entries of a circle: places across and up, likeness, rest; all in steps."""
    half = ir.Constant(_INTS, [16] * LANES)
    for number in (1, 2):
        place = builder.add(at, builder.mul(size, size.type(number)))
        pairs = load_plane(context, builder, kind, array, place)
        yield builder.uitofp(builder.lshr(pairs, half), _FLOATS)
        yield builder.uitofp(builder.lshr(builder.shl(pairs, half), half), _FLOATS)


def _squared(builder: Any, across: Any, up: Any, x: Any, y: Any) -> Any:
    dx, dy = builder.fsub(across, x), builder.fsub(up, y)
    return builder.fadd(builder.fmul(dx, dx), builder.fmul(dy, dy))


def _may_score(
    typing: Any, ints: Any, at: Any, size: Any, x: Any, y: Any, a: Any, b: Any, theta: Any,
    alpha: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, at, size, *numbers = args
        x, y, a, b, theta, alpha = (splat(builder, number) for number in numbers)
        kind = signature.args[0]
        across, up, likeness, rest = _entries(context, builder, kind, array, at, size)
        text = builder.fadd(builder.fmul(a, likeness), builder.fmul(b, rest))
        u = builder.fsub(text, theta)
        far = builder.fmul(builder.fmul(alpha, alpha), _squared(builder, across, up, x, y))
        positive = builder.fcmp_ordered(">=", u, _all_lanes(0.0))
        near = builder.fcmp_ordered("<=", far, builder.fmul(u, u))
        return as_number(builder, builder.and_(positive, near))

    f, i = types.float32, types.int64
    return types.int64(ints, i, i, f, f, f, f, f, f), generate


may_score: Any = intrinsic(_may_score)
"""may_score(ints, at, size, x, y, a, b, theta, alpha): bits of those of sixteen entries, in planes
of `size`, that may reach a threshold, less alpha and in steps: for a query at x, y in steps."""


def _raise_peaks(
    typing: Any, ints: Any, at: Any, size: Any, peaks: Any, to: Any, x: Any, y: Any, a: Any,
    alpha: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, at, size, peaks, to, *numbers = args
        x, y, a, alpha = (splat(builder, number) for number in numbers)
        kind = signature.args[0]
        across, up, likeness, _ = _entries(context, builder, kind, array, at, size)
        kind = ir.FunctionType(_FLOATS, [_FLOATS])
        root = builder.module.globals.get(_ROOT) or ir.Function(builder.module, kind, _ROOT)
        distance = builder.call(root, [_squared(builder, across, up, x, y)])
        value = builder.fsub(builder.fmul(a, likeness), builder.fmul(alpha, distance))
        data = context.make_array(signature.args[3])(context, builder, peaks).data
        pointer = builder.bitcast(builder.gep(data, [to]), _FLOATS.as_pointer())
        had = builder.load(pointer, align=4)
        higher = builder.fcmp_ordered(">", value, had)
        builder.store(builder.select(higher, value, had), pointer, align=4)
        return context.get_dummy_value()

    f, i = types.float32, types.int64
    return types.void(ints, i, i, peaks, i, f, f, f, f), generate


raise_peaks: Any = intrinsic(_raise_peaks)
"""raise_peaks(ints, at, size, peaks, to, x, y, a, alpha): raise sixteen peaks to what sixteen
entries score by one term alone, less alpha and in steps, where that is higher."""


def _lane_of(typing: Any, numbers: Any, at: Any, number: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, at, number = args
        lanes = load_plane(context, builder, signature.args[0], array, at)
        wanted = splat(builder, builder.trunc(number, ir.IntType(32)))
        mask = as_number(builder, builder.icmp_signed("==", lanes, wanted))
        mask = builder.or_(mask, mask.type(1 << LANES))
        return builder.cttz(mask, ir.Constant(ir.IntType(1), 1))

    return types.int64(numbers, types.int64, types.int64), generate


lane_of: Any = intrinsic(_lane_of)
"""lane_of(numbers, at, number): where an int32 is first among sixteen from `at` on, or 16."""


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
def _entry(ints: Int32s, at: int, size: int) -> tuple[Any, Any, Any, Any]:
    place, weights = np.uint32(ints[at + size]), np.uint32(ints[at + 2 * size])
    return (
        np.float32(place >> 16), np.float32(place & 0xFFFF),
        np.float32(weights >> 16), np.float32(weights & 0xFFFF),
    )  # fmt: skip


@kernel
def may_score_plain(
    ints: Int32s, at: int, size: int, x: Any, y: Any, a: Any, b: Any, theta: Any, alpha: Any
) -> int:
    """Say the same as `may_score`, lane by lane."""
    mask = 0
    for lane in range(LANES):
        across, up, likeness, rest = _entry(ints, at + lane, size)
        dx, dy = across - x, up - y
        u = a * likeness + b * rest - theta
        if u >= 0 and (alpha * alpha) * (dx * dx + dy * dy) <= u * u:
            mask |= 1 << lane
    return mask


@kernel
def raise_peaks_plain(
    ints: Int32s, at: int, size: int, peaks: Float32s, to: int, x: Any, y: Any, a: Any, alpha: Any
) -> None:
    """Do the same as `raise_peaks`, lane by lane."""
    for lane in range(LANES):
        across, up, likeness, _ = _entry(ints, at + lane, size)
        dx, dy = across - x, up - y
        value = a * likeness - alpha * np.sqrt(dx * dx + dy * dy)
        peaks[to + lane] = max(peaks[to + lane], value)


@kernel
def lane_of_plain(numbers: Int32s, at: int, number: int) -> int:
    """Say the same as `lane_of`, lane by lane."""
    for lane in range(LANES):
        if numbers[at + lane] == number:
            return lane
    return LANES
