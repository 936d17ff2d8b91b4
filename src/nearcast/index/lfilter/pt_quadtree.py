"""PT-Quadtree: place first, with the terms that decide whether to look further."""

from __future__ import annotations

from typing import ClassVar

from nearcast.errors import InvalidValue
from nearcast.index.lfilter.base import FilterIndex
from nearcast.index.lfilter.quadtree_build import Division
from nearcast.index.lfilter.search import QUADTREE
from nearcast.index.table import Table

TAU_NUM, TAU_AREA, REPLICATION = 64, 1e-6, 16.0
"""The defaults of `tau_num`, `tau_area` and `max_replication`.

The paper gives no value for either threshold. `tau_area` was measured at 100,000 subscriptions of
`tweets`: with 0.001 messages looked at 2,412, 2,501 and 2,984 rows of regions of 0.000001 %,
0.0001 % and 0.001 to 0.01 % of the space, with 1e-6 at 38, 67 and 840, for 1.2, 1.4 and 2.3 times
the memory. Larger regions are bounded by `max_replication` with either.
"""


def division_of(
    tau_num: int, tau_area: float, max_replication: float, mx_cif: bool, push_down: float
) -> Division:
    """Check when nodes are to be divided."""
    if tau_num < 1:
        raise InvalidValue("tau_num", tau_num, "at least 1")
    if not 0 < tau_area <= 1:
        raise InvalidValue("tau_area", tau_area, "a share of the whole area, above 0, at most 1")
    if max_replication < 1:
        raise InvalidValue("max_replication", max_replication, "at least 1")
    if push_down < 0 or (push_down and not mx_cif):
        raise InvalidValue("push_down", push_down, "0 or more, and 0 without mx_cif=true")
    return Division(tau_num, tau_area, max_replication, mx_cif, push_down)


class PtQuadtree(FilterIndex):
    """Looks into the leaves of a quadtree that a message meets and shares a pivotal term with.

    Good for point messages where few regions overlap. Not for range messages over many leaves,
    each row of which has to be verified.

    - `tau_num`, `tau_area`: a leaf of fewer rows, or of a smaller share of the whole area, is not
      divided;
    - `max_replication`: nor is one if the lists of all leaves then had more entries than that many
      times the rows;
    - `mx_cif`: keep each row once, at the smallest node that contains its box, leaf or not;
    - `push_down`: then let this many more entries, as a share of the rows, be spent to move rows of
      inner nodes into leaves.

    From "A Cost-based Method for Location-Aware Publish/Subscribe Services" (CIKM'15), section 4.
    Departures:

    - `max_replication`: regions much larger than `tau_area` would otherwise be copied into
      hundreds of leaves each.
    - An empty child does not keep a term from being in the cover set of its parent.
    - Terms of rows are verified against a bitmap of the message's, as in all indexes here.
    - A node is covered by its parent's cover set, so what that has is taken out of the sets of the
      node, but not out of those further below.
    """

    name: ClassVar[str] = "pt-quadtree"

    def __init__(
        self,
        table: Table,
        *,
        tau_num: int = TAU_NUM,
        tau_area: float = TAU_AREA,
        max_replication: float = REPLICATION,
        mx_cif: bool = False,
        push_down: float = 0.0,
    ) -> None:
        options = {
            "tau_num": tau_num,
            "tau_area": tau_area,
            "max_replication": max_replication,
            "mx_cif": mx_cif,
            "push_down": push_down,
        }
        division = division_of(tau_num, tau_area, max_replication, mx_cif, push_down)
        super().__init__(table, options, QUADTREE, division)
