# ruff: noqa: ARG001  # numba reads the parameters of an intrinsic, used or not
"""Sixteen numbers at once: four entries of a list, or the edges of its strips.

An entry has 16 bytes, so that four of them are one vector. It is written in LLVM's own vector
operations, as the lanes of the index are.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from nearcast._jit import inner
from nearcast.active.kernels.layout import SIGNATURE, SLOT, UNIT, ActiveArrays
from nearcast.arrays.lanes import as_number, bit_count, load_plane, splat
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Int32s
from nearcast.events.fields import ADD, REMOVE

UNSURE, CAME, WENT = 0, ADD, REMOVE
"""What is known of a candidate; if it is not unsure, that is the op of an update."""
KNOWN_BITS = 2

_LANES = 16
_FOUR = _LANES // UNIT
_FIRSTS = 0x1111  # the lowest of each entry's four bits
_TOGETHER = 0x1248  # brings those four bits to bits 12 to 15 of a product
_INT32, _INT64 = ir.IntType(32), ir.IntType(64)


def _not_above(typing: Any, memory: Any, at: Any, x: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, value = args
        edges = load_plane(context, builder, signature.args[0], array, place)
        return as_number(builder, builder.fcmp_ordered("<=", edges, splat(builder, value)))

    return types.int64(memory, types.int64, types.float32), generate


not_above: Any = intrinsic(_not_above)
"""not_above(memory, at, x): the bits of those of sixteen numbers that are not above x."""


def _of_slot(typing: Any, ints: Any, at: Any, slot: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, slot = args
        words = load_plane(context, builder, signature.args[0], array, place)
        wanted = splat(builder, builder.trunc(slot, _INT32))
        bits = as_number(builder, builder.icmp_signed("==", words, wanted))
        return builder.and_(bits, ir.Constant(_INT64, _FIRSTS << SLOT))

    return types.int64(ints, types.int64, types.int64), generate


of_slot: Any = intrinsic(_of_slot)
"""of_slot(ints, at, slot): the bits of those of four entries that have a slot, each at the
place of the slot."""


def _repeated(builder: Any, values: list[Any]) -> Any:
    """Give a vector that says the same four numbers, of which some may be anything, four times."""
    whole = ir.Constant(ir.VectorType(values[0].type, UNIT), ir.Undefined)
    for number, value in enumerate(values):
        whole = builder.insert_element(whole, value, ir.Constant(_INT32, number))
    order = ir.Constant(ir.VectorType(_INT32, _LANES), list(range(UNIT)) * _FOUR)
    return builder.shuffle_vector(whole, whole, order)


def _judge(
    typing: Any, memory: Any, at: Any, x0: Any, y0: Any, x1: Any, y1: Any, u0: Any, v0: Any,
    u1: Any, v1: Any, sign: Any, sure: Any,
) -> Any:  # fmt: skip
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, *sides, sign, sure = args
        entries = load_plane(context, builder, signature.args[0], array, place)
        firsts = ir.Constant(_INT64, _FIRSTS)

        def inside(low: list[Any], high: list[Any], lower: str, upper: str) -> Any:
            above = builder.fcmp_ordered(lower, entries, _repeated(builder, low))
            below = builder.fcmp_ordered(upper, entries, _repeated(builder, high))
            bits = as_number(builder, builder.and_(above, below))
            along = builder.lshr(bits, ir.Constant(_INT64, 1))
            return builder.and_(builder.and_(bits, along), firsts)

        old, new = (sides[0:2], sides[2:4]), (sides[4:6], sides[6:8])
        in_old, in_new = inside(*old, ">=", "<="), inside(*new, ">=", "<=")
        well_old = builder.and_(inside(*old, ">", "<"), sure)
        well_new = builder.and_(inside(*new, ">", "<"), sure)
        words = builder.bitcast(entries, ir.VectorType(_INT32, _LANES))
        wanted = _repeated(builder, [builder.trunc(sign, _INT32)] * UNIT)
        has = as_number(builder, builder.icmp_signed("==", builder.and_(words, wanted), wanted))
        has = builder.lshr(has, ir.Constant(_INT64, SIGNATURE))
        concerned = builder.and_(builder.or_(in_old, in_new), has)
        concerned = builder.and_(concerned, firsts)
        both = builder.and_(well_old, well_new)
        concerned = builder.and_(concerned, builder.not_(both))
        came = builder.and_(well_new, builder.not_(in_old))
        went = builder.and_(well_old, builder.not_(in_new))
        known = builder.or_(
            builder.shl(came, ir.Constant(_INT64, CAME)),
            builder.shl(went, ir.Constant(_INT64, WENT)),
        )
        return builder.or_(concerned, known)

    f = types.float32
    return types.int64(
        memory, types.int64, f, f, f, f, f, f, f, f, types.int64, types.int64
    ), generate


judge: Any = intrinsic(_judge)
"""judge(memory, at, old box, new box, signature, sure): four bits for each of four entries.

The lowest bit says that a move from the old box to the new one may concern it; the next two that
it surely came, or went. Nothing is sure if `sure` is 0; else it is -1."""


def _note(typing: Any, ints: Any, at: Any, bits: Any, found: Any, where: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array, place, bits, target, start = args
        few = ir.VectorType(_INT32, _FOUR)

        def of_entries(shift: int) -> Any:
            """Bits 0, 4, 8 and 12, shifted, as four truths: a product brings them together."""
            shifted = builder.lshr(bits, ir.Constant(_INT64, shift))
            alone = builder.and_(shifted, ir.Constant(_INT64, _FIRSTS))
            together = builder.mul(alone, ir.Constant(_INT64, _TOGETHER))
            together = builder.lshr(together, ir.Constant(_INT64, _LANES - _FOUR))
            whole = builder.trunc(together, ir.IntType(_FOUR))
            return builder.bitcast(whole, ir.VectorType(ir.IntType(1), _FOUR))

        words = load_plane(context, builder, signature.args[0], array, place)
        order = ir.Constant(few, list(range(SLOT, _LANES, UNIT)))
        slots = builder.shuffle_vector(words, words, order)
        values = builder.shl(slots, ir.Constant(few, [KNOWN_BITS] * _FOUR))
        nothing = ir.Constant(few, [0] * _FOUR)
        for known in (CAME, WENT):
            value = ir.Constant(few, [known] * _FOUR)
            values = builder.or_(values, builder.select(of_entries(known), value, nothing))
        data = context.make_array(signature.args[3])(context, builder, target).data
        pointer = builder.gep(data, [start])
        chosen = of_entries(0)
        kind = ir.FunctionType(ir.VoidType(), [few, pointer.type, chosen.type])
        name = "llvm.masked.compressstore.v4i32"
        function = cgutils.get_or_insert_function(builder.module, kind, name)  # type: ignore[no-untyped-call] # numba is half typed
        builder.call(function, [values, pointer, chosen])
        return context.get_dummy_value()

    return types.void(ints, types.int64, types.int64, found, types.int64), generate


note: Any = intrinsic(_note)
"""note(ints, at, bits, found, where): write the slots of those of four entries that `bits`, as
`judge` gives them, are about, with what is known of each, to `found[where]` and behind it."""


@inner
def pick_entries(
    state: ActiveArrays,
    base: int,
    count: int,
    old: Float32s,
    new: Float32s,
    boxes: bool,
    sign: int,
    found: Int32s,
    filled: int,
) -> int:
    """Write down the slots of entries that a move may concern; `found` has room for all.

    Each with what is known of it: in the new box and not in the old one (CAME), the other way
    round (WENT), or UNSURE. Of circles and polygons, which are not `boxes`, it is only known that
    what is outside their box is outside. Up to three entries behind the last are read too.
    """
    memory, ints = state.memory, state.ints
    x0, y0, x1, y1 = old[0], old[1], old[2], old[3]
    u0, v0, u1, v1 = new[0], new[1], new[2], new[3]
    sure = wide(-1) if boxes else wide(0)
    stop = base + count * UNIT
    for at in range(base, stop, _LANES):
        bits = judge(memory, at, x0, y0, x1, y1, u0, v0, u1, v1, sign, sure)
        if stop - at < _LANES:
            bits &= (wide(1) << (stop - at)) - 1
        if bits & _FIRSTS:
            note(ints, at, bits, found, filled)
            filled += wide(bit_count(bits & _FIRSTS))
    return filled
