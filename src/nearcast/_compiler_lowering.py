"""How kernels are lowered to LLVM: values stay values, tuples of arrays are passed by reference.

Numba puts a variable that several blocks name into memory, from where LLVM has to fetch each field
of each array again. Here a variable that is set once stays a value.

Numba passes a tuple of arrays field by field: one with a dozen arrays is a hundred arguments, which
every function puts together again, and takes apart for each function that it calls. That was most
of the code that LLVM got. Here such a tuple is one argument, a pointer to memory that is never
changed; a function reads the fields that it uses when it is entered.

Functions compiled in this way can be called by each other and from Python, not by functions that
numba compiles in its own way.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from llvmlite import ir as llvm
from numba.core import analysis, cgutils, datamodel, ir, lowering, types

_LOWER: Any = getattr(lowering, "Lower", object)
_IN_MEMORY: Any = getattr(lowering, "must_use_alloca", None)
_BUILDER: Any = llvm.IRBuilder
_MANAGER: Any = getattr(datamodel, "default_manager", None)
_MODELS: Any = datamodel.models
_TUPLE: Any = getattr(_MODELS, "TupleModel", object)
_UNI_TUPLE: Any = getattr(_MODELS, "UniTupleModel", object)
_analysis: Any = analysis
_cgutils: Any = cgutils
_types: Any = types

KNOWN = (
    hasattr(_LOWER, "_find_singly_assigned_variable")
    and hasattr(_LOWER, "setup_function")
    and _IN_MEMORY is not None
    and all(hasattr(_BUILDER, name) for name in ("extract_value", "goto_entry_block", "gep"))
    and hasattr(_MANAGER, "chain")
    and all(hasattr(each, "get_argument_type") for each in (_TUPLE, _UNI_TUPLE))
)
"""Whether numba has all that this module uses."""


class _Builder(_BUILDER):  # type: ignore[misc]  # llvmlite ships no type information
    """Reads single fields of what is passed by reference."""

    def extract_value(self, agg: Any, idx: Any, name: str = "") -> Any:
        """Take a field of a value, directly from memory if that is known."""
        path = idx if isinstance(idx, tuple | list) else [idx]
        place = getattr(agg, "place", None)
        if place is None or len(path) != 1:
            return super().extract_value(agg, idx, name)
        fields: dict[int, Any] = agg.fields
        if path[0] not in fields:
            with self.goto_entry_block():
                fields[path[0]] = _read(self, _cgutils.gep_inbounds(self, place, 0, path[0]))
        return fields[path[0]]


def _read(builder: Any, place: Any) -> Any:
    """The value in a place whose content never changes."""
    value = builder.load(place)
    if isinstance(value.type, llvm.Aggregate):
        value.place, value.fields = place, {}
    return value


class _ByReference:
    """Passes a tuple as a pointer to memory that holds it and does not change."""

    def get_argument_type(self) -> Any:
        """The type of the pointer."""
        return self.get_value_type().as_pointer()  # type: ignore[attr-defined]

    def as_argument(self, builder: Any, value: Any) -> Any:
        """The place of the value: the one it came from, or one on the stack."""
        place = getattr(value, "place", None)
        if place is None:
            place = _cgutils.alloca_once(builder, value.type)
            builder.store(value, place)
        return place

    def from_argument(self, builder: Any, value: Any) -> Any:
        """What is in a place."""
        return _read(builder, value)


class _Tuple(_ByReference, _TUPLE):  # type: ignore[misc]
    pass


class _UniTuple(_ByReference, _UNI_TUPLE):  # type: ignore[misc]
    pass


def _model_of(by_reference: Any, by_field: Any) -> Any:
    def model(manager: Any, kind: Any) -> Any:
        arrays = any(isinstance(each, _types.Array) for each in kind.types)
        return (by_reference if arrays else by_field)(manager, kind)

    return model


def models() -> Any:
    """Numba's models of data, but for tuples with names that hold arrays."""
    made = type(_MANAGER)().chain(_MANAGER)  # so that what is registered later is there, too
    made.register(_types.NamedTuple, _model_of(_Tuple, _TUPLE))
    made.register(_types.NamedUniTuple, _model_of(_UniTuple, _UNI_TUPLE))
    return made


class Lower(_LOWER):  # type: ignore[misc]
    """Lowers a function with values where numba has places in memory."""

    def setup_function(self, fndesc: Any) -> None:
        """Begin a function."""
        super().setup_function(fndesc)
        self.builder = _Builder(self.entry_block)
        self.call_helper = self.call_conv.init_call_helper(self.builder)
        for each in self.call_conv.get_arguments(self.function):
            if _is_reference(each.type):
                each.add_attribute("captures(none)")
                each.add_attribute("noalias")

    def _find_singly_assigned_variable(self) -> None:
        """Note the variables that need no place in memory.

        Numba's own are those of a single block. Where no references are counted, deleting a
        variable needs no note, so these can be all that are set once.
        """
        super()._find_singly_assigned_variable()
        if not self.context.enable_nrt and not self.func_ir.func_id.is_generator:
            self._singly_assigned_vars |= _set_once(self.blocks)


def _is_reference(kind: Any) -> bool:
    return isinstance(kind, llvm.PointerType) and isinstance(kind.pointee, llvm.Aggregate)


def _set_once(blocks: dict[int, Any]) -> set[str]:
    """The variables with one assignment, on every way to all places that name them.

    Blocks are lowered in the order of their labels: a value has to be there before it is used.
    """
    where: dict[str, int] = {}
    times: Counter[str] = Counter()
    named: list[tuple[str, int]] = []
    for label, block in blocks.items():
        names = [each.target.name for each in block.find_insts(ir.Assign)]
        where.update(dict.fromkeys(names, label))
        times.update(names)
        named += [(each.value, label) for each in block.find_insts(ir.Del)]
    for label, used in _analysis.compute_use_defs(blocks).usemap.items():
        named += [(name, label) for name in used]
    before = _analysis.compute_cfg_from_blocks(blocks).dominators()
    early = {name for name, label in named
             if where.get(name) not in before[label] or where[name] > label}  # fmt: skip
    return {name for name in times if times[name] == 1} - early - set(_IN_MEMORY(blocks))
