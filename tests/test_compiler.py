"""Functions that only kernels call are compiled as far as their callers need, and no further."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple, cast

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import ir as llvm
from numba.core import compiler, ir
from numba.core.types.functions import BaseFunction

from nearcast import _compiler, _compiler_lowering, _compiler_shortcuts
from nearcast._jit import callable_in_kernels, inner, inner_counting, kernel, lean_kernel

_MODULE = """
import sys

import numpy as np

from nearcast._jit import compiled, inner, inner_counting, kernel, lean_kernel


@inner
def half(value):
    return value // 2


@inner
def steps(value):
    return 0 if value < 2 else 1 + steps(half(value))


@inner_counting
def doubled(values):
    if len(values) > 5:
        raise ValueError(f"{len(values)} values, at most 5 are expected")
    return np.concatenate((values, values))


@kernel
def both(values):
    return doubled(values).sum() + steps(len(values))


@lean_kernel
def steps_only(values):
    return steps(len(values))


arrays = np.arange(4.0)
said = [getattr(sys.modules[__name__], name)(arrays) for name in sys.argv[1:]]
try:
    both(np.arange(6.0))
except ValueError as error:
    said.append(error)
print(*said, *compiled, sep=";")
"""


def _run(folder: Path, *names: str) -> list[str]:
    module = folder / "a_module_with_kernels.py"
    module.write_text(_MODULE)
    environment = os.environ | {"NEARCAST_KERNELS": str(folder / "kernels")}
    ran = subprocess.run(
        [sys.executable, module, *names], env=environment, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip().split(";")


_ERROR = "6 values, at most 5 are expected"


def test_a_stored_kernel_contains_all_that_it_calls(tmp_path: Path) -> None:
    """Also what calls itself or others, makes arrays, and fails with words of its own."""
    both, only = "__main__.both", "__main__.steps_only"
    assert _run(tmp_path, "both") == ["14.0", _ERROR, both]
    assert len(list(tmp_path.rglob("*.kernel"))) == 1
    assert _run(tmp_path, "steps_only", "both") == ["2", "14.0", _ERROR, only]
    assert _run(tmp_path, "steps_only", "both") == ["2", "14.0", _ERROR]


@inner
def _inside(value: float) -> float:
    return 3.0 * value


@inner_counting
def _made(value: float) -> Any:
    return np.full(3, _inside(value))


@kernel
def _outside(value: float) -> float:
    return float(_made(value).sum())


@lean_kernel
def _calling_a_kernel(value: float) -> float:
    return _outside(value) + _inside(value)


def test_a_function_that_only_kernels_call_has_no_machine_code() -> None:
    """Its callers have it, and give what plain Python gives."""
    assert _calling_a_kernel(2.0) == 24.0
    for each in cast("Any", (_inside, _made, _outside, _calling_a_kernel)):
        each.recompile() if each.overloads else each.compile(("float64",))
    for each, runs in ((_inside, False), (_made, False), (_outside, True)):
        made = next(iter(cast("Any", each).overloads.values()))
        assert bool(made.library._compiled_object) is runs


class _Span(NamedTuple):
    first: int
    last: float


class _Pair(NamedTuple):
    numbers: Any
    limits: Any


@lean_kernel
def _walk(pair: _Pair, start: int) -> int:
    """Sets some variables once and some in several places, and leaves a loop in two ways."""
    limit, total = pair.limits[0], 0
    for at in range(start, len(pair.numbers)):
        number = pair.numbers[at]
        if number < 0:
            least = number
            break
        if number > limit:
            number = limit
            pair.limits[1] += 1
        total += number
    else:
        least = limit
    return int(total + 1000 * least)


@lean_kernel
def _wait(pair: _Pair) -> int:
    """Uses in one turn what the turn before has set."""
    before = found = 0
    while found < len(pair.numbers):
        now = pair.numbers[found]
        if found > 0 and now < before:
            return found
        before = now
        found += 1
    return -1


@kernel
def _squares(count: int) -> int:
    return sum([each * each for each in range(count)])


@given(st.lists(st.integers(-3, 12), max_size=12), st.integers(0, 5), st.integers(-2, 9))
def test_kernels_give_what_plain_python_gives(numbers: list[int], start: int, limit: int) -> None:
    """Wherever their variables are set, and with the functions that Python makes of a list."""
    pairs = [_Pair(np.array(numbers, np.int64), np.array([limit, 0])) for _ in range(2)]
    for each, args in ((_walk, (start,)), (_wait, ())):
        made = cast("Any", each)
        assert made(pairs[0], *args) == made.py_func(pairs[1], *args)
    assert pairs[0].limits.tolist() == pairs[1].limits.tolist()
    assert _squares(4) == 14


def test_variables_that_are_set_once_are_values() -> None:
    """And those are not that are set in several places, or later than they are used."""
    analysed = cast("Any", compiler).run_frontend(cast("Any", _walk).py_func)
    once = _compiler_lowering._set_once(analysed.blocks)
    assert {"pair", "start", "limit", "at"} <= once
    assert not {"total", "number", "least"} & once


@inner
def _both_first(pair: _Pair) -> int:
    return int(pair.numbers[0]) * 10 + int(pair.limits[0])


@lean_kernel
def _swap(pair: _Pair, times: int) -> int:
    """Passes on the tuple that it was given, and others that it makes."""
    kept, said = pair, 0
    for _ in range(times):
        said = said * 100 + _both_first(pair)
        pair = _Pair(pair.limits, pair.numbers)
        said = said * 100 + _both_first(kept)
    return said


@kernel
def _swap_counting(pair: _Pair, times: int) -> int:
    return _swap(_Pair(pair.limits, pair.numbers), times) + _both_first(pair)


def test_tuples_of_arrays_are_passed_as_they_are() -> None:
    """Whether a function was given them or has made them."""
    pair = _Pair(np.array([1, 5]), np.array([2, 7]))
    assert _swap(pair, 3) == 12_12_21_12_12_12
    assert _swap_counting(pair, 2) == 21_21_12_21 + 12
    models, typeof = _compiler_lowering.models(), cast("Any", numba).typeof
    assert isinstance(models.lookup(typeof(pair)).get_argument_type(), llvm.PointerType)
    assert isinstance(models.lookup(typeof(_Span(1, 2.0))).get_argument_type(), tuple)


def test_functions_that_numba_compiles_itself_are_left_alone() -> None:
    """They pass the same tuples field by field."""
    first = cast("Any", numba).njit(cast("Any", _both_first).py_func)
    last = cast("Any", numba).njit(lambda pair: first(pair) + pair.limits[-1])
    pair = _Pair(np.array([1, 5]), np.array([2, 7]))
    assert (_swap(pair, 1), last(pair)) == (12_12, 19)


def test_what_is_registered_late_is_found() -> None:
    """A kernel can call a function that became known after others were compiled."""

    def tripled(value: int) -> int:
        return 3 * value

    assert cast("Any", kernel(lambda value: value + 1))(1) == 2
    callable_in_kernels(tripled)
    assert cast("Any", kernel(lambda value: tripled(value)))(2) == 6


def _fail_within(before: Any) -> None:
    with _compiler_shortcuts.shortcuts():
        assert BaseFunction.get_call_type is not before
    assert BaseFunction.get_call_type is not before
    raise ValueError("on the way")


def test_numba_is_as_it_was_when_nothing_is_being_compiled() -> None:
    """What is remembered about types serves our kernels alone, whatever they come to."""
    before = BaseFunction.get_call_type
    with pytest.raises(ValueError, match="on the way"), _compiler_shortcuts.shortcuts():
        _fail_within(before)
    assert BaseFunction.get_call_type is before


def test_types_are_remembered_apart_for_other_arguments_and_functions() -> None:
    """And found once only for the same ones."""
    asked: list[tuple[Any, ...]] = []

    def find(function: Any, _context: Any, args: Any, named: Any) -> str:
        asked.append((function, args, named))
        return f"{function} {args} {named}"

    recall = _compiler_shortcuts._ResolvedCalls(find).recall
    plus, minus = "plus", "minus"
    calls = [(plus, ("a", "b"), {}), (plus, ("a", "c"), {}), (minus, ("a", "b"), {}),
             (plus, ("a", "b"), {"out": "c"})]  # fmt: skip
    for function, args, named in calls * 2:
        assert recall(function, None, args, named) == f"{function} {args} {named}"
    assert [call[0] for call in asked] == [plus, plus, minus, plus, plus]


def test_another_numba_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the parts that this leans on are missing, numba's own compiler does it all."""
    monkeypatch.setattr(_compiler, "_KNOWN", False)
    assert _compiler._made_by(_compiler._FunctionLibrary, "of no use") is _compiler.Compiler
    assert ir.Inst in [owner for owner, _, _ in _compiler_shortcuts._shortcuts()]
    monkeypatch.delattr(ir.Inst, "_rec_list_vars")
    assert ir.Inst not in [owner for owner, _, _ in _compiler_shortcuts._shortcuts()]
