"""Top-k subscriptions in events, in the log of a step, and as workers read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.column import Column
from nearcast.arrays.slots import Secret, hash_with
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.events import Subscribe, Subscription, Top, event_from_json, event_to_json
from nearcast.events.log import decode_json
from nearcast.events.reader import CheckedEvents
from nearcast.spark.asking import encoded
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

    def keys(self, secret: Secret) -> npt.NDArray[np.uint64]:
        """Hashes of their ids."""
        hashes = np.empty((len(self.ids), 2), np.uint64)
        hash_with(secret, *buffers(self.ids), hashes)
        return hashes[:, 0].copy()


def ranked_log(
    checked: CheckedEvents, rows: Int64s, special: Mapping[int, Subscription]
) -> dict[str, Any]:
    """Columns of the log for subscriptions that begin with some rows.

    `special` are those, by row, that have more than the columns hold.
    """
    where = pa.array(rows)
    known = {"id": checked.ids.take(where), "query": checked.queries.take(where)}
    columns = known | _ranked(np.hstack([checked.points[rows], checked.tops[rows]]))
    if special:
        found = [special.get(row) for row in rows.tolist()]
        columns["definition"] = _definitions(found)
    return columns


def shifted_log(points: Floats, known: pa.Table) -> dict[str, Any]:
    """Columns of the log for subscriptions that move to some points; `known` are the old ones."""
    tops = tops_in(known)
    tops[:, :2] = points
    return {"id": known["id"], "query": known["query"]} | _ranked(tops)


def subscriptions_log(some: Sequence[Subscription]) -> dict[str, Any]:
    """Columns of the log for subscriptions, with the definitions of those that are not plain."""
    tops = [(*_point(one), _top(one).k, _top(one).alpha) for one in some]
    columns = _ranked(np.array(tops, np.float64).reshape(-1, _TOP))
    columns["id"] = pa.array([one.id for one in some], pa.string())
    columns["query"] = pa.array([one.query for one in some], pa.string())
    columns["definition"] = _definitions([None if _is_plain(one) else one for one in some])
    return columns


def subscription_of(row: Mapping[str, Any]) -> Subscription:
    """A top-k subscription from a row of a log."""
    if row["definition"] is not None:
        event = event_from_json(decode_json(row["definition"].encode(), "definition"))
        assert isinstance(event, Subscribe)  # noqa: S101 - as it was written
        return event.subscription
    lon, lat, k, alpha = row["top"]
    return Subscription(row["id"], row["query"], point=(lon, lat), top=Top(int(k), alpha))


def _definitions(some: Sequence[Subscription | None]) -> pa.Array:
    written = [None if one is None else encoded(event_to_json(Subscribe(one))) for one in some]
    return pa.array(written, pa.string())


def _is_plain(one: Subscription) -> bool:
    return one == Subscription(
        one.id, one.query, point=one.point, top=Top(_top(one).k, _top(one).alpha)
    )


def _top(one: Subscription) -> Top:
    assert one.top is not None  # noqa: S101 - by kind
    return one.top


def _point(one: Subscription) -> tuple[float, float]:
    assert one.point is not None  # noqa: S101 - by kind
    return one.point


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
