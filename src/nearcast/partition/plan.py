"""A plan: which worker answers for which part of space and text.

The form is the gridt of PS2Stream (section IV-C): a grid whose cells belong to a worker each, or
are split by text. Where the paper keeps a map H1 in every cell, cells that are split alike share a
`TextMap`. The maps H2, which say what is wanted where, change with every subscription and are kept
apart (`wanted`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.slots import Secret
from nearcast.arrays.types import Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition._plan_file import PLAN, Arrays, Facts, SavedPlan
from nearcast.partition.grid import Grid, checked
from nearcast.partition.tables import Terms, count_table, no_counts, no_terms
from nearcast.partition.text_map import TextMap as TextMap  # users of a plan need it
from nearcast.partition.text_map import (
    as_map,
    check_letters,
    check_map,
    check_order,
    map_arrays,
    packed,
    respelled,
    unpacked,
)

FORMAT_VERSION = 2
"""The version of the file that `Plan.save` writes."""

Kind = Literal["grid", "hash", "shared"]
KINDS: tuple[Kind, ...] = ("grid", "hash", "shared")
BLOCK = 4
"""The side of a block: cells that are looked at together."""

MIXED = -(2**31)
"""The code of a block whose cells have different codes."""

_MOST_WORKERS = 1 << 15


class PlanArrays(NamedTuple):
    """A plan as kernels read it."""

    kind: int
    workers: int
    grid: Grid
    cells: Int32s
    blocks: Int32s
    block_columns: int
    map_starts: Int64s
    map_masks: Int64s
    map_slots: Terms
    other_starts: Int64s
    others: Int32s
    order_terms: Terms
    order_counts: Int64s


@dataclass(frozen=True, eq=False)
class Plan(SavedPlan):
    """A routing table, made by a partitioner and never changed; a change is a new plan.

    - `kind`: by what rows are spread. "grid": by place and text, as the cells say. "hash": by
      their owners, and every worker sees every message. "shared": not at all; every worker holds
      everything, and messages are spread.
    - `cell_worker`: for each cell the worker it belongs to, or -1 - k where `maps[k]` splits it.
    - `order_terms`, `order_counts`: frequent terms, sorted, and in how many sampled messages each
      occurs. The key of a conjunct (`keys`) follows from them.
    - `letters`: of a plan that was made without a pipeline, so that its terms have the plain hash:
      all terms in it. Plans of a pipeline have none; their hashes are made with its secret.
    - `number`: the version of the routing table, which grows with every change.
    - `about`: anything else worth keeping, as JSON.
    """

    mark = PLAN
    version = FORMAT_VERSION

    scheme: str
    workers: int
    kind: Kind
    grid: Grid
    cell_worker: Int32s
    maps: Sequence[TextMap] = ()
    order_terms: Terms = field(default_factory=no_terms)
    order_counts: Int64s = field(default_factory=no_counts)
    number: int = 1
    about: Mapping[str, Any] = field(default_factory=dict)
    letters: Sequence[str] = ()

    def __post_init__(self) -> None:
        put = object.__setattr__  # the way to normalise a field of a frozen dataclass
        put(self, "cell_worker", np.ascontiguousarray(self.cell_worker, np.int32))
        put(self, "maps", tuple(as_map(each) for each in self.maps))
        put(self, "order_terms", np.ascontiguousarray(self.order_terms, np.uint64))
        put(self, "order_counts", np.ascontiguousarray(self.order_counts, np.int64))
        put(self, "letters", tuple(self.letters))
        _check(self)

    def _repr_png_(self) -> bytes:
        """Show what a notebook shows of it: which worker has which cell, and their loads."""
        from nearcast.partition.draw import plan_png  # which draws plans, and so imports this

        return plan_png(self)

    @property
    def terms(self) -> Terms:
        """The hashes of all terms in it, each once."""
        return np.unique(np.concatenate([self.order_terms, *(each.terms for each in self.maps)]))

    def hashed_with(self, secret: Secret) -> Plan:
        """The plan for a pipeline with a secret, if the letters of its terms are known.

        Otherwise it stays as it is. Its terms are then like any others where the secret is another
        one: updates are the same, and the load is divided as by chance.
        """
        if not self.letters:
            return self
        order_terms, order_counts = respelled(
            self.letters, secret, self.order_terms, self.order_counts
        )
        maps = [
            TextMap(*respelled(self.letters, secret, each.terms, each.workers), each.others)
            for each in self.maps
        ]
        return replace(
            self, maps=maps, order_terms=order_terms, order_counts=order_counts, letters=()
        )

    @property
    def split_cells(self) -> npt.NDArray[np.bool_]:
        """Which cells are split by text."""
        return self.cell_worker < 0

    @cached_property
    def arrays(self) -> PlanArrays:
        """The plan for kernels, with a hash table for each text map and for the frequent terms."""
        return _arrays(self)

    def described(self) -> tuple[Facts, Arrays]:
        """What is saved of it."""
        facts = {
            "scheme": self.scheme,
            "workers": self.workers,
            "kind": self.kind,
            "grid": list(self.grid),
            "number": self.number,
            "about": dict(self.about),
            "letters": list(self.letters),
        }
        return facts, {
            "cell_worker": self.cell_worker,
            **packed(self.maps),
            "order_terms": self.order_terms,
            "order_counts": self.order_counts,
        }

    @classmethod
    def restored(cls, facts: Facts, arrays: Arrays) -> Plan:
        """Make a plan from what `described` gave."""
        return cls(
            scheme=facts["scheme"],
            workers=facts["workers"],
            kind=facts["kind"],
            grid=Grid(*facts["grid"]),
            cell_worker=arrays["cell_worker"],
            maps=unpacked(arrays),
            order_terms=arrays["order_terms"],
            order_counts=arrays["order_counts"],
            number=facts["number"],
            about=facts["about"],
            letters=facts.get("letters", ()),  # there are none in version 1
        )


def _check(plan: Plan) -> None:
    """Refuse a plan by which some kernel would read outside an array."""
    if type(plan.workers) is not int or not 1 <= plan.workers <= _MOST_WORKERS:
        raise InvalidValue("workers", plan.workers, f"a whole number from 1 to {_MOST_WORKERS}")
    if plan.kind not in KINDS:
        raise InvalidValue("kind", plan.kind, f"one of {', '.join(KINDS)}")
    if not isinstance(plan.scheme, str):
        raise InvalidValue("scheme", plan.scheme, "the name of a partitioner")
    if type(plan.number) is not int or plan.number < 0:
        raise InvalidValue("number", plan.number, "a whole number from 0")
    checked(plan.grid)
    cells = plan.cell_worker
    if cells.shape != (plan.grid.cells,):
        raise InvalidValue("cell_worker", cells.shape, f"one worker for {plan.grid.cells} cells")
    if cells.min() < -len(plan.maps) or cells.max() >= plan.workers:
        expected = f"workers below {plan.workers}, or -1 - k for one of {len(plan.maps)} text maps"
        raise InvalidValue("cell_worker", [int(cells.min()), int(cells.max())], expected)
    for number, each in enumerate(plan.maps):
        check_map(each, plan.workers, f"maps[{number}]")
    check_order(plan.order_terms, plan.order_counts)
    if plan.letters:
        check_letters(plan.letters, plan.terms)


def _arrays(plan: Plan) -> PlanArrays:
    maps = map_arrays(plan.maps)
    order_terms, order_counts = count_table(plan.order_terms, plan.order_counts)
    return PlanArrays(
        kind=KINDS.index(plan.kind),
        workers=plan.workers,
        grid=plan.grid,
        cells=plan.cell_worker,
        blocks=_block_codes(plan),
        block_columns=-(-plan.grid.columns // BLOCK),
        map_starts=maps.starts,
        map_masks=maps.masks,
        map_slots=maps.slots,
        other_starts=maps.other_starts,
        others=maps.others,
        order_terms=order_terms,
        order_counts=order_counts,
    )


def _block_codes(plan: Plan) -> Int32s:
    """Give for each block the code that all its cells share, or MIXED."""
    grid = plan.grid
    codes = plan.cell_worker.reshape(grid.rows, grid.columns)
    down, across = np.arange(0, grid.rows, BLOCK), np.arange(0, grid.columns, BLOCK)
    low = np.minimum.reduceat(np.minimum.reduceat(codes, down, axis=0), across, axis=1)
    high = np.maximum.reduceat(np.maximum.reduceat(codes, down, axis=0), across, axis=1)
    return np.where(low == high, low, MIXED).astype(np.int32).ravel()
