"""What numba does over and over while it compiles, done once or done sooner.

Like `_compiler`, this leans on parts of numba that may change with its version. Where one of them
is missing, numba's own is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event, ir, targetconfig
from numba.core.types import functions

_Function: Any = functions.BaseFunction
_Options: Any = targetconfig.ConfigStack
_Var: Any = ir.Var
_Inst: Any = ir.Inst


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


def _shortcuts() -> list[tuple[Any, str, Any]]:
    """The replaced functions of numba: their owners, names and substitutes."""
    found: list[tuple[Any, str, Any]] = []
    if hasattr(_Function, "get_call_type") and hasattr(_Options, "top_or_none"):
        recall = _ResolvedCalls(_Function.get_call_type).recall
        # bound, as methods of a class are
        found.append((_Function, "get_call_type", lambda *asked: recall(*asked)))
    if hasattr(_Inst, "_rec_list_vars"):
        found.append((_Inst, "_rec_list_vars", _list_vars))
    if hasattr(event, "broadcast"):  # timing events of the passes are unused
        found.append((event, "broadcast", lambda _: None))
    return found


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
