"""Cells split by text, and merged again (PS2Stream, section V-A, phase I).

A cell that alone is more than a worker has too much cannot be moved: it would only make another
worker the heaviest, and come back in the next round. Some of its terms can.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.partition.adjust.recent import RecentWork
from nearcast.partition.digest import sums
from nearcast.partition.owners import owners_of
from nearcast.partition.plan import Plan
from nearcast.partition.tables import Terms

_ABOUT = 1.000001  # sums of the same numbers in another order are not quite the same


class CellContent(NamedTuple):
    """What one worker has in one cell: its terms, heaviest first, and the hits of each."""

    terms: Terms
    loads: Floats
    hit_term: Int32s  # by place in `terms`
    hit_message: Int32s

    def messages(self, chosen: Int32s) -> int:
        """How many messages ask for one of the chosen terms, which are given by their places."""
        return len(np.unique(self.hit_message[np.isin(self.hit_term, chosen)]))


class TermShare(NamedTuple):
    """Some terms of a piece; what they cost the worker that takes them, and save the giver.

    The difference is messages that both have to handle.
    """

    terms: Terms
    taken_ns: float
    saved_ns: float


def content_of(plan: Plan, recent: RecentWork, cell: int, worker: int) -> CellContent:
    """Look into a piece."""
    here = np.flatnonzero(recent.hit_cell == cell)
    keys = recent.hit_key[here]
    mine = owners_of(plan, recent.hit_cell[here], keys) == worker
    here, keys = here[mine], keys[mine]
    terms, place = np.unique(keys, return_inverse=True)
    loads = sums(place.reshape(-1), recent.hit_cost[here], len(terms))
    order = np.argsort(-loads, kind="stable")
    rank = np.empty(len(terms), np.int32)
    rank[order] = np.arange(len(terms), dtype=np.int32)
    return CellContent(
        terms[order], loads[order], rank[place.reshape(-1)], recent.hit_message[here].copy()
    )


def share_of(content: CellContent, message_ns: float, amount: float) -> TermShare | None:
    """Choose terms of about so much load, heaviest first; nothing if none is light enough."""
    chosen, taken = list[int](), 0.0
    own = content.loads + message_ns * np.bincount(content.hit_term, minlength=len(content.terms))
    for place, load in enumerate(own.tolist()):
        if taken + load <= amount * _ABOUT and len(chosen) < len(content.terms) - 1:
            chosen.append(place)
            taken += load
    if not chosen:
        return None
    some = np.array(chosen, np.int32)
    rest = np.setdiff1d(np.arange(len(content.terms), dtype=np.int32), some)
    every = len(np.unique(content.hit_message))
    load = float(content.loads[some].sum())
    return TermShare(
        content.terms[some],
        load + message_ns * content.messages(some),
        load + message_ns * (every - content.messages(rest)),
    )


def in_both(one: CellContent, other: CellContent) -> int:
    """How many messages two workers handle for the same cell: one would do, if they were merged."""
    return len(np.intersect1d(one.hit_message, other.hit_message))
