"""How numba is kept from doing needless work when it compiles kernels.

Numba makes every function ready to run: it links in whatever the function calls, optimises all of
it and emits machine code. A caller takes the optimised code, links it in and optimises it again.
What only kernels call never runs by itself; here it stays as it was lowered, and a kernel links,
optimises and emits everything below it once. It is not stored either: kernels contain it.

Passes that find nothing to do in a function are left out. `_compiler_lowering` makes less code for
LLVM, `_compiler_shortcuts` does less on the way to it.

All of this leans on parts of numba that may change with its version. Where one of them is missing,
`INNER` and `OUTER` are numba's own compiler, and everything takes longer.
"""

from __future__ import annotations

from types import CodeType
from typing import Any

from llvmlite import binding
from numba.core import codegen, compiler, compiler_machinery, environment, typed_passes

from nearcast import _compiler_lowering

_ENVIRONMENT = "_ZN08NumbaEnv"  # how the names begin of what holds a function's Python objects
_UNRESOLVED = ".numba.unresolved$"  # how those begin of functions that call each other in turns
_RUNTIME = "NRT_"  # how those begin of numba's own functions that count references


def _has(owner: Any, *names: str) -> bool:
    return all(hasattr(owner, name) for name in names)


Compiler: Any = compiler.Compiler
_register_pass: Any = compiler_machinery.register_pass
_environment: Any = environment.lookup_environment
_LIBRARY: Any = getattr(codegen, "JITCodeLibrary", object)
_LOWERING: Any = getattr(typed_passes, "NativeLowering", object)
_KNOWN = (
    _has(_LIBRARY, "add_linking_library", "finalize", "get_pointer_to_function")
    and _has(_LIBRARY, "_optimize_final_module", "_finalize_dynamic_globals")
    and _has(_LIBRARY, "_get_module_for_linking", "_optimize_functions")
    and _has(getattr(codegen, "JITCPUCodegen", None), "set_env", "_pass_builder")
    and _has(getattr(codegen, "JITCPUCodegen", None), "_module_pass_manager")
    and _has(binding, "create_new_module_pass_manager")
    and _has(_LOWERING, "run_pass", "lowering_class")
    and _compiler_lowering.KNOWN
    and _has(compiler_machinery.PassManager, "_ENFORCING")
)


class _Library(_LIBRARY):  # type: ignore[misc]  # numba ships no type information
    """Code whose functions are made small as soon as they are lowered."""

    def _optimize_functions(self, ll_module: Any) -> None:
        """Make values of what is in memory; the kernel above optimises the rest, and that once."""
        ll_module.data_layout = self._codegen._data_layout
        passes = binding.create_new_module_pass_manager()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.run(ll_module, self._codegen._pass_builder())


class _KernelLibrary(_Library):
    """The code of a kernel, with everything below it."""

    def add_linking_library(self, library: Any) -> None:
        """Link in a library and all below it."""
        _link(self, library)

    def _optimize_final_module(self) -> None:
        """Make the linked functions private to the kernel, so that they are optimised with it."""
        module = self._final_module
        environments = [each for each in module.global_variables if _is_environment(each)]
        by_name = {each.name.removeprefix(_UNRESOLVED) for each in module.global_variables}
        for each in module.functions:
            shared = each.name in by_name or each.name.startswith(_RUNTIME)
            if each.linkage == binding.Linkage.linkonce_odr and not shared:
                each.linkage = "internal"
        for each in environments:  # so that those which nothing refers to are left out
            each.linkage = "linkonce_odr"
        if any(each.name.startswith(_RUNTIME) for each in module.functions):
            super()._optimize_final_module()
        else:  # numba's first round only brings together the counts of references
            passes, builder = self._codegen._module_pass_manager()
            passes.run(module, builder)
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


class _FunctionLibrary(_Library):
    """The code of one function as it was lowered, with a list of the libraries it calls."""

    def add_linking_library(self, library: Any) -> None:
        """Note a library, and all below it, that must be linked together with this one."""
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
        return _NoEnvironment


class _NoEnvironment:
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
            [other, *(other._linking_libraries if isinstance(other, _FunctionLibrary) else ())]
        )
        library._linking_libraries = [*(each for each in below if each not in whole), *whole]


_NESTED = {
    "InlineClosureLikes", "MakeFunctionToJitFunction", "InlineInlinables", "FindLiterallyCalls",
    "LiteralUnroll", "LiteralPropagationSubPipelinePass", "WithLifting",
}  # fmt: skip
_UNSEEN = {"AnnotateTypes", "DumpParforDiagnostics"}


def _is_needed(kind: type, state: Any) -> bool:
    """Whether a pass could do something for a function.

    Kernels have no `with` and no functions of their own but for those that Python makes of a
    comprehension, types annotated in the source are not used, and array expressions make arrays.
    """
    if kind.__name__ in _NESTED:
        constants = state.func_id.func.__code__.co_consts
        return any(isinstance(each, CodeType) for each in constants)
    if kind.__name__ == "NopythonRewrites":
        return bool(state.flags.nrt)
    return kind.__name__ not in _UNSEEN


_MODELS: Any = _compiler_lowering.models() if _KNOWN else None


def _made_by(library: type, name: str) -> Any:
    """Numba's compiler, with another kind of library for the code that it makes."""
    if not _KNOWN:
        return Compiler

    @_register_pass(mutates_CFG=True, analysis_only=False)
    class Lowering(_LOWERING):  # type: ignore[misc]
        _name = name

        @property
        def lowering_class(self) -> Any:
            return _compiler_lowering.Lower

        def run_pass(self, state: Any) -> Any:
            if state.library is None:
                state.library = library(state.targetctx.codegen(), state.func_id.func_qualname)
                state.library.enable_object_caching()
            return super().run_pass(state)

    class Own(Compiler):  # type: ignore[misc]
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.state.targetctx.data_model_manager = _MODELS

        def define_pipelines(self) -> Any:
            pipelines = super().define_pipelines()
            for each in pipelines:
                needed = [step for step in each.passes if _is_needed(step[0], self.state)]
                each.passes = [(Lowering if kind is _LOWERING else kind, why)
                               for kind, why in needed]  # fmt: skip
                each._ENFORCING = False  # or it checks and analyses a function after every pass
                each.finalize()
            return pipelines

    return Own


INNER = _made_by(_FunctionLibrary, "inner_lowering")
"""The compiler of functions that only kernels call."""

OUTER = _made_by(_KernelLibrary, "outer_lowering")
"""The compiler of kernels."""
