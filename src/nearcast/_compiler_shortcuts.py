"""What numba does over and over while it compiles, done once or done sooner.

Like `_compiler`, this leans on parts of numba that may change with its version. Where one of them
is missing, numba's own is used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from numba.core import base, event, ir, postproc, targetconfig, transforms, utils
from numba.core.types import functions
from numba.core.typing import context, templates

_Function: Any = functions.BaseFunction
_Options: Any = targetconfig.ConfigStack
_Var: Any = ir.Var
_Inst: Any = ir.Inst
_Processor: Any = postproc.PostProcessor
_postproc: Any = postproc
_transforms: Any = transforms
_utils: Any = utils
_CONTEXTS: tuple[Any, ...] = (base.BaseContext, context.BaseContext)


class _ResolvedCalls:
    """What functions such as `+` were found to give for arguments of some kinds."""

    def __init__(self, find: Callable[..., Any]) -> None:
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


def _list_vars(self: Any, value: Any) -> Any:
    """The variables in a value, as numba lists them, most frequent kinds of values first."""
    kind = type(value)
    if kind is _Var:
        return [value]
    if kind is dict:
        value = value.values()
    elif kind is not list and kind is not tuple:
        return value.list_vars() if isinstance(value, _Inst) else []
    listed: list[Any] = []
    for each in value:
        listed.extend(_list_vars(self, each))
    return listed


class _Refreshed:
    """Takes over what was registered with numba since the last time, if something was."""

    def __init__(self, refresh: Callable[..., Any]) -> None:
        self._refresh = refresh
        self._known: dict[int, tuple[int, Any]] = {}

    def take_over(self, into: Any) -> None:
        """Refresh a context of numba; copies of one share what was registered."""
        shared = into._registries
        if self._known.get(id(shared), (-1, None))[0] != _registered(into):
            self._refresh(into)
            self._known[id(shared)] = (
                _registered(into),
                shared,
            )  # kept, so that the id stays its own


def _registered(into: Any) -> int:
    """A number that grows when something is registered, or imported: that registers more."""
    registries = [*into._registries.items()]
    if hasattr(into, "typing_context"):
        registries += into.typing_context._registries.items()
    return len(sys.modules) + sum(
        len(getattr(registry, name))
        for registry, loader in registries
        for name in loader.registry_items
    )


def _post_process(own: Callable[..., Any]) -> Callable[..., Any]:
    """Numba's processing of a function after a pass, without what only generators need."""

    def run(self: Any, emit_dels: bool = False, extend_lifetimes: bool = False) -> None:
        function = self.func_ir
        if function.is_generator:
            own(self, emit_dels, extend_lifetimes)
            return
        function.blocks = _transforms.canonicalize_cfg(function.blocks)
        function.variable_lifetime = _postproc.VariableLifetime(function.blocks)
        function.generator_info = None
        if emit_dels:
            self._insert_var_dels(extend_lifetimes=extend_lifetimes)

    return run


def _remembered(find: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same function, which finds the signature of each other function once."""
    known: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def recall(function: Any) -> Any:
        try:
            found = known.get(function)
        except TypeError:  # nothing can refer to it weakly
            return find(function)
        if found is None:
            found = known[function] = find(function)
        return found

    return recall


def _shortcuts() -> list[tuple[Any, str, Any]]:
    """The replaced functions of numba: their owners, names and substitutes."""
    found: list[tuple[Any, str, Any]] = []
    if hasattr(_Function, "get_call_type") and hasattr(_Options, "top_or_none"):
        recall = _ResolvedCalls(_Function.get_call_type).recall
        # bound, as methods of a class are
        found.append((_Function, "get_call_type", lambda *asked: recall(*asked)))
    if hasattr(_Inst, "_rec_list_vars"):
        found.append((_Inst, "_rec_list_vars", _list_vars))
    # timing events of the passes are unused
    events = [name for name in ("start_event", "end_event") if hasattr(event, name)]
    found += [(event, name, lambda *_, **__: None) for name in events]
    if hasattr(_postproc, "VariableLifetime") and hasattr(_Processor, "_insert_var_dels"):
        found.append((_Processor, "run", _post_process(_Processor.run)))
    if hasattr(_utils, "pysignature"):
        found.append((_utils, "pysignature", _remembered(_utils.pysignature)))
    for kind in _CONTEXTS:
        if hasattr(kind, "install_registry") and hasattr(templates, "BaseRegistryLoader"):
            take_over = _Refreshed(kind.refresh).take_over
            found.append((kind, "refresh", lambda into, take_over=take_over: take_over(into)))
    return found


def on_one_piece_of_stack(run: Callable[[Any], Any], argument: Any) -> Any:
    """Call `run` in a frame so large that Python gets memory for it and all calls below at once.

    Python keeps frames in pieces of 16 KB, which it asks the system for and gives back. A function
    called again and again where a piece ends costs that each time; compiling did so 370,000 times.
    """
    return run(argument)


_ENTRIES = 1 << 16  # of 8 bytes; what is left of the next power of two is for calls below
on_one_piece_of_stack.__code__ = on_one_piece_of_stack.__code__.replace(co_stacksize=_ENTRIES)

_SHORTCUTS = _shortcuts()
_taken = False


@contextmanager
def shortcuts() -> Iterator[None]:
    """Within this, let numba find once what a function such as `+` gives for arguments of a kind.

    It tries dozens of candidates each time, and would for every `+` of every kernel. It lists the
    variables of every statement sooner, too, and does not time itself. Numba's lock has to be held,
    so that no other thread compiles anything meanwhile.
    """
    global _taken
    if _taken:
        yield
        return
    before = [(owner, name, getattr(owner, name)) for owner, name, _ in _SHORTCUTS]
    _taken = True
    try:
        for owner, name, substitute in _SHORTCUTS:
            setattr(owner, name, substitute)
        yield
    finally:
        for owner, name, own in before:
            setattr(owner, name, own)
        _taken = False
