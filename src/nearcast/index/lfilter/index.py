"""LFilter: an MBRTrie and a PT-Quadtree, and for each message the cheaper way to use them."""

from __future__ import annotations

from time import thread_time_ns
from typing import ClassVar

from nearcast.arrays.types import Int32s
from nearcast.index.base import Batch
from nearcast.index.lfilter.base import FilterIndex, one_of
from nearcast.index.lfilter.calibrate import MatchMethod, calibrate
from nearcast.index.lfilter.pt_quadtree import REPLICATION, TAU_AREA, TAU_NUM, division_of
from nearcast.index.lfilter.search import ALONE, FORMULAS, PRICES, QUADTREE
from nearcast.index.table import Table

_FILTERS = {"cost": PRICES, "formulas": FORMULAS, "trie": ALONE, "quadtree": QUADTREE}
_WORTH_MEASURING = 4096  # rows


class LFilter(FilterIndex):
    """Filters by trie or by quadtree, and prunes the quadtree's lists by the trie.

    A message goes to the trie alone, or to the quadtree, whose lists the trie then cuts to the
    ranges of ids that the message's terms leave (HybridPrune). At each node of the trie either that
    goes on, or what is left of the lists is verified, whichever is estimated to be cheaper.

    Good for messages of every kind at once, at the price of both trees' memory. Where all are at
    points or all are large, nothing is lost but memory.

    - `filter`: which tree filters; "cost" takes the cheaper one by measured prices, "formulas" by
      equations 1 and 3 of the paper as they are, "trie" and "quadtree" always the same one.
    - `probe`, `order`: as of `mbr-trie`; the others as of `pt-quadtree`.

    From "A Cost-based Method for Location-Aware Publish/Subscribe Services" (CIKM'15), section 5.
    Departures, besides those of the two trees:

    - Equations 1 and 3 count the steps of the filters, and take all terms as equally frequent.
      They are replaced by prices: sample messages of three lengths are matched both ways when the
      index is built, at points and over boxes (`calibrate`). Between lengths the prices are
      interpolated; that of the quadtree grows with the number of leaves, estimated as in the
      paper. An index of fewer than 4,096 rows goes by the formulas.
    - The cost of pruning lists counts the children of a node, not all nodes of the next level.
    - Costs of a step, and of verifying a row with and without its text, are measured as well.
    """

    name: ClassVar[str] = "lfilter"

    def __init__(
        self,
        table: Table,
        *,
        filter: str = "cost",
        probe: str = "cost",
        order: str = "idf",
        tau_num: int = TAU_NUM,
        tau_area: float = TAU_AREA,
        max_replication: float = REPLICATION,
        mx_cif: bool = False,
        push_down: float = 0.0,
    ) -> None:
        options = {
            "filter": filter,
            "probe": probe,
            "order": order,
            "tau_num": tau_num,
            "tau_area": tau_area,
            "max_replication": max_replication,
            "mx_cif": mx_cif,
            "push_down": push_down,
        }
        chosen = _FILTERS[one_of("filter", filter, tuple(_FILTERS))]
        division = division_of(tau_num, tau_area, max_replication, mx_cif, push_down)
        super().__init__(table, options, FORMULAS if chosen == PRICES else chosen, division)
        self._wants_prices = chosen == PRICES

    def _calibrate(self, chosen: Int32s) -> None:
        if len(chosen) < _WORTH_MEASURING:
            return
        plan = self._plan

        def timed(batch: Batch, way: MatchMethod) -> tuple[float, int]:
            filters = QUADTREE if way.by_quadtree else ALONE
            self._plan = plan._replace(filters=filters, costs=way.costs)
            self.candidates(batch)
            started = thread_time_ns()
            verified = self.candidates(batch).candidates
            return float(thread_time_ns() - started), verified

        children = int(self._trie.nodes[0]["count"])
        rows, shape = self.table.rows, plan.shape
        self._costs, self._prices = calibrate(rows, chosen, shape, children, timed)
        if self._wants_prices:
            self._filters = PRICES
        self._plan = self._fresh_plan()
