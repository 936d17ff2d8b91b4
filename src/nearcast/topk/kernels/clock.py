# ruff: noqa: ARG001  # numba reads the parameters of an intrinsic, used or not
"""The processor's own counter, for measuring the parts of a kernel."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


def _cycles(typing: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(64), [])
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), kind)
        return builder.call(counter, [])

    return types.int64(), generate


cycles: Any = intrinsic(_cycles)
"""cycles(): a number that grows steadily, or 0 where the processor has no such counter."""
