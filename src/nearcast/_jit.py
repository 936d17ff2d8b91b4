"""The one policy by which every numba kernel of the package is compiled."""

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])


def kernel(function: F) -> F:
    """Compile `function` on first use, keep it on disk, and run it without the GIL."""
    return cast("F", njit(cache=True, nogil=True)(function))


def inlined(function: F) -> F:
    """Compile a small kernel that becomes part of each kernel that calls it.

    A call hands over every field of every array: several times the work of a small function.
    """
    return cast("F", njit(cache=True, nogil=True, forceinline=True)(function))
