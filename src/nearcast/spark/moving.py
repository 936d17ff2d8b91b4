"""The log of boolean subscriptions that move: what they asked for before, in another place.

Nothing is parsed or looked into: rows of what they were are put together with rows of where they
go, column by column.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Bools
from nearcast.spark.operations import LOG, OTHER, completed

_KEPT = ("id", "query", "ops", "meta", "until", "seq", "owner")
_PLACED = ("kind", "box", "circle")
_REGION = r'(?s),"region":.*$'
"""In a text that `asks_of` wrote: a query cannot look like it, as its quotes have a backslash."""


def moved_log(known: pa.Table, places: pa.Table) -> list[pa.Table]:
    """The log of subscriptions that move.

    `known` is what they were, with the owner and the times of what they become; `places`, in the
    same order, where they go.
    """
    known, places = known.combine_chunks(), places.combine_chunks()
    plain = known["kind"].to_numpy() != OTHER
    single = plain | _has_one_conjunct(known)
    # One conjunct in one plain box or circle is plain, whatever it was before.
    near = single & (places["kind"].to_numpy() != OTHER)
    parts = []
    for some, make in (
        (near & plain, _as_before),
        (near & ~plain, _made_plain),
        (~near & plain, _made_other),
        (~near & ~plain, _other_as_before),
    ):
        if some.all():
            return [_with_region(known, places, make)]
        if some.any():
            mask = pa.array(some)
            parts.append(_with_region(known.filter(mask), places.filter(mask), make))
    return parts


def _with_region(known: pa.Table, places: pa.Table, make: Any) -> pa.Table:
    columns = {name: known[name] for name in _KEPT}
    columns |= {name: places[name] for name in _PLACED} | make(_flat(known), _flat(places))
    asks = known["asks"]
    if asks.null_count < len(asks):
        queries = pc.replace_substring_regex(asks, _REGION, "")
        columns["asks"] = pc.binary_join_element_wise(
            queries, ',"region":', places["region"], "}", ""
        )
    return completed(columns, LOG, len(known))


def _flat(table: pa.Table) -> dict[str, Any]:
    return {name: table[name].combine_chunks() for name in table.column_names}


def _as_before(known: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    return {"terms": known["terms"]}


def _made_plain(known: dict[str, Any], _: dict[str, Any]) -> dict[str, Any]:
    return {"terms": known["required"].flatten()}


def _made_other(known: dict[str, Any], places: dict[str, Any]) -> dict[str, Any]:
    count = len(known["terms"])
    one_each = pa.array(np.arange(count + 1, dtype=np.int32))
    nothing = pa.array([[]] * count, known["terms"].type)
    return _as_other(places) | {
        "required": pa.ListArray.from_arrays(one_each, known["terms"]),
        "excluded": pa.ListArray.from_arrays(one_each, nothing),
    }


def _other_as_before(known: dict[str, Any], places: dict[str, Any]) -> dict[str, Any]:
    return _as_other(places) | {name: known[name] for name in ("required", "excluded")}


def _as_other(places: dict[str, Any]) -> dict[str, Any]:
    count = len(places["kind"])
    nowhere = pa.nulls(count, LOG.field("circle").type)
    kinds = np.full(count, OTHER, np.int8)
    return {"kind": kinds, "region": places["region"], "circle": nowhere}


def _has_one_conjunct(known: pa.Table) -> Bools:
    """Which subscriptions of the kind OTHER have one conjunct, without NOT."""
    required, excluded = (known[name].combine_chunks() for name in ("required", "excluded"))
    one: Bools = pc.fill_null(pc.list_value_length(required), 0).to_numpy() == 1
    rows = pa.array(np.flatnonzero(one))
    lengths = pc.list_value_length(excluded.take(rows).flatten()).to_numpy()
    one[rows.to_numpy()[lengths > 0]] = False
    return one
