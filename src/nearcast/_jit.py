"""The policies by which every numba kernel of the package is compiled, and how it is kept.

A function is compiled by one policy only: its file name does not contain the policy, so two
policies would load each other's machine code.

Processes that start together wait for each other's kernels: one compiles, the others load the
result. Numba alone would compile in each of them. Numba would also compile a kernel again for
every constant that another kernel calls it with; here most have one version for all values.
"""

import hashlib
import json
import logging
import pickle
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt
from numba import types
from numba.core.caching import _Cache
from numba.core.compiler import CompileResult
from numba.core.compiler_lock import global_compiler_lock
from numba.core.serialize import dumps
from numba.extending import register_jitable

from nearcast import _kernel_files
from nearcast._compiler import INNER, OUTER
from nearcast._compiler_shortcuts import on_one_piece_of_stack, shortcuts

try:
    import fcntl
except ImportError:  # pragma: no cover - where there is none, each process compiles for itself
    fcntl = None  # type: ignore[assignment]

F = TypeVar("F", bound=Callable[..., object])
D = TypeVar("D", bound=np.generic)

_PATIENCE_S = 1.0

_dumps = cast("Callable[[Any], bytes]", dumps)
_rebuild: Callable[..., Any] = CompileResult._rebuild
_unliteral: Callable[[Any], Any] = types.unliteral

_being_compiled: set[Path] = set()

compiled: list[str] = []
"""The names of the kernels that this process compiled, and did not find on the disk."""
_started: list[float] = []  # when each kernel of a nest began, in CPU seconds, less those inside it


class KernelCache(_Cache):
    """The files of one kernel, each with the machine code for one signature and processor.

    The first line of a file says in JSON what it is; the rest is what numba pickles of it.
    """

    def __init__(self, function: Any) -> None:
        self.name = f"{function.__module__}.{function.__qualname__}".replace("<locals>.", "")
        self._line = function.__code__.co_firstlineno
        outside = _kernel_files.source_outside(function.__code__.co_filename)
        self._stamp = _kernel_files.stamp(outside)
        self._enabled = True
        self._module = function.__module__
        self._knows_sources = outside is None and function.__closure__ is None

    @property
    def cache_path(self) -> str:
        """The folder that this process writes to."""
        return str(_kernel_files.home() / self._stamp)

    def _file(self, signature: Any, target: str) -> str:
        digest = hashlib.blake2b(_spelled(signature).encode(), digest_size=6).hexdigest()
        return f"{self.name}-{self._line}-{digest}.{target}{_kernel_files.ENDING}"

    def find(self, signature: Any) -> Path | None:
        """The file with this signature's machine code, if it is at hand."""
        for target in _kernel_files.targets():
            name = self._file(signature, target)
            for folder in _kernel_files.folders(self._stamp):
                if (folder / name).exists():
                    return folder / name
        return None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the machine code for a signature; None if it has to be compiled."""
        path = self.find(sig) if self._enabled else None
        if path is None:
            return None
        target_context.refresh()
        try:
            head, _, code = path.read_bytes().partition(b"\n")
            if json.loads(head)["signature"] != _spelled(sig):
                return None
            return _rebuild(target_context, *pickle.loads(code))  # noqa: S301 - ours
        except Exception:  # a torn file can fail in any way, and is then written again
            logging.getLogger("nearcast").warning("%s: damaged, it is compiled again", path)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the machine code for a signature, where that is possible."""
        if not self._enabled or data.lifted or data.library.has_dynamic_globals:
            return
        took = time.thread_time() - _started[-1] if _started else 0.0
        head = {
            "kernel": self.name,
            "signature": _spelled(sig),
            "cpu_s": round(took, 4),
            **self._made_of(sig),
        }
        folder = Path(self.cache_path)
        path = folder / self._file(sig, _kernel_files.targets()[0])
        passing = path.with_suffix(f".{uuid.uuid4().hex[:12]}")
        with suppress(OSError):  # it only saves time
            folder.mkdir(parents=True, exist_ok=True)
            passing.write_bytes(json.dumps(head).encode() + b"\n" + _dumps(data._reduce()))
            passing.replace(path)

    def _made_of(self, signature: Any) -> dict[str, Any]:
        """The modules whose code is in the machine code, where they can be known."""
        kinds = list(_kinds(signature))
        if not self._knows_sources or any(isinstance(kind, types.Callable) for kind in kinds):
            return {}
        classes = [getattr(kind, "instance_class", None) for kind in kinds]
        modules = {self._module, *(each.__module__ for each in classes if each is not None)}
        return {"modules": sorted(modules), "sources": _kernel_files.sources_of(*sorted(modules))}

    def enable(self) -> None:
        """Use the disk."""
        self._enabled = True

    def disable(self) -> None:
        """Do not use the disk."""
        self._enabled = False

    def flush(self) -> None:
        """Remove what this process could have written for this kernel."""
        for path in Path(self.cache_path).glob(f"{self.name}-{self._line}-*{_kernel_files.ENDING}"):
            path.unlink(missing_ok=True)


def _kinds(signature: Any) -> Iterator[Any]:
    """The types of a signature, and those inside tuples."""
    for kind in signature:
        yield kind
        yield from _kinds(getattr(kind, "types", ()))


def _spelled(signature: Any) -> str:
    """A signature as text, with the modules of the classes of named tuples."""
    classes = [getattr(kind, "instance_class", None) for kind in signature]
    modules = [f"{each.__module__}.{each.__qualname__}" for each in classes if each is not None]
    return " ".join([str(signature), *modules])


def _njit(
    inside: bool = False, by_flags: bool = False, **options: Any
) -> Callable[[Callable[..., object]], Any]:
    """Numba's decorator, with the option `_nrt` that its stubs do not know.

    Kernels are never called from C, so that entry point is left out; with `inside`, not from Python
    either. With `by_flags` a kernel is compiled separately for True and for False where other
    kernels pass them as constants.
    """

    def decorate(function: Callable[..., object]) -> Any:
        made = cast("Any", numba.njit)(
            no_cfunc_wrapper=True, nogil=True,
            pipeline_class=INNER if inside else OUTER, no_cpython_wrapper=inside, **options,
        )(function)  # fmt: skip
        if not hasattr(made, "py_func"):
            return made  # numba is switched off, and it is a plain function
        made = _for_any_value(made, but_flags=by_flags)
        if inside:
            return made  # kernels that call it contain it
        made._cache = KernelCache(function)
        return _compiled_once(made)

    return decorate


def _for_any_value(dispatcher: Any, but_flags: bool) -> Any:
    """Make kernels that call this one with a constant use the version for any value."""
    resolve = dispatcher.get_call_template

    def plain(kind: Any) -> Any:
        return kind if but_flags and isinstance(kind, types.BooleanLiteral) else _unliteral(kind)

    def resolve_types(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return resolve(tuple(map(plain, given)), {name: plain(named[name]) for name in named})

    dispatcher.get_call_template = resolve_types
    return dispatcher


def _compiled_once(dispatcher: Any) -> Any:
    """Let one process at a time compile a kernel; others then find it on the disk."""
    compile_or_load = dispatcher.compile
    cache: KernelCache = dispatcher._cache

    def compile_once(signature: Any) -> Any:
        # Numba's own lock first: in the other order two threads could wait for each other.
        with global_compiler_lock, _timed(dispatcher):
            if cache.find(signature) is not None:
                return compile_or_load(signature)
            lock = Path(cache.cache_path) / "locks" / f"{cache.name}.lock"
            with _held(lock), shortcuts():
                return on_one_piece_of_stack(compile_or_load, signature)

    dispatcher.compile = compile_once
    return dispatcher


@contextmanager
def _timed(dispatcher: Any) -> Iterator[None]:
    """Record a compilation and its time, without the compilations that it causes."""
    before, start = sum(dispatcher._cache_misses.values()), time.thread_time()
    _started.append(start)
    try:
        yield
    finally:
        _started.pop()
        if _started:
            _started[-1] += time.thread_time() - start
        if sum(dispatcher._cache_misses.values()) > before:
            compiled.append(dispatcher._cache.name)


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Lock a kernel against other processes, where files can be locked."""
    if path in _being_compiled:
        yield
        return
    with ExitStack() as stack:
        if fcntl is not None:
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
    return cast("F", _njit(_nrt=True)(function))


def lean_kernel(function: F) -> F:
    """Compile as `kernel` does, without reference counting: the function makes no arrays or lists.

    With reference counting, passing a tuple of a dozen arrays to another function increments and
    decrements the count of every array atomically: that made the exact check of a row 80 times as
    expensive, and threads wait for each other. The Python caller holds the arrays meanwhile. It
    may call functions compiled by `kernel`, which count for themselves.
    """
    return cast("F", _njit(_nrt=False)(function))


def inner(function: F) -> F:
    """Compile, as `lean_kernel` does, a function that only other kernels call.

    Python cannot call it, and it is not stored: kernels contain it. The wrapper that unpacks
    Python's arguments would take as long to compile as a small kernel. Many of these run for every
    message or row: constant flags are compiled into them.
    """
    return cast(
        "F",
        _njit(inside=True, by_flags=True, _nrt=False)(function),
    )


def inner_counting(function: F) -> F:
    """Compile, as `kernel` does, a function that only other kernels call."""
    return cast("F", _njit(inside=True, _nrt=True)(function))


def inlined(function: F) -> F:
    """Compile, as `inner` does, a small function that is inlined into each kernel that calls it.

    A call passes every field of every array, which costs several times a small function.
    """
    return cast("F", _njit(inside=True, _nrt=False, forceinline=True)(function))


def callable_in_kernels(function: F) -> F:
    """Let kernels call a plain function, which stays one, by its own name."""
    options = {"pipeline_class": INNER, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    register_jitable(**options)(function)
    return function


def read_only(array: npt.NDArray[D]) -> npt.NDArray[D]:
    """Return the array as contiguous and read-only, as those of Arrow are.

    Numba compiles a kernel separately for writable arrays and for arrays with strides.
    """
    view = np.ascontiguousarray(array).view()
    view.flags.writeable = False
    return view


@contextmanager
def announced_compilation() -> Iterator[None]:
    """Announce compilation if the first calls of kernels take more than a moment.

    It is printed on standard error if that is a terminal, and logged to `nearcast`.
    """
    timer = Timer(_PATIENCE_S, _announce)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _announce() -> None:
    why = _kernel_files.misfit()
    notice = "compiling kernels for this machine; this happens once and takes some seconds"
    notice += f" ({why})" if why else ""
    logging.getLogger("nearcast").info(notice)
    if sys.stderr.isatty():
        sys.stderr.write(f"nearcast: {notice} ...\n")
