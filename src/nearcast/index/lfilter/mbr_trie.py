"""MBRTrie: the terms of subscriptions as paths of a trie, with boxes at its nodes."""

from __future__ import annotations

from typing import ClassVar

from nearcast.index.lfilter.base import FilterIndex
from nearcast.index.lfilter.search import ALONE
from nearcast.index.table import Table


class MbrTrie(FilterIndex):
    """Follows the terms of a message through a trie, past nodes whose boxes it does not meet.

    Good for messages of few terms, and for range messages of any size. Not for long messages at
    points where many subscriptions share terms: boxes near the root cover the whole space.

    - `probe`: how the children are found that a message has terms for. "token-set"
      (ProbeTokenSet) looks for each child in the message, "trie" (ProbeTrie) for each term among
      the children, "cost" does at each node what is estimated to be cheaper.
    - `order`: rare terms first ("idf", as in the paper's experiments) or frequent ones ("tf").

    From "A Cost-based Method for Location-Aware Publish/Subscribe Services" (CIKM'15), section 3.
    Departures:

    - The leaf below the last term of a path is kept in the node of that term.
    - Costs have log(n + 1) for log(n): else a search among one child would be free.
    - A search goes on from where the one before it ended, as both sides are in order.
    - Terms are looked for before boxes are compared, which gives the same candidates sooner.
    - Excluded terms, circles and polygons, which the paper has not, are verified.
    - When the ids reserved at some place are used up, everything is numbered again.
    """

    name: ClassVar[str] = "mbr-trie"

    def __init__(self, table: Table, *, probe: str = "cost", order: str = "idf") -> None:
        super().__init__(table, {"probe": probe, "order": order}, ALONE, None)
