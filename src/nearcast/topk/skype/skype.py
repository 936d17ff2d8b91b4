"""Skype as one object, with the same calls as the core.

Paper: Wang, Zhang, Zhang, Lin, Wang: "Skype: top-k spatial-keyword publish/subscribe over sliding
window", sections 5 and 6; CIQ as its section 2.2 describes it.

Departures: the message index is that of the core, circles of terms, instead of an IR-Tree, the same
for all policies; scores are recomputed where the paper trusts the sums of algorithm 1, which loses
results (`_disseminate`); prob(theta) is taken from the window at hand: the depth n that the cost
model asks for is met by the n-th best score; 1 - alpha counts as at least 1e-9; limits of alpha
groups, quantiles of all subscriptions, are set again when there are twice as many; CIQ's covering
cells are those beside the way down a quadtree of fixed depth.

C_topk, what an evaluation costs in entries of a buffer that are visited, is the entries it reads
plus a constant for all else it does. The paper's buffers of 28 to 35 messages for k = 20 (table 4)
have n = 30 to 42 by k (1 + ln(n / k)), and there equation 13 has its least value if C_topk is 8,200
to 45,000. The constant is 10,000, of those tried also the best here.
"""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.topk.core import TopK
from nearcast.topk.kernels.arrays import longer
from nearcast.topk.kernels.layout import ALPHA, CLASSES, DONE, SUB, TERM_COUNT
from nearcast.topk.skype import _events
from nearcast.topk.skype._layout import (
    AS_PRINTED,
    C_SKYBAND,
    CELL_FIELDS,
    CELLS,
    CIQ,
    CIQ_PLANES,
    COUNT,
    DEPTH,
    EARLY,
    ENTRY_END,
    GROUPS,
    IGPT,
    IGPT_PLANES,
    INNER,
    K_MAX,
    LEAF_COUNT,
    LIST_COUNT,
    METHOD,
    NODE_END,
    NODE_FREE,
    OPTIONS,
    PARAMETER,
    PLANES,
    POLICY,
    PREFIX,
    RANK_END,
    RANKS,
    REFINED,
    ROW,
    SKIPPED_CELLS,
    SKYBAND,
    TAAT,
    TERM,
    TERM_FIRST,
    UNSEEN,
    SkypeArrays,
)
from nearcast.topk.skype.quadtree import SkypeQuadtree
from nearcast.topk.window import Window

DISSEMINATIONS = {"taat": TAAT, "ciq": CIQ, "igpt": IGPT}
REEVALUATIONS = {"cskyband": C_SKYBAND, "skyband": SKYBAND, "kmax": K_MAX}
PRUNINGS = {
    "prefix": PREFIX, "refined": REFINED, "inner": INNER, "unseen": UNSEEN, "groups": GROUPS,
    "early": EARLY, "cells": CELLS,
}  # fmt: skip
"""Location-aware prefix, its max-weight refinement, inner bound, unseen terms, alpha groups, early
termination within them, and cells."""


class Skype(TopK):
    """Top-k by a dissemination and a re-evaluation of the paper; each pruning can be left out.

    `parameter` is kmax for k = 20, scaled for others; the percentage of the k-th score at which
    Skyband sets its threshold; or the constant part of C_topk for cSkyband.
    """

    takes_scales = False

    def __init__(
        self,
        window: Window,
        west: float,
        south: float,
        diagonal: float,
        *,
        dissemination: str = "igpt",
        reevaluation: str = "cskyband",
        traversal: str = "cell",
        without: tuple[str, ...] = (),
        as_printed: bool = False,
        groups: int = 10,
        capacity: int = 1000,
        parameter: int | None = None,
    ) -> None:
        super().__init__(window, west, south, diagonal)
        for field, value, known in (
            ("dissemination", dissemination, tuple(DISSEMINATIONS)),
            ("reevaluation", reevaluation, tuple(REEVALUATIONS)),
            ("traversal", traversal, ("cell", "term")),
            *(("without", pruning, tuple(PRUNINGS)) for pruning in without),
        ):
            if value not in known:
                raise InvalidValue(field, value, f"one of {', '.join(known)}")
        options = np.zeros(OPTIONS, np.int64)
        options[METHOD], options[POLICY] = (
            DISSEMINATIONS[dissemination],
            REEVALUATIONS[reevaluation],
        )
        options[TERM_FIRST], options[AS_PRINTED] = traversal == "term", as_printed
        for name, place in PRUNINGS.items():
            options[place] = name not in without
        default = {"kmax": 60, "skyband": 95, "cskyband": 10_000}[reevaluation]
        options[PARAMETER] = default if parameter is None else parameter
        options[NODE_FREE] = -1
        options[PLANES] = CIQ_PLANES if dissemination == "ciq" else IGPT_PLANES
        self._tree = SkypeQuadtree(west, south, diagonal, capacity)
        ranks, entries = np.empty(1 << 10), np.empty(1 << 10)
        self._index = SkypeArrays(
            options,
            np.full(64, -1, np.int64),
            np.empty(64, np.int32),
            np.empty(32 * ROW, np.int32),
            np.full(16, -1, np.int32),
            entries,
            entries.view(np.int32),
            np.full(CLASSES, -1, np.int32),
            np.empty(0),
            np.zeros(1, np.int32),
            np.empty(0, np.int32),
            np.empty(2 * 16, np.int32),
            np.zeros(16, np.int32),
            np.arange(1, groups) / groups,
            np.zeros(16, np.int32),
            np.empty(16),
            np.empty(16 + 4 * 16, np.int32),
            np.empty(17),
            np.empty(17),
            np.empty(16 * RANKS, np.int32),
            ranks,
            ranks.view(np.int32),
            np.full(CLASSES, -1, np.int32),
            np.empty(1 << 10, np.int32),
        )
        self._stamp = 1
        self._kept_nodes = 0  # when notes of who buffers which message were last rewritten
        self._groups, self._regroup_at = groups, 1
        self._make_cells()

    @property
    def buffered(self) -> float:
        """How many messages a subscription buffers, on average."""
        lengths = self._index.ranks[2::RANKS][: self._subs]
        return float(lengths.mean()) if self._subs else 0.0

    @property
    def skipped_cells(self) -> int:
        """How many times a message could skip a cell by lemma 6."""
        return int(self._index.options[SKIPPED_CELLS])

    @property
    def unused_terms(self) -> np.ndarray:
        """Of each term, whether no message of the window and no subscription has it."""
        unused = super().unused_terms
        lists = self._index.lists.reshape(-1, ROW)[: self._index.options[LIST_COUNT]]
        unused[lists[lists[:, COUNT] > 0, TERM]] = False
        return unused

    @property
    def index_bytes(self) -> int:
        """The memory of the subscription index."""
        options, index = self._index.options, self._index
        if options[METHOD] == TAAT:
            return super().subscription_bytes - self._subs * 2 * SUB * 8
        lists = 4 * ROW * options[LIST_COUNT] + index.keys.nbytes + index.values.nbytes
        return int(lists + 8 * options[ENTRY_END])

    @property
    def subscription_bytes(self) -> int:
        """The memory that subscriptions take: records, index, buffers and who buffers what."""
        own = self._subs * (SUB * 8 + 4 * RANKS)
        options = self._index.options
        buffers = 8 * options[RANK_END] + 8 * options[NODE_END]
        return int(own + self.index_bytes + buffers)

    def ensure_terms(self, count: int) -> None:
        """Make room for `count` terms."""
        super().ensure_terms(count)
        heads, had = self._index.term_heads, len(self._index.term_heads)
        if len(self._state.idf) > had:
            heads = longer(heads, len(self._state.idf))
            heads[had:] = -1
            self._index = self._index._replace(term_heads=heads)

    def subscribe(
        self,
        points: Floats,
        alphas: Floats,
        ks: Int32s,
        starts: Int64s,
        terms: Int32s,
        scales: Floats | None = None,
    ) -> Int32s:
        """Enter subscriptions, and give their numbers."""
        if scales is not None:
            raise InvalidValue("scales", scales, "none: the paper's bounds are of planar distances")
        subs = self._take_numbers(len(points))
        index, room = self._index, len(self._state.sub_f) // SUB
        if room > len(index.sub_cells):
            touched = len(index.touched) - len(index.sub_cells)
            stamps = longer(index.stamps, room)
            stamps[len(index.stamps) :] = 0
            self._index = index._replace(
                sub_cells=longer(index.sub_cells, room), stamps=stamps,
                neighbours=longer(index.neighbours, 2 * room),
                sums=longer(index.sums, room), touched=np.empty(room + touched, np.int32),
                ranks=longer(index.ranks, room * RANKS),
            )  # fmt: skip
        if self._index.options[METHOD] == IGPT:
            self._group(alphas)
            self._place(subs, points)
        done = 0
        while done < len(subs):
            done, code = _events.subscribe(
                self._state, self._work, self._index, subs, points, alphas, ks, starts, terms,
                done, len(subs),
            )  # fmt: skip
            self._grow(code)
        return subs

    def unsubscribe(self, subs: Int32s) -> None:
        """Forget subscriptions; others may get their numbers."""
        if self._index.options[METHOD] == IGPT:
            for sub in subs.tolist():
                self._tree.held[int(self._index.sub_cells[sub])].discard(sub)
        _events.unsubscribe(self._state, self._index, subs)
        self._free.extend(subs)

    def subscription(self, sub: int) -> tuple[tuple[float, float], float, int]:
        """The point, alpha and k of a subscription."""
        point, alpha, _ = super().subscription(sub)
        return point, alpha, int(self._index.ranks[RANKS * sub + 3])

    def probe(
        self, points: Floats, starts: Int64s, terms: Int32s, counts: Int32s
    ) -> tuple[int, int]:
        """How many subscriptions messages would affect, and a checksum of them."""
        self._ensure_longest(int(np.diff(starts).max(initial=0)))
        found = np.zeros(2, np.int64)
        stamp = self._next_stamps(len(points))
        _events.probe(
            self._state, self._work, self._index, points, starts, terms, counts, stamp, found
        )
        return int(found[0]), int(found[1])

    def set_thetas(self, thetas: Floats) -> None:
        """Give all subscriptions other thresholds, to compare methods at equal ones."""
        _events.set_thetas(self._state, self._index, thetas)

    def _publish_some(
        self, points: Floats, at: Floats, starts: Int64s, terms: Int32s, counts: Int32s, done: int
    ) -> tuple[int, int]:
        stamp = self._next_stamps(len(points))
        return _events.publish(
            self._state, self._work, self._index, points, at, starts, terms, counts, done,
            len(points), stamp,
        )  # fmt: skip

    def _advance_some(self, now: float) -> int:
        return _events.advance(self._state, self._work, self._index, now)

    def _read_some(self, subs: Int32s, done: int) -> int:
        return _events.read_members(self._state, self._work, self._index, subs, done)

    def _count_from(self, shift: int) -> None:
        _events.rebase(self._state, self._index, shift)

    def _take_out_some(self, numbers: Int32s, done: int) -> tuple[int, int]:
        return _events.take_out(self._state, self._work, self._index, numbers, done)

    def _renumber(self, renumbered: Int32s) -> None:
        _events.close_holes(self._state, self._index, renumbered)

    def _next_stamps(self, count: int) -> int:
        if self._stamp + count >= 1 << 31:
            self._index.stamps[:] = 0
            self._stamp = 1
        self._stamp += count
        return self._stamp - count

    def _grow(self, code: int) -> None:
        index = self._index
        if code == _events.MORE_NODES and index.options[NODE_END] > 2 * self._kept_nodes + 65536:
            # Buffers that were filled again have left notes behind.
            _events.renew_nodes(self._state, index)
            self._kept_nodes = int(index.options[NODE_END])
        elif code == _events.MORE_NODES:
            self._index = index._replace(nodes=longer(index.nodes, 2 * len(index.nodes) + 16384))
        elif code == _events.MORE_RANKS:
            ranks = longer(index.rank_f, 2 * len(index.rank_f) + 65536)
            self._index = index._replace(rank_f=ranks, rank_i=ranks.view(np.int32))
        elif code == _events.MORE_ENTRIES:
            entries = longer(index.entry_f, 2 * len(index.entry_f) + 1024)
            lists = longer(index.lists, 2 * len(index.lists))
            keys = np.full(2 * len(index.keys), -1, np.int64)
            values = np.empty(2 * len(index.keys), np.int32)
            self._index = index._replace(
                entry_f=entries, entry_i=entries.view(np.int32), lists=lists, keys=keys,
                values=values,
            )  # fmt: skip
            _events.rehash(index, self._index)
        elif code != DONE:
            super()._grow(code)

    def _ensure_longest(self, length: int) -> None:
        super()._ensure_longest(length)
        if length + 1 > len(self._index.largest):
            self._index = self._index._replace(
                weight_sums=np.empty(2 * length), largest=np.empty(2 * length),
                touched=np.empty(len(self._index.sub_cells) + 8 * length, np.int32),
            )  # fmt: skip

    def _group(self, alphas: Floats) -> None:
        """Let alpha groups have equally many subscriptions, whenever there are twice as many.

        Limits are quantiles of alpha, which has the order of alpha*. Subscriptions that come are
        not in the index yet.
        """
        count = self._subs - self._free.size
        if count < self._regroup_at:
            return
        self._regroup_at = 2 * count
        counts = self._state.sub_i.reshape(-1, 2 * SUB)[: self._subs, TERM_COUNT]
        live = np.flatnonzero(counts).astype(np.int32)
        known = self._state.sub_f.reshape(-1, SUB)[live, ALPHA]
        parts = np.arange(1, self._groups) / self._groups
        edges = np.quantile(np.concatenate((known, alphas)), parts) if len(parts) else parts
        _events.regroup(self._state, self._index, live, edges)

    def _place(self, subs: Int32s, points: Floats) -> None:
        """Give new subscriptions a cell each; leaves that would hold too many are split first."""
        tree, cells_of = self._tree, self._index.sub_cells
        places = self._state.sub_f.reshape(-1, SUB)
        places[subs, :2] = points
        leaves = tree.leaves(points)
        cells_of[subs] = leaves
        new = set(subs.tolist())
        for sub, leaf in zip(subs.tolist(), leaves.tolist(), strict=True):
            tree.held[leaf].add(sub)
        todo = set(leaves.tolist())
        while todo:
            leaf = todo.pop()
            if not tree.is_full(leaf):
                continue
            held = np.array(list(tree.held[leaf]), np.int32)
            tree.split(leaf)
            tree.held[leaf] = set()
            self._make_cells()
            cells = tree.leaves(places[held, :2])
            for sub, cell in zip(held.tolist(), cells.tolist(), strict=True):
                tree.held[cell].add(sub)
            known = np.array([sub not in new for sub in held.tolist()], np.bool_)
            cells_of[held[~known]] = cells[~known]
            self._move(held[known], cells[known])
            todo |= set(cells.tolist())

    def _move(self, subs: Int32s, cells: Int32s) -> None:
        done = 0
        while done < len(subs):
            done += _events.move_cells(self._state, self._index, subs[done:], cells[done:])
            if done < len(subs):
                self._grow(_events.MORE_ENTRIES)

    def _make_cells(self) -> None:
        """Give the index its cells: leaves of the tree, or all of a tree of fixed depth."""
        index = self._index
        if index.options[METHOD] == CIQ:
            west, south, size = self._state.measures[:3].tolist()
            rows = []
            for level in range(DEPTH + 1):
                step = size / 2**level
                rows += [
                    (west + x * step, south + y * step, west + (x + 1) * step,
                     south + (y + 1) * step, 0.0)
                    for y in range(2**level) for x in range(2**level)
                ]  # fmt: skip
            cells = np.array(rows)
        else:
            cells = np.full((len(self._tree), CELL_FIELDS), 1e300)
            cells[:, :4] = self._tree.boxes
            had = len(index.cells) // CELL_FIELDS
            cells[:had, 4] = index.cells[4::CELL_FIELDS]
            heads = np.full(len(cells), -1, np.int32)
            heads[:had] = index.cell_heads
            leaves = np.flatnonzero(self._tree.are_leaves).astype(np.int32)
            index.options[LEAF_COUNT] = len(leaves)
            index = index._replace(cell_heads=heads, leaves=leaves)
        self._index = index._replace(cells=cells.ravel())
