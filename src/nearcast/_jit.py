"""The policies by which every numba kernel of the package is compiled.

A function is compiled by one policy only: its name on the disk does not tell of which, and two
would take each other's machine code for their own.

Processes that start together wait for each other's kernels: one compiles, the others read what it
wrote. Numba alone would compile in each of them. And numba would compile a kernel anew for every
constant that another kernel calls it with; here most have one version for all values.
"""

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.core.compiler_lock import global_compiler_lock

try:
    import fcntl
except ImportError:  # pragma: no cover - where there is none, each process compiles for itself
    fcntl = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., object])
D = TypeVar("D", bound=np.generic)

_PATIENCE_S = 1.0

_being_compiled: set[Path] = set()


def _njit(by_value: bool = False, **options: Any) -> Callable[[Callable[..., object]], Any]:
    """Numba's decorator, with the option `_nrt` that its stubs do not know.

    Nobody calls a kernel from C: the function for that is left out. With `by_value` it is compiled
    anew for every constant that it is called with.
    """

    def decorate(function: Callable[..., object]) -> Any:
        made = cast("Any", numba.njit)(no_cfunc_wrapper=True, **options)(function)
        return _compiled_once(made if by_value else _for_any_value(made))

    return decorate


def _for_any_value(dispatcher: Any) -> Any:
    """Let kernels that call this one with a constant use the version for any value."""
    resolve = getattr(dispatcher, "get_call_template", None)
    if resolve is None:
        return dispatcher  # numba is switched off, and it is a plain function
    plain: Callable[[Any], Any] = types.unliteral

    def resolve_types(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return resolve(tuple(map(plain, given)), {name: plain(named[name]) for name in named})

    dispatcher.get_call_template = resolve_types
    return dispatcher


def _compiled_once(dispatcher: Any) -> Any:
    """Let one process at a time compile a kernel; others then find it on the disk."""
    compile_or_load = getattr(dispatcher, "compile", None)
    if compile_or_load is None or fcntl is None:
        return dispatcher  # numba is switched off, and it is a plain function
    function = dispatcher.py_func
    place = Path(dispatcher.stats.cache_path)
    lock = place / f"{function.__qualname__}-{function.__code__.co_firstlineno}.lock"

    def compile_once(signature: Any) -> Any:
        # Numba's own lock first: a thread with a file and another with this one would both wait.
        with global_compiler_lock, _held(lock):
            return compile_or_load(signature)

    dispatcher.compile = compile_once
    return dispatcher


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Keep other processes from a kernel; where files cannot be locked, do without."""
    if path in _being_compiled:
        yield
        return
    with ExitStack() as stack:
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            fcntl.flock(stack.enter_context(path.open("w")), fcntl.LOCK_EX)
        _being_compiled.add(path)
        try:
            yield
        finally:
            _being_compiled.remove(path)


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


def inner(function: F) -> F:
    """Compile, as `lean_kernel` does, a function that only other kernels call.

    Python cannot call it: what would take the arguments from Python is as long to compile as a
    small kernel, and is left out. Many of these are called for every message or row: constants
    that they are called with are compiled into them.
    """
    return cast(
        "F",
        _njit(by_value=True, cache=True, nogil=True, _nrt=False, no_cpython_wrapper=True)(function),
    )


def inner_counting(function: F) -> F:
    """Compile, as `kernel` does, a function that only other kernels call."""
    return cast("F", _njit(cache=True, nogil=True, _nrt=True, no_cpython_wrapper=True)(function))


def inlined(function: F) -> F:
    """Compile a small function that becomes part of each kernel that calls it.

    A call hands over every field of every array: several times the work of a small function.
    """
    return cast("F", _njit(cache=True, nogil=True, forceinline=True)(function))


def inner_inlined(function: F) -> F:
    """Compile, as `inner` does, a small function that becomes part of each kernel that calls it."""
    return cast(
        "F",
        _njit(cache=True, nogil=True, _nrt=False, forceinline=True, no_cpython_wrapper=True)(
            function
        ),
    )


def read_only(array: npt.NDArray[D]) -> npt.NDArray[D]:
    """The same array, side by side and not to be written, as those of Arrow are.

    Numba compiles a kernel apart for arrays that can be written, and for those with gaps.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


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
