"""The policies by which every numba kernel of the package is compiled.

A function is compiled by one policy only: its name on the disk does not tell of which, and two
would take each other's machine code for their own.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

_PATIENCE_S = 1.0

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


_FOR_KERNELS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inner(function: F) -> F:
    """Compile, as `lean_kernel` does, a function that only other kernels call.

    Python cannot call it: what would take the arguments from Python is as long to compile as a
    small kernel, and is left out.
    """
    return cast("F", _njit(cache=True, nogil=True, _nrt=False, **_FOR_KERNELS)(function))


def inlined(function: F) -> F:
    """Compile a small function that becomes part of each kernel that calls it.

    A call hands over every field of every array: several times the work of a small function.
    """
    return cast("F", _njit(cache=True, nogil=True, forceinline=True)(function))


def inner_inlined(function: F) -> F:
    """Compile, as `inner` does, a small function that becomes part of each kernel that calls it."""
    return cast(
        "F",
        _njit(cache=True, nogil=True, _nrt=False, forceinline=True, **_FOR_KERNELS)(function),
    )


@contextmanager
def announced_compilation() -> Iterator[None]:
    """Say what is being waited for, if first calls of kernels take more than a moment.

    A person at a terminal is told on standard error; anyone else through the log `nearcast`.
    """
    timer = Timer(_PATIENCE_S, _announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _announce() -> None:
    told = "compiling kernels for this machine; this happens once and takes some seconds"
    logging.getLogger("nearcast").info(told)
    if sys.stderr.isatty():
        sys.stderr.write(f"nearcast: {told} ...\n")
