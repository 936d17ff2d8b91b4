# ruff: noqa: ARG001  # numba reads the parameters of an intrinsic, used or not
"""Sixteen comparisons at once, written for no particular processor.

Each intrinsic emits LLVM's own vector operations, which become AVX-512, AVX2, SSE or NEON, or
plain loops where there is none of them. LLVM does not find them by itself in a loop over lanes
that builds a mask. The functions that end in `_plain` say the same as a loop; the tests compare.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearcast._jit import inner_counting

LANES = 16
"""How many numbers are compared at once; the entries of a block of an index."""

_INT32, _INT64, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_LINE_IN_CACHE = 3  # the strongest of LLVM's four degrees of locality


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [at])


def load_plane(context: Any, builder: Any, kind: Any, array: Any, at: Any, number: int = 0) -> Any:
    """Emit a load of sixteen numbers side by side: the plane `number` from `at` on."""
    place = builder.add(at, at.type(LANES * number))
    vector = ir.VectorType(_FLOAT if kind.dtype == types.float32 else _INT32, LANES)
    pointer = _pointer(context, builder, kind, array, place)
    return builder.load(builder.bitcast(pointer, vector.as_pointer()), align=4)


def as_number(builder: Any, mask: Any) -> Any:
    """Emit the number whose bits are the sixteen truth values of a mask."""
    return builder.zext(builder.bitcast(mask, ir.IntType(LANES)), _INT64)


def splat(builder: Any, value: Any) -> Any:
    """Emit a vector with one value in all sixteen lanes."""
    vector = ir.VectorType(value.type, LANES)
    nothing = ir.Constant(vector, ir.Undefined)
    first = builder.insert_element(nothing, value, ir.Constant(_INT32, 0))
    return builder.shuffle_vector(
        first, nothing, ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES)
    )


def _boxes_test(upper: str, lower: str) -> Any:
    """Compare four planes, x0 y0 x1 y1, with one box; give the lanes that pass as bits."""

    def typer(
        typing: Any,
        planes: Any,
        at: Any,
        w: Any,
        s: Any,
        e: Any,
        n: Any,
    ) -> Any:
        f = types.float32
        signature = types.int64(planes, types.int64, f, f, f, f)

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            array, place, *sides = args
            west, south, east, north = (splat(builder, side) for side in sides)
            tests = ((upper, east), (upper, north), (lower, west), (lower, south))
            mask = None
            for number, (sign, side) in enumerate(tests):
                plane = load_plane(context, builder, signature.args[0], array, place, number)
                passed = builder.fcmp_ordered(sign, plane, side)
                mask = passed if mask is None else builder.and_(mask, passed)
            return as_number(builder, mask)

        return signature, generate

    return intrinsic(typer)


meets: Any = _boxes_test("<=", ">=")
"""meets(planes, at, west, south, east, north): bits of the boxes that touch the given one."""
overlaps: Any = _boxes_test("<", ">")
"""overlaps(planes, at, west, south, east, north): bits of the boxes that do more than touch."""


def _prefetch(typing: Any, array: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], *args)
        pointer = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _INT32, _INT32, _INT32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        read, data = ir.Constant(_INT32, 0), ir.Constant(_INT32, 1)
        builder.call(function, [pointer, read, ir.Constant(_INT32, _LINE_IN_CACHE), data])
        return context.get_dummy_value()

    return types.void(array, types.int64), generate


prefetch: Any = intrinsic(_prefetch)
"""prefetch(array, at): ask for the cache line of `array[at]` without waiting for it."""


def _least_growth(
    typing: Any, planes: Any, at: Any, x0: Any, y0: Any, x1: Any, y1: Any, margin: Any, but: Any
) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, *numbers, but = args
        west, south, east, north = (
            load_plane(context, builder, signature.args[0], array, place, number)
            for number in range(4)
        )
        x0, y0, x1, y1, margin = (splat(builder, number) for number in numbers)

        def chosen(sign: str, one: Any, other: Any) -> Any:
            return builder.select(builder.fcmp_ordered(sign, one, other), one, other)

        def area(x0: Any, y0: Any, x1: Any, y1: Any) -> Any:
            width = builder.fadd(builder.fsub(x1, x0), margin)
            return builder.fmul(width, builder.fadd(builder.fsub(y1, y0), margin))

        before = area(west, south, east, north)
        after = area(
            chosen("<", west, x0), chosen("<", south, y0),
            chosen(">", east, x1), chosen(">", north, y1),
        )  # fmt: skip
        endless = ir.Constant(before.type, [float("inf")] * LANES)
        growth = builder.fsub(after, before)
        but = builder.bitcast(
            builder.trunc(but, ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES)
        )
        wanted = builder.and_(builder.fcmp_ordered("<", west, endless), builder.not_(but))
        growth = builder.select(wanted, growth, endless)
        best = builder.fcmp_ordered("==", growth, fold(builder, growth, "<"))
        size = builder.select(best, before, endless)
        best = builder.fcmp_ordered("==", size, fold(builder, size, "<"))
        return builder.cttz(as_number(builder, best), ir.Constant(ir.IntType(1), 0))

    f = types.float32
    return types.int64(planes, types.int64, f, f, f, f, f, types.int64), generate


least_growth: Any = intrinsic(_least_growth)
"""least_growth(planes, at, x0, y0, x1, y1, margin, but): the lane, not an empty one and none of the
bits in `but`, whose box grows least in area by taking in another, of equals the smallest. The
margin is added to all sides."""


def _lowest(typing: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), generate


lowest: Any = intrinsic(_lowest)
"""lowest(mask): give the number of the lowest bit of a mask that is not zero."""


def fold(builder: Any, vector: Any, sign: str) -> Any:
    """Reduce a vector to its least or greatest number, by halves; it is in every lane then."""
    for half in (8, 4, 2, 1):
        lanes = [lane ^ half for lane in range(LANES)]
        shuffle = ir.Constant(ir.VectorType(_INT32, LANES), lanes)
        other = builder.shuffle_vector(vector, vector, shuffle)
        vector = builder.select(builder.fcmp_ordered(sign, vector, other), vector, other)
    return vector


def _plane_fold(sign: str) -> Any:
    """Reduce one plane to its least or greatest number."""

    def typer(typing: Any, planes: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = fold(builder, load_plane(context, builder, signature.args[0], *args), sign)
            return builder.extract_element(vector, ir.Constant(_INT32, 0))

        return types.float32(planes, types.int64), generate

    return intrinsic(typer)


least: Any = _plane_fold("<")
"""least(planes, at): the least of sixteen numbers."""
greatest: Any = _plane_fold(">")
"""greatest(planes, at): the greatest of sixteen numbers."""


def _not_negative(typing: Any, planes: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        plane = load_plane(context, builder, signature.args[0], *args)
        zeros = ir.Constant(plane.type, [0] * LANES)
        return as_number(builder, builder.icmp_signed(">=", plane, zeros))

    return types.int64(planes, types.int64), generate


not_negative: Any = intrinsic(_not_negative)
"""not_negative(planes, at): give the bits of those of sixteen int32 numbers that are 0 or more."""


def _first_empty(typing: Any, planes: Any, at: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        plane = load_plane(context, builder, signature.args[0], *args)
        endless = ir.Constant(plane.type, [float("inf")] * LANES)
        mask = as_number(builder, builder.fcmp_ordered("==", plane, endless))
        return builder.cttz(mask, ir.Constant(ir.IntType(1), 0))

    return types.int64(planes, types.int64), generate


first_empty: Any = intrinsic(_first_empty)
"""first_empty(planes, at): give the first of sixteen lanes that has an empty box, if one has."""


def _pack(typing: Any, planes: Any, at: Any, mask: Any, out: Any, where: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, bits, target, start = args
        plane = load_plane(context, builder, signature.args[0], array, place)
        chosen = builder.bitcast(
            builder.trunc(bits, ir.IntType(LANES)), ir.VectorType(ir.IntType(1), LANES)
        )
        pointer = _pointer(context, builder, signature.args[3], target, start)
        kind = ir.FunctionType(ir.VoidType(), [plane.type, pointer.type, chosen.type])
        name = "llvm.masked.compressstore.v16i32"
        function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call] # numba is half typed
        builder.call(function, [plane, pointer, chosen])
        return context.get_dummy_value()

    return types.void(planes, types.int64, types.int64, out, types.int64), generate


pack: Any = intrinsic(_pack)
"""pack(planes, at, mask, out, where): write the int32 numbers of the lanes in the mask, without
gaps, to `out[where]` and behind it."""


def _repeat(typing: Any, value: Any, out: Any, where: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        number, target, start = args
        vector = splat(builder, builder.trunc(number, _INT32))
        pointer = _pointer(context, builder, signature.args[1], target, start)
        builder.store(vector, builder.bitcast(pointer, vector.type.as_pointer()), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, out, types.int64), generate


repeat: Any = intrinsic(_repeat)
"""repeat(value, out, where): write a number to `out[where]` and the fifteen places behind it."""


def _copy_sixteen(typing: Any, source: Any, at: Any, target: Any, to: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, out, start = args
        kinds, vector = signature.args, ir.VectorType(ir.IntType(8), 16)
        here = _pointer(context, builder, kinds[0], array, place)
        there = _pointer(context, builder, kinds[2], out, start)
        value = builder.load(builder.bitcast(here, vector.as_pointer()), align=1)
        builder.store(value, builder.bitcast(there, vector.as_pointer()), align=1)
        return context.get_dummy_value()

    return types.void(source, types.int64, target, types.int64), generate


copy_sixteen: Any = intrinsic(_copy_sixteen)
"""`copy_sixteen(source, at, target, to)`: copy sixteen bytes, whatever comes after them."""


def _bit_count(typing: Any, mask: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return types.int64(types.int64), generate


bit_count: Any = intrinsic(_bit_count)
"""bit_count(mask): count the bits of a mask."""


@inner_counting
def meets_plain(planes: Any, at: int, west: float, south: float, east: float, north: float) -> int:
    """Say the same as `meets`, lane by lane."""
    mask = 0
    for lane in range(at, at + LANES):
        if (
            planes[lane] <= east
            and planes[lane + 16] <= north
            and planes[lane + 32] >= west
            and planes[lane + 48] >= south
        ):
            mask |= 1 << (lane - at)
    return mask


@inner_counting
def overlaps_plain(
    planes: Any, at: int, west: float, south: float, east: float, north: float
) -> int:
    """Say the same as `overlaps`, lane by lane."""
    mask = 0
    for lane in range(at, at + LANES):
        if (
            planes[lane] < east
            and planes[lane + 16] < north
            and planes[lane + 32] > west
            and planes[lane + 48] > south
        ):
            mask |= 1 << (lane - at)
    return mask


def _rounded(down: bool) -> Any:
    """Round to 32 bits, and where that went too far give the number before it.

    As words, numbers of one sign are in order, so that neighbours differ by one. There is no
    branch: which way a number is rounded cannot be foretold.
    """

    def typer(typing: Any, value: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            near = builder.fptrunc(args[0], _FLOAT)
            back = builder.fpext(near, args[0].type)
            word = builder.bitcast(near, _INT32)
            # The zero whose neighbour, one further as a word, is on the way.
            zero, other = (_INT32(-(2**31)), _INT32(0)) if down else (_INT32(0), _INT32(-(2**31)))
            start = builder.select(builder.icmp_signed("==", word, other), zero, word)
            further, nearer = builder.add(start, _INT32(1)), builder.sub(start, _INT32(1))
            negative = builder.icmp_signed("<", start, _INT32(0))
            pair = (further, nearer) if down else (nearer, further)
            neighbour = builder.select(negative, *pair)
            too_far = builder.fcmp_ordered(">" if down else "<", back, args[0])
            return builder.bitcast(builder.select(too_far, neighbour, word), _FLOAT)

        return types.float32(types.float64), generate

    return intrinsic(typer)


rounded_down: Any = _rounded(down=True)
"""rounded_down(value): give the largest 32-bit number that is not above a value."""
rounded_up: Any = _rounded(down=False)
"""rounded_up(value): give the smallest 32-bit number that is not below a value."""
