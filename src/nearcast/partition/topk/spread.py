"""A spread: which worker answers for which subscription and which of its terms.

All mechanisms have one form, of three steps. A map gives the group of a term; the tree of that
group gives the leaf of a subscription's place; the map of that leaf gives the worker of the term.
Steps that a mechanism does not need have one outcome:

    location        one group     a leaf for each worker     one worker in each
    keyword, prefix one group     one leaf                   terms have workers
    spatial-first   one group     l1 leaves                  terms have l2 workers in each
    keyword-first   l1 groups     l2 leaves in each          one worker in each

`hashing` spreads by a hash of the subscription's id: that of the first map, in buckets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition._plan_file import Arrays, Facts, SavedPlan
from nearcast.partition.tables import Terms, count_table, no_counts, no_terms
from nearcast.partition.text_map import (
    TextMap,
    as_map,
    check_map,
    check_order,
    joined,
    map_arrays,
    packed,
    unpacked,
)

FORMAT_VERSION = 2
"""The version of the bytes that `Spread.to_bytes` writes; all earlier ones are read."""

Prefix = Literal["whole", "length", "sum"]
PREFIXES: tuple[Prefix, ...] = ("whole", "length", "sum")
"""Under which terms a subscription is listed.

Under all of them, or under a prefix: the terms without which no message can reach its threshold. By
"length" what the other terms add is bounded by the length of their vector (Cauchy and Schwarz), by
"sum" with the sum of their weights, as the paper has it (equation 3); the former is never larger.
"""

_MOST_WORKERS = 1 << 15


class KdTree(NamedTuple):
    """A kd-tree over places; node 0 is its root.

    What lies at or below `line[i]` on axis `axis[i]` (0: longitude) goes on to node `low[i]`, the
    rest to `high[i]`. A leaf has axis -1, and its number among the leaves of the tree in `low`.
    """

    axis: Int32s
    line: Floats
    low: Int32s
    high: Int32s

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return int((self.axis < 0).sum())

    def leaves_of(self, points: Floats) -> Int32s:
        """Give the leaf of each place."""
        node = np.zeros(len(points), np.int64)
        while (inner := np.flatnonzero(self.axis[node] >= 0)).size:
            here = node[inner]
            below = points[inner, self.axis[here]] <= self.line[here]
            node[inner] = np.where(below, self.low[here], self.high[here])
        return self.low[node]


def single_leaf() -> KdTree:
    """A tree that does not divide."""
    minus, zero = np.full(1, -1, np.int32), np.zeros(1, np.int32)
    return KdTree(minus, np.zeros(1), zero, zero)


def only(number: int) -> TextMap:
    """A map with one outcome."""
    return TextMap(np.empty(0, np.uint64), np.empty(0, np.int32), np.array([number], np.int32))


class SpreadArrays(NamedTuple):
    """A spread as kernels read it; leaves are numbered through all trees."""

    workers: int
    by_id: bool
    tree_starts: Int64s
    leaf_starts: Int64s
    axis: Int32s
    line: Floats
    low: Int32s
    high: Int32s
    map_starts: Int64s
    map_masks: Int64s
    map_slots: Terms
    other_starts: Int64s
    others: Int32s
    order_terms: Terms
    order_counts: Int64s


@dataclass(frozen=True, eq=False)
class Spread(SavedPlan):
    """A plan for top-k subscriptions, made by a mechanism.

    - `groups`: the map of the first step; for `by_id` from hashes of ids to workers;
    - `trees`: one for each group;
    - `maps`: one for each leaf, of the trees one after the other;
    - `prefix`: under which of its terms a subscription is listed;
    - `steepest`: messages up to this steepness go to the workers of their terms, others to all;
    - `order_terms`, `order_counts`: frequent terms, sorted, and in how many sampled messages each
      occurs: of terms that weigh the same the rarer comes first;
    - `levels`: how many partitions each level has;
    - `about`: anything else worth keeping, as JSON.
    """

    mark = b"NEARTOPK"
    version = FORMAT_VERSION

    mechanism: str
    workers: int
    groups: TextMap
    trees: Sequence[KdTree] = field(default_factory=lambda: (single_leaf(),))
    maps: Sequence[TextMap] = field(default_factory=lambda: (only(0),))
    by_id: bool = False
    prefix: Prefix = "whole"
    steepest: float = inf
    order_terms: Terms = field(default_factory=no_terms)
    order_counts: Int64s = field(default_factory=no_counts)
    levels: tuple[int, int] = (1, 1)
    number: int = 1
    about: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        put = object.__setattr__  # the way to normalise a field of a frozen dataclass
        put(self, "groups", as_map(self.groups))
        put(self, "trees", tuple(_as_tree(each) for each in self.trees))
        put(self, "maps", tuple(as_map(each) for each in self.maps))
        put(self, "order_terms", np.ascontiguousarray(self.order_terms, np.uint64))
        put(self, "order_counts", np.ascontiguousarray(self.order_counts, np.int64))
        put(self, "levels", tuple(self.levels))
        _check(self)

    @cached_property
    def by_text(self) -> bool:
        """Whether it matters which terms a message has: if not, every worker sees every message."""
        split = (len(each.terms) > 0 or len(each.others) > 1 for each in (self.groups, *self.maps))
        return not self.by_id and any(split)

    def is_steep(self, steepness: Floats) -> npt.NDArray[np.bool_]:
        """Say which messages go to all workers, by their steepness."""
        return np.asarray(steepness > self.steepest)

    @cached_property
    def arrays(self) -> SpreadArrays:
        """The spread for kernels, with a hash table for each map and for the frequent terms."""
        return _arrays(self)

    def described(self) -> tuple[Facts, Arrays]:
        """What is saved of it."""
        facts = {
            "mechanism": self.mechanism,
            "workers": self.workers,
            "by_id": self.by_id,
            "prefix": self.prefix,
            "steepest": None if self.steepest == inf else self.steepest,
            "levels": list(self.levels),
            "number": self.number,
            "about": dict(self.about),
        }
        return facts, {
            **_tree_arrays(self.trees),
            **packed((self.groups, *self.maps)),
            "order_terms": self.order_terms,
            "order_counts": self.order_counts,
        }

    @classmethod
    def restored(cls, facts: Facts, arrays: Arrays) -> Spread:
        """Make a spread from what `described` gave."""
        maps = unpacked(arrays)
        starts = arrays["tree_starts"]
        columns = [arrays[column] for column in KdTree._fields]
        first, second = facts["levels"]
        return cls(
            mechanism=facts["mechanism"],
            workers=facts["workers"],
            groups=maps[0],
            trees=[
                KdTree(*(column[starts[k] : starts[k + 1]] for column in columns))
                for k in range(len(starts) - 1)
            ],
            maps=maps[1:],
            by_id=facts["by_id"],
            prefix=facts["prefix"],
            steepest=inf if facts.get("steepest") is None else facts["steepest"],
            order_terms=arrays["order_terms"],
            order_counts=arrays["order_counts"],
            levels=(first, second),
            number=facts["number"],
            about=facts["about"],
        )


def _tree_arrays(trees: Sequence[KdTree]) -> Arrays:
    """The nodes of all trees, one after the other."""
    return {
        "tree_starts": starts_of(len(each.axis) for each in trees),
        "axis": joined([each.axis for each in trees], np.int32),
        "line": joined([each.line for each in trees], np.float64),
        "low": joined([each.low for each in trees], np.int32),
        "high": joined([each.high for each in trees], np.int32),
    }


def _as_tree(given: KdTree) -> KdTree:
    axis, line, low, high = given
    return KdTree(
        np.ascontiguousarray(axis, np.int32),
        np.ascontiguousarray(line, np.float64),
        np.ascontiguousarray(low, np.int32),
        np.ascontiguousarray(high, np.int32),
    )


def _arrays(spread: Spread) -> SpreadArrays:
    maps = map_arrays((spread.groups, *spread.maps))
    order_terms, order_counts = count_table(spread.order_terms, spread.order_counts)
    return SpreadArrays(
        workers=spread.workers,
        by_id=spread.by_id,
        leaf_starts=starts_of(each.leaves for each in spread.trees),
        **_tree_arrays(spread.trees),
        map_starts=maps.starts,
        map_masks=maps.masks,
        map_slots=maps.slots,
        other_starts=maps.other_starts,
        others=maps.others,
        order_terms=order_terms,
        order_counts=order_counts,
    )


def _check(spread: Spread) -> None:
    """Refuse a spread by which some kernel would read outside an array, or for ever."""
    workers = spread.workers
    if type(workers) is not int or not 1 <= workers <= _MOST_WORKERS:
        raise InvalidValue("workers", workers, f"a whole number from 1 to {_MOST_WORKERS}")
    if not isinstance(spread.mechanism, str):
        raise InvalidValue("mechanism", spread.mechanism, "the name of a mechanism")
    if spread.prefix not in PREFIXES:
        raise InvalidValue("prefix", spread.prefix, f"one of {', '.join(PREFIXES)}")
    if type(spread.steepest) is not float or not spread.steepest > 0:
        raise InvalidValue("steepest", spread.steepest, "a number above 0, or infinity")
    if type(spread.number) is not int or spread.number < 0:
        raise InvalidValue("number", spread.number, "a whole number from 0")
    if len(spread.levels) != 2:
        raise InvalidValue("levels", spread.levels, "how many partitions each of two levels has")
    for number, tree in enumerate(spread.trees):
        _check_tree(tree, f"trees[{number}]")
    leaves = sum(each.leaves for each in spread.trees)
    if len(spread.maps) != leaves:
        raise InvalidValue("maps", len(spread.maps), f"a map for each of {leaves} leaves")
    check_map(spread.groups, workers if spread.by_id else len(spread.trees), "groups")
    for number, each in enumerate(spread.maps):
        check_map(each, workers, f"maps[{number}]")
    check_order(spread.order_terms, spread.order_counts)


def _check_tree(tree: KdTree, name: str) -> None:
    count = len(tree.axis)
    if not count or any(len(column) != count for column in tree):
        raise InvalidValue(name, count, "at least one node, and columns of one length")
    number = np.arange(count)
    leaf = tree.axis < 0
    # Children are behind their node, so every walk ends.
    inner = (
        (tree.axis < 2)
        & (tree.low > number)
        & (tree.high > number)
        & (tree.low < count)
        & (tree.high < count)
    )
    if not (leaf | inner).all() or np.isnan(tree.line).any():
        raise InvalidValue(name, count, "nodes with two children each that are behind them")
    if sorted(tree.low[leaf].tolist()) != list(range(int(leaf.sum()))):
        raise InvalidValue(name, tree.low[leaf].tolist(), "leaves numbered from 0, each once")
