"""The AP-Tree: an index that decides node by node whether to divide by terms or by place."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.index.ap_tree.build import (
    ADAPTIVE,
    KEYWORD_FIRST,
    SPACE_FIRST,
    TRIE,
    TreeOptions,
)
from nearcast.index.ap_tree.construct import gather, remake
from nearcast.index.ap_tree.cost import (
    MessageStatistics,
    Observed,
    hits_from,
    last_term,
    observe,
    rank_new_terms,
    term_counts,
    term_order,
)
from nearcast.index.ap_tree.maintain import delete_rows, drifted, insert_rows
from nearcast.index.ap_tree.pack import figures, packed
from nearcast.index.ap_tree.search import match_batch
from nearcast.index.ap_tree.tree import NODE, NOW, ApTreeArrays, single_leaf, trimmed, with_room
from nearcast.index.base import Batch, Pairs, collect
from nearcast.index.table import Table
from nearcast.index.verify import bitmap_for

_VERSION = 1
_STRATEGIES = {
    "adaptive": ADAPTIVE,
    "k-first": KEYWORD_FIRST,
    "s-first": SPACE_FIRST,
    "trie-quadtree": TRIE,
}
_ORDERS = ("tf", "idf", "random")
_PARTITIONS = ("hr", "dp")
_CUTS = ("printed", "again")


class ApTree:
    """Divides subscriptions by their l-th term or by a grid, whichever the cost model prefers.

    Good where terms and places separate subscriptions to a different degree from node to node.
    Not for subscriptions that move: a row that has moved is searched in all cells that it may
    have been in.

    Parameters, with the paper's letters and names:

    - `fanout` (f), `leaf_capacity` (theta_q): a node of `leaf_capacity` rows or more is divided,
      into `fanout` buckets at most;
    - `order`: the order of terms, frequent first ("tf"), rare first ("idf"), or "random";
    - `keyword_partition`: local improvement ("hr") or the dynamic programme ("dp");
    - `strategy`: "adaptive", or by terms ("k-first", KFirst) or by place ("s-first", SFirst)
      wherever that is possible, or "trie-quadtree" (Trie-Qd): one cut a term until the terms are
      used up, then quarters;
    - `cut`: what is below a cut that covers several terms. "printed" is Algorithm 4 as it is
      printed: it goes on with the next term of each row (l + 1) below every cut, so that the terms
      of one cut are told apart only in the leaf. "again" is ours: such a cut, if it has
      `leaf_capacity` rows or more, is cut again by the same term, until each cut has one;
    - `history`: messages that hit probabilities are taken from;
    - `message_terms`: without a history, how many terms a message has;
    - `rebuild`: remake subtrees that have drifted; without it the tree is AP-Tree-NR;
    - `rebuild_divergence` (theta_KL), `rebuild_population`: a node with at least this share of
      all rows is remade when the divergence of its weights exceeds this;
    - `rebuild_growth`, `dummy_share`, `max_replication`: see below.

    Departures from the paper, besides those named where they are made:

    - A row goes into the dummy cell not only if it contains the region of its node, but also if
      it covers more than `dummy_share` of the cells; and a grid that would bring the copies of
      rows, multiplied along the way from the root, above `max_replication` on average is made
      coarser or not at all. Without this, large regions are copied into nearly all cells, level
      after level, and memory has no bound.
    - A drifted node is remade only if `rebuild_growth` of its rows have come or gone since it was
      made, and drift is looked for once a change of `rebuild_population` of all rows. At 0.001
      the divergence of a small node is exceeded by chance alone, after every few insertions.
    - A node is also remade when it holds twice the rows that it was made for. Few rows make few
      buckets, and a workload that only grows leaves its divergence as it is.
    - A spatial node has no more cells than rows, and must be worth it (`WORTH`).
    - Probabilities without a history are relative to the node, as in the paper, which makes
      messages of many terms look as if they had one. `message_terms` makes them absolute.
    - Terms that come after the tree was made are last in the order until it is rebuilt, and a
      term between two cuts extends the lighter one. Terms of a message that no row has required
      since then are left out.
    - In Trie-Qd, leaves made by insertion become tries when they are full, not at once.

    From "AP-Tree: Efficiently Support Continuous Spatial-Keyword Queries Over Stream" (ICDE 2015),
    sections III and IV; conjuncts of a disjunctive normal form as in "AP-Tree: efficiently support
    location-aware Publish/Subscribe" (VLDB J.), section 3.4.
    """

    name: ClassVar[str] = "ap-tree"

    def __init__(
        self,
        table: Table,
        *,
        fanout: int = 200,
        leaf_capacity: int = 40,
        order: str = "tf",
        keyword_partition: str = "hr",
        strategy: str = "adaptive",
        cut: str = "printed",
        history: Batch | None = None,
        message_terms: float | None = None,
        rebuild: bool = True,
        rebuild_divergence: float = 0.001,
        rebuild_population: float = 0.001,
        rebuild_growth: float = 0.1,
        dummy_share: float = 0.25,
        max_replication: float = 8.0,
    ) -> None:
        _one_of("order", order, _ORDERS)
        _one_of("keyword_partition", keyword_partition, _PARTITIONS)
        _one_of("strategy", strategy, tuple(_STRATEGIES))
        _one_of("cut", cut, _CUTS)
        _at_least("fanout", fanout, 2)
        _at_least("leaf_capacity", leaf_capacity, 1)
        _at_least("max_replication", max_replication, 1)
        if not 0 < dummy_share <= 1:
            raise InvalidValue("dummy_share", dummy_share, "a share above 0 and at most 1")
        self.table = table
        self._options = {
            "fanout": fanout,
            "leaf_capacity": leaf_capacity,
            "order": order,
            "keyword_partition": keyword_partition,
            "strategy": strategy,
            "cut": cut,
            "message_terms": message_terms,
            "rebuild": rebuild,
            "rebuild_divergence": rebuild_divergence,
            "rebuild_population": rebuild_population,
            "rebuild_growth": rebuild_growth,
            "dummy_share": dummy_share,
            "max_replication": max_replication,
        }
        self._observed = None if history is None else observe(history)
        self._order = order
        self._message_terms = message_terms
        self._rebuild = rebuild
        self._drift = (rebuild_divergence, rebuild_population, rebuild_growth)
        self._plan = TreeOptions(
            fanout,
            leaf_capacity,
            keyword_partition == "dp",
            _STRATEGIES[strategy],
            dummy_share,
            max_replication,
            cut == "again",
        )
        self._scratch = threading.local()
        self._start(np.empty(0, np.int32))

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        self._start(self.table.live_rows())

    def insert(self, rows: Int32s) -> None:
        """Put rows into their leaves, and divide the leaves that are too full by then."""
        if not self._tree.slots[0, NOW]:
            self._start(np.asarray(rows, np.int32))
            return
        chosen = np.ascontiguousarray(rows, np.int32)
        self._rank_terms(chosen)
        full = self._put(chosen)
        self._remake(full)
        self._after(len(chosen))

    def delete(self, rows: Int32s) -> Int32s:
        """Take rows out of their leaves; nothing refers to them then."""
        self._take(np.ascontiguousarray(rows, np.int32), moved=False)
        self._after(len(rows))
        return rows

    def move(self, rows: Int32s) -> None:
        """Search rows in all cells on the way of their terms, and put them into their new ones."""
        chosen = np.ascontiguousarray(rows, np.int32)
        self._take(chosen, moved=True)
        self._remake(self._put(chosen))
        self._after(2 * len(chosen))

    def candidates(self, batch: Batch) -> Pairs:
        """Verify the rows of the leaves that each message reaches."""
        rows, tree, rank = self.table.rows, self._tree, self._rank
        terms = len(self.table.frequency)
        bitmap = getattr(self._scratch, "bitmap", None)
        if bitmap is None or len(bitmap) < (terms + 63) // 64 + 1:
            bitmap = self._scratch.bitmap = bitmap_for(terms)
        return collect(
            len(batch),
            lambda start, messages, found: match_batch(
                tree,
                rows,
                rank,
                batch.starts,
                batch.terms,
                batch.boxes,
                bitmap,
                start,
                messages,
                found,
            ),
        )

    def stats(self) -> Mapping[str, float]:
        """Figures about the index."""
        live = figures(self._tree)
        population = int(self._tree.slots[0, NOW])
        return {
            "bytes": sum(array.nbytes for array in self._tree)
            + sum(np.asarray(array).nbytes for array in self._hits)
            + self._rank.nbytes,
            "k_nodes": live.keyword,
            "s_nodes": live.spatial,
            "leaves": live.leaves,
            "height": live.height,
            "leaf_entries": live.entries,
            "replication": live.entries / max(1, population),
            "rebuilds": self.rebuilds,
        }

    def save(self, folder: Path) -> None:
        """Write the tree, the order of terms and what is known of messages."""
        arrays = {f"tree_{name}": array for name, array in trimmed(self._tree)._asdict().items()}
        arrays |= {f"hits_{name}": np.asarray(a) for name, a in self._hits._asdict().items()}
        if self._observed is not None:
            arrays |= {f"seen_{name}": a for name, a in self._observed._asdict().items()}
        save_arrays(folder, self.name, _VERSION, self._options, arrays | {"rank": self._rank})

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        options, arrays = load_arrays(folder, cls.name, _VERSION)
        index = cls(table, **options)
        plain = {name: array.view(np.ndarray) for name, array in arrays.items()}
        # Files do not say that records are aligned, and kernels would be compiled for both kinds.
        plain["tree_nodes"] = plain["tree_nodes"].view(NODE)
        index._tree = ApTreeArrays(*(plain[f"tree_{field}"] for field in ApTreeArrays._fields))
        index._hits = MessageStatistics(
            plain["hits_term"],
            bool(plain["hits_relative"].item()),
            plain["hits_lons"],
            plain["hits_lats"],
            plain["hits_space"],
            float(plain["hits_rare"].item()),
        )
        index._rank = plain["rank"]
        if "seen_share" in plain:
            index._observed = Observed(*(plain[f"seen_{field}"] for field in Observed._fields))
        index._ranks = int(index._rank.max(initial=-1)) + 1
        index._packed_size = int(index._tree.sizes.sum())
        return index

    def _start(self, rows: Int32s) -> None:
        """Make the whole tree, with a fresh order of terms."""
        counts = term_counts(self.table, rows)
        self._rank = term_order(self._order, counts)
        self._ranks = int(self._rank.max(initial=-1)) + 1
        self._hits = hits_from(
            self._observed, self._message_terms, self.table, rows, counts, self._rank
        )
        tree = single_leaf(rows, self._plan.capacity)
        tops = np.zeros(1, np.int64)
        tree = self._made(tree, tops)
        self._tree = packed(tree)
        self._packed_size = int(self._tree.sizes.sum())
        self._changes = 0
        self.rebuilds = getattr(self, "rebuilds", -1) + 1

    def _made(self, tree: ApTreeArrays, tops: Int64s) -> ApTreeArrays:
        """Give the tree with the subtrees of some nodes rebuilt."""
        return remake(tree, tops, self.table.rows, self._rank, self._hits, self._plan)

    def _rank_terms(self, chosen: Int32s) -> None:
        table = self.table.rows
        size, known = last_term(table, chosen) + 1, len(self._rank)
        if size > known:
            self._rank = np.concatenate(
                [self._rank, np.full(max(size - known, known), -1, np.int32)]
            )
        self._ranks = rank_new_terms(table, chosen, self._rank, self._ranks)

    def _put(self, chosen: Int32s) -> Int64s:
        full = []
        start = 0
        while True:
            start, overfull, nodes, entries = insert_rows(
                self._tree, self.table.rows, self._rank, chosen, start, self._plan.share,
                self._plan.capacity, self._rebuild,
            )  # fmt: skip
            full.append(overfull)
            if start == len(chosen):
                return np.concatenate(full)
            self._tree = with_room(self._tree, nodes, nodes, entries)

    def _take(self, chosen: Int32s, *, moved: bool) -> None:
        few = 1 if self._plan.strategy == TRIE else self._plan.capacity
        thin = delete_rows(
            self._tree, self.table.rows, self._rank, chosen, self._plan.share, few, moved
        )
        self._remake(thin)

    def _remake(self, tops: Int64s) -> None:
        """Rebuild subtrees; with the root's, the order of terms as well."""
        if not len(tops):
            return
        if (tops == 0).any():
            self._start(np.unique(gather(self._tree, 0)))
            return
        self._tree = self._made(self._tree, tops)

    def _after(self, changes: int) -> None:
        """Look for drift once in a while, and pack what has become loose."""
        self._changes += changes
        population = int(self._tree.slots[0, NOW])
        divergence, share, growth = self._drift
        if self._rebuild and self._changes > share * population:
            self._changes = 0
            tops = drifted(self._tree, share * population, divergence, growth)
            self.rebuilds += len(tops)
            self._remake(tops)
        if int(self._tree.sizes.sum()) > 2 * self._packed_size + (1 << 16):
            self._pack()

    def _pack(self) -> None:
        """Give all nodes other numbers, without gaps."""
        self._tree = packed(self._tree)
        self._packed_size = int(self._tree.sizes.sum())


def _one_of(field: str, given: str, expected: tuple[str, ...]) -> None:
    if given not in expected:
        raise InvalidValue(field, given, f"one of {', '.join(expected)}")


def _at_least(field: str, given: float, least: int) -> None:
    if given < least:
        raise InvalidValue(field, given, f"at least {least}")
