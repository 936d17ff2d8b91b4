"""LFilter: an MBRTrie and a PT-Quadtree, and for each message the cheaper way to use them."""

from __future__ import annotations

from typing import ClassVar

from nearcast.index.lfilter.base import FilterIndex, one_of
from nearcast.index.lfilter.pt_quadtree import REPLICATION, TAU_AREA, TAU_NUM, division_of
from nearcast.index.lfilter.search import ALONE, BOTH, QUADTREE
from nearcast.index.table import Table

_FILTERS = {"cost": BOTH, "trie": ALONE, "quadtree": QUADTREE}


class LFilter(FilterIndex):
    """Filters by trie or by quadtree, and prunes the quadtree's lists by the trie."""

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
        division = division_of(tau_num, tau_area, max_replication, mx_cif, push_down)
        super().__init__(table, options, _FILTERS[one_of("filter", filter, tuple(_FILTERS))], division)
