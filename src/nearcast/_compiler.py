"""How numba is kept from doing the same work several times when it compiles kernels.

Numba makes every function ready to run: it links in whatever the function calls, optimises all of
it and emits machine code. A caller takes the optimised code, links it in and optimises it again.
What only kernels call never runs by itself; here it stays as it was lowered, and a kernel links,
optimises and emits everything below it once. That and `remembered_types` halve the time.

All of this leans on parts of numba that may change with its version. Where one of them is missing,
`INNER` and `OUTER` are numba's own compiler, nothing is remembered, and everything takes longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import binding
from numba.core import (
    codegen,
    compiler,
    compiler_machinery,
    environment,
    targetconfig,
    typed_passes,
)
from numba.core.types import functions

_ENVIRONMENT = "_ZN08NumbaEnv"  # how the names begin of what holds a function's Python objects
_UNRESOLVED = ".numba.unresolved$"  # how those begin of functions that call each other in turns
_RUNTIME = "NRT_"  # how those begin of numba's own functions that count references
_KIND = "inner"


def _has(owner: Any, *names: str) -> bool:
    return all(hasattr(owner, name) for name in names)


Compiler: Any = compiler.Compiler
_Result: Any = compiler.CompileResult
_Function: Any = functions.BaseFunction
_register_pass: Any = compiler_machinery.register_pass
_environment: Any = environment.lookup_environment
_Options: Any = targetconfig.ConfigStack
_LIBRARY: Any = getattr(codegen, "JITCodeLibrary", object)
_LOWERING: Any = getattr(typed_passes, "NativeLowering", object)
_KNOWN = (
    _has(_LIBRARY, "add_linking_library", "finalize", "get_pointer_to_function")
    and _has(_LIBRARY, "_optimize_final_module", "_finalize_dynamic_globals")
    and _has(_LIBRARY, "_get_module_for_linking", "serialize_using_object_code")
    and _has(getattr(codegen, "JITCPUCodegen", None), "set_env")
    and _has(_LOWERING, "run_pass")
    and set(_Result._fields) >= {"library", "entry_point", "fndesc", "referenced_envs"}
)


class _Whole(_LIBRARY):  # type: ignore[misc]  # numba ships no type information
    """The code of a kernel, with everything below it."""

    def add_linking_library(self, library: Any) -> None:
        """Link in a library and all below it."""
        _link(self, library)

    def _optimize_final_module(self) -> None:
        """Optimise what is linked in as the kernel's own: nobody else calls these copies."""
        module = self._final_module
        environments = [each for each in module.global_variables if _is_environment(each)]
        by_name = {each.name.removeprefix(_UNRESOLVED) for each in module.global_variables}
        for each in module.functions:
            shared = each.name in by_name or each.name.startswith(_RUNTIME)
            if each.linkage == binding.Linkage.linkonce_odr and not shared:
                each.linkage = "internal"
        for each in environments:  # so that those which nothing refers to are left out
            each.linkage = "linkonce_odr"
        super()._optimize_final_module()
        for each in module.global_variables:
            if _is_environment(each):
                each.linkage = "common"

    def finalize(self) -> None:
        """Make the code ready to run, with the Python objects of the functions below."""
        super().finalize()
        for each in self._final_module.global_variables:
            found = _environment(each.name) if _is_environment(each) else None
            if found is not None:
                self._codegen.set_env(each.name, found)


class _Part(_LIBRARY):  # type: ignore[misc]
    """The code of one function as it was lowered, beside that of all it calls."""

    def add_linking_library(self, library: Any) -> None:
        """Note a library that whoever links this one has to link, and all below it."""
        _link(self, library)

    def finalize(self) -> None:
        """Leave the code as it is, ready to be linked into many kernels."""
        self._raise_if_finalized()
        self._finalize_dynamic_globals()
        for each in self._final_module.functions:
            if not each.is_declaration and each.linkage == binding.Linkage.external:
                each.linkage = "linkonce_odr"
        for library in self._linking_libraries:
            self._reload_init.update(library._reload_init)
        self._shared_module = self._final_module
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:  # noqa: ARG002 - there is no machine code
        """Zero, which says that there is nothing to run."""
        self._ensure_finalized()
        return 0

    @property
    def codegen(self) -> Any:
        """What would set the environment of the machine code, if there were any."""
        return _Unset

    def serialize_using_object_code(self) -> tuple[str, str, bytes]:
        """The code with all that it calls, as LLVM writes it down."""
        self._ensure_finalized()
        together = self._final_module.clone()
        for library in self._linking_libraries:
            together.link_in(library._get_module_for_linking(), preserve=True)
        return self.name, _KIND, together.as_bitcode()


class _Unset:
    @staticmethod
    def set_env(name: str, objects: Any) -> None:
        """Do nothing: a kernel does it for what is linked into it."""


def _is_environment(value: Any) -> bool:
    return not value.is_declaration and value.name.startswith(_ENVIRONMENT)


def _link(library: Any, other: Any) -> None:
    """Put a library behind all that call it: LLVM takes only what it has met the name of."""
    other._ensure_finalized()
    below = library._linking_libraries
    if other not in below:
        whole = dict.fromkeys(
            [other, *(other._linking_libraries if isinstance(other, _Part) else ())]
        )
        library._linking_libraries = [*(each for each in below if each not in whole), *whole]


def _made_by(library: type, name: str) -> Any:
    """Numba's compiler, with another kind of library for the code that it makes."""
    if not _KNOWN:
        return Compiler

    @_register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(_LOWERING):  # type: ignore[misc]
        _name = name

        def run_pass(self, state: Any) -> Any:
            if state.library is None:
                state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
                state.library.enable_object_caching()
            return super().run_pass(state)

    class Own(Compiler):  # type: ignore[misc]
        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for each in pipelines:
                each.passes = [(Lowering if kind is _LOWERING else kind, why)
                               for kind, why in each.passes]  # fmt: skip
                each.finalize()
            return pipelines

    return Own


INNER = _made_by(_Part, "inner_lowering")
"""The compiler of functions that only kernels call."""

OUTER = _made_by(_Whole, "outer_lowering")
"""The compiler of kernels."""


def rebuild(context: Any, data: tuple[Any, ...]) -> Any:
    """Make a compiled function from what was kept of it, whichever compiler it is by."""
    name, kind, code = data[0]
    if kind != _KIND:
        return _Result._rebuild(context, *data)
    fndesc, objects, signature, mode, lifted, notes, reload, used = data[1:]
    for each in reload:
        each()
    library = _Part(context.codegen(), name)
    library._final_module = binding.parse_bitcode(code)
    library.finalize()
    return _Result(
        target_context=context, typing_context=context.typing_context, library=library,
        environment=objects, entry_point=context.get_executable(library, fndesc, objects),
        fndesc=fndesc, type_annotation=notes, signature=signature, objectmode=mode,
        lifted=lifted, typing_error=None, call_helper=None, metadata=None, reload_init=reload,
        referenced_envs=used,
    )  # fmt: skip


class _Memory:
    """What functions such as `+` were found to give for arguments of some kinds."""

    def __init__(self, find: Callable[..., Any]) -> None:
        self.at_work = False
        self._find = find
        self._found: dict[tuple[int, int, tuple[Any, ...]], tuple[Any, Any]] = {}
        self._options: list[dict[str, Any]] = []  # all that functions were compiled with
        self._latest: tuple[Any, int] = (None, -1)

    def recall(self, function: Any, context: Any, args: Any, named: Any) -> Any:
        """The signature of `function` for arguments of these types."""
        if named:
            return self._find(function, context, args, named)
        key = (id(function), self._number(), tuple(args))
        if key not in self._found:  # with the function itself, so that its id stays its own
            self._found[key] = (self._find(function, context, args, named), function)
        return self._found[key][0]

    def _number(self) -> int:
        """A number for the options of the function that is being compiled: they decide, too."""
        options = _Options.top_or_none()
        if options is not self._latest[0] or options is None:
            values = {} if options is None else options.values()
            if values not in self._options:
                self._options.append(values)
            self._latest = (options, self._options.index(values))
        return self._latest[1]


_memory: _Memory | None = (
    _Memory(_Function.get_call_type)
    if _has(_Function, "get_call_type") and _has(_Options, "top_or_none")
    else None
)


@contextmanager
def remembered_types() -> Iterator[None]:
    """Within this, let numba find once what a function such as `+` gives for arguments of a kind.

    It tries dozens of candidates each time, and would for every `+` of every kernel. Numba's lock
    has to be held, so that no other thread compiles anything meanwhile.
    """
    before = getattr(_Function, "get_call_type", None)
    if _memory is None or _memory.at_work:
        yield
        return
    recall = _memory.recall
    _Function.get_call_type = lambda *asked: recall(*asked)  # bound, as methods of a class are
    _memory.at_work = True
    try:
        yield
    finally:
        _memory.at_work = False
        _Function.get_call_type = before
