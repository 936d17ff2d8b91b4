# ruff: noqa: ARG001  # numba reads the parameters of an intrinsic, used or not
"""Arrays that a kernel finds by their addresses.

A call from Python unpacks each of its arrays, which for dozens of them takes longer than what
a kernel does for one message. One array of addresses is unpacked quickly. The caller of such a
kernel holds the arrays meanwhile, and writes the addresses again when one is replaced.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from nearcast.arrays.types import Int64s

_fill: Any = arrayobj.populate_array
_pack: Any = cgutils.pack_array


def addresses_of(arrays: Iterable[npt.NDArray[Any]]) -> Int64s:
    """Where contiguous arrays are, and how long they are: a row for each."""
    rows = []
    for array in arrays:
        if not array.flags.c_contiguous:
            raise ValueError("only what is contiguous can be found by its address")
        rows.append((array.ctypes.data, len(array)))
    return np.array(rows, np.int64)


def _array(dtype: Any, width: int = 0, readonly: bool = False) -> Any:
    """An intrinsic that gives the array of row `at` of some addresses; `width` is that of rows."""
    kind = types.Array(dtype, 2 if width else 1, "C", readonly=readonly)

    def typer(typing: Any, addresses: Any, at: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            book = context.make_array(signature.args[0])(context, builder, args[0])
            first = builder.mul(args[1], args[1].type(2))
            address = builder.load(builder.gep(book.data, [first]))
            count = builder.load(builder.gep(book.data, [builder.add(first, first.type(1))]))
            size = context.get_abi_sizeof(context.get_data_type(dtype))
            whole = context.get_constant
            shape, strides = [count], [whole(types.intp, size)]
            if width:
                shape, strides = (
                    [count, whole(types.intp, width)],
                    [
                        whole(types.intp, size * width),
                        whole(types.intp, size),
                    ],
                )
            made = context.make_array(kind)(context, builder)
            _fill(
                made,
                data=builder.inttoptr(address, made.data.type),
                shape=_pack(builder, shape),
                strides=_pack(builder, strides),
                itemsize=whole(types.intp, size),
                meminfo=None,
            )
            return made._getvalue()

        return kind(addresses, types.int64), generate

    return intrinsic(typer)


int8s_at: Any = _array(types.int8)
bools_at: Any = _array(types.boolean)
bytes_at: Any = _array(types.uint8)
fixed_bytes_at: Any = _array(types.uint8, readonly=True)
int32s_at: Any = _array(types.int32)
int64s_at: Any = _array(types.int64)
float32s_at: Any = _array(types.float32)
floats_at: Any = _array(types.float64)
words_at: Any = _array(types.uint64)
fixed_words_at: Any = _array(types.uint64, readonly=True)
pairs_at: Any = _array(types.int64, 2)
slots_at: Any = _array(types.uint64, 2)
circles_at: Any = _array(types.float64, 3)
boxes_at: Any = _array(types.float64, 4)
"""Each gives the array of row `at` of some addresses: int32s_at(addresses, at)."""
