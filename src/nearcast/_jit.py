"""The policies by which every numba kernel of the package is compiled."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_njit = cast("Any", numba.njit)  # its stubs do not know the option `_nrt`


def kernel(function: F) -> F:
    """Compile `function` on first use, keep it on disk, and run it without the GIL."""
    return cast("F", _njit(cache=True, nogil=True, _nrt=True)(function))


def lean_kernel(function: F) -> F:
    """Compile, as `kernel` does, a function that makes no arrays or lists, without counting uses.

    Handing a tuple of a dozen arrays to another function otherwise counts every array up and
    down again, atomically: that made the exact check of a row 80 times as dear, and threads
    wait for each other. Whoever calls from Python holds the arrays meanwhile. It may call
    functions compiled by `kernel`, which count for themselves.
    """
    return cast("F", _njit(cache=True, nogil=True, _nrt=False)(function))
