"""The one policy by which every numba kernel of the package is compiled."""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., object])

_PATIENCE_S = 1.0


def kernel(function: F) -> F:
    """Compile `function` on first use, keep it on disk, and run it without the GIL."""
    return cast("F", njit(cache=True, nogil=True)(function))


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
