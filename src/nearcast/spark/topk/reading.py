"""Top-k subscriptions in events, in the log of a step, and as workers read them."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.column import Column
from nearcast.arrays.slots import hash_strings
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.events.reader import CheckedEvents
from nearcast.spark.operations import RANKED
from nearcast.text.columns import buffers

_TOP = 4  # longitude, latitude, k, alpha
NO_OWNER = -1

T = TypeVar("T")


class Pickable(Protocol):
    """The terms of texts, of which some can be picked."""

    def of(self, which: Int64s | Int32s) -> Self:
        """Those of some of the texts."""
        ...


P = TypeVar("P", bound=Pickable)


class RankedSubscriptions(NamedTuple, Generic[T]):
    """Versions of top-k subscriptions; all versions of one have the same id, each its own owner.

    `terms` are those of their queries, in the form that a ranking scheme needs.
    """

    owners: Int32s
    ids: pa.Array
    points: Floats
    alphas: Floats
    ks: Int32s
    terms: T

    @classmethod
    def read(cls, begun: pa.Table, terms: T) -> RankedSubscriptions[T]:
        """Read them from a log, with the terms of their queries."""
        tops, ids = tops_in(begun), begun["id"].combine_chunks()
        return RankedSubscriptions(
            begun["owner"].to_numpy(),
            ids,
            tops[:, :2].copy(),
            tops[:, 3].copy(),
            tops[:, 2].astype(np.int32),
            terms,
        )

    def of(self: RankedSubscriptions[P], which: Int64s | Int32s) -> RankedSubscriptions[P]:
        """Some of them."""
        return RankedSubscriptions(
            self.owners[which], self.ids.take(pa.array(which)), self.points[which],
            self.alphas[which], self.ks[which], self.terms.of(which),
        )  # fmt: skip

    @property
    def keys(self) -> npt.NDArray[np.uint64]:
        """Hashes of their ids."""
        hashes = np.empty((len(self.ids), 2), np.uint64)
        hash_strings(*buffers(self.ids), hashes)
        return hashes[:, 0].copy()


def ranked_log(checked: CheckedEvents, rows: Int64s) -> dict[str, Any]:
    """Columns of the log for subscriptions that begin with some rows."""
    where = pa.array(rows)
    known = {"id": checked.ids.take(where), "query": checked.queries.take(where)}
    return known | _ranked(np.hstack([checked.points[rows], checked.tops[rows]]))


def shifted_log(checked: CheckedEvents, rows: Int64s, known: pa.Table) -> dict[str, Any]:
    """Columns of the log for subscriptions that move with some rows; `known` are the old ones."""
    tops = tops_in(known)
    tops[:, :2] = checked.points[rows]
    return {"id": known["id"], "query": known["query"]} | _ranked(tops)


def tops_in(begun: pa.Table) -> Floats:
    """Longitude, latitude, k and alpha of top-k subscriptions, as a new array."""
    flat = begun["top"].combine_chunks().flatten().to_numpy()
    return np.array(flat, np.float64).reshape(-1, _TOP)


def _ranked(tops: Floats) -> dict[str, Any]:
    ends = np.arange(0, _TOP * (len(tops) + 1), _TOP, dtype=np.int32)
    return {
        "kind": np.full(len(tops), RANKED, np.int8),
        "top": pa.ListArray.from_arrays(pa.array(ends), pa.array(tops.reshape(-1))),
    }


def reach(column: Column, places: Int32s) -> None:
    """Lengthen a column of numbers so that it has these places; new ones have no owner."""
    more = int(places.max(initial=-1)) + 1 - column.size
    if more > 0:
        column.lengthen(more)
        column.array[-more:] = NO_OWNER
