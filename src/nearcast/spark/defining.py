"""Subscriptions with operators, or in polygons, in the form of the log, as columns.

What `read_queries` does not read, and regions that are not one box, circle or polygon, are for
`definition_of`, one by one; both give the same definitions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast._jit import kernel
from nearcast.arrays.lists import picked, starts_of
from nearcast.arrays.slots import FIRST_FACTOR, FIRST_SEED, Secret, hash_bytes, mixed
from nearcast.arrays.types import Bits, Bools, Bytes, Floats, Int64s
from nearcast.geo.polygon_columns import PolygonColumn
from nearcast.spark.operations import EVERYONE, OTHER, PLAIN, ROUND, fixed_lists, hash_lists
from nearcast.spark.shaped import spread_lists
from nearcast.text.bulk import TERM, BulkQueries
from nearcast.text.columns import Hashes

_encode = msgspec.json.Encoder().encode


class SimplePlaces(NamedTuple):
    """Where some subscriptions are to be: in one box each, and in a circle or polygon there.

    `circles` are NaN for others. `polygon` is the place of a subscription's polygon, or -1.
    """

    boxes: Floats
    circles: Floats
    polygon: Int64s
    polygons: PolygonColumn

    @classmethod
    def of(
        cls, boxes: Floats, circles: Floats, polygon: Int64s, polygons: PolygonColumn
    ) -> SimplePlaces:
        """Those of rows; the boxes around polygons are found here."""
        boxes, some = boxes.copy(), np.flatnonzero(polygon >= 0)
        if len(some):
            boxes[some] = polygons.take(polygon[some]).boxes()
        return cls(boxes, circles, polygon, polygons)

    @property
    def kinds(self) -> Any:
        """What a subscription of one conjunct is, for each place."""
        kinds = np.where(np.isnan(self.circles[:, 0]), PLAIN, ROUND).astype(np.int8)
        kinds[self.polygon >= 0] = OTHER
        return kinds

    def columns(self) -> dict[str, Any]:
        """The kinds, boxes and circles as columns of the log."""
        circles = fixed_lists(self.circles)
        return {"kind": self.kinds, "box": fixed_lists(self.boxes), "circle": circles}

    def texts(self, wanted: Bools) -> pa.StringArray:
        """The wanted regions as JSON, and nulls for the others."""
        kinds = self.kinds
        plain = np.flatnonzero(wanted & (kinds == PLAIN) & ~np.isnan(self.boxes[:, 0]))
        round_ = np.flatnonzero(wanted & (kinds == ROUND))
        shaped = np.flatnonzero(wanted & (kinds == OTHER))
        circles = self.circles[round_]
        parts = [
            _joined('{"type":"Box","bbox":[', _row_texts(self.boxes[plain]), "]}"),
            _joined(
                '{"type":"Circle","center":[', _row_texts(circles[:, :2]), '],"radius":',
                _row_texts(circles[:, 2:]), "}",
            ),
            polygon_texts(self.polygons.take(self.polygon[shaped])),
        ]  # fmt: skip
        where = np.concatenate([plain, round_, shaped])
        place = np.full(len(kinds), -1, np.int64)
        place[where] = np.arange(len(where))
        return pa.concat_arrays(parts).take(pa.array(place, mask=place < 0))


def polygon_texts(polygons: PolygonColumn) -> pa.StringArray:
    """Polygons as JSON; each region is a single one."""
    texts = _joined("[", _row_texts(polygons.positions), "]")
    for starts in (polygons.starts, polygons.rings):
        lists = pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), texts)
        texts = _joined("[", pc.binary_join(lists, ","), "]")
    return _joined('{"type":"Polygon","coordinates":', texts, "}")


def _row_texts(rows: Floats) -> pa.StringArray:
    """Rows of numbers as texts, with commas."""
    columns = [pa.array(np.ascontiguousarray(column)).cast(pa.string()) for column in rows.T]
    return pc.binary_join_element_wise(*columns, ",")


def _joined(*parts: Any) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, "")


def defined(
    ids: pa.Array,
    queries: pa.Array,
    read: BulkQueries,
    places: SimplePlaces,
    secret: Secret,
) -> dict[str, Any]:
    """The definitions of subscriptions whose queries were read, as columns of the log."""
    counts = np.diff(read.conjuncts)
    hashes = _hashed(secret, read.data, read.kinds, read.spans)
    starts, required = _terms(read, read.required, hashes, True)
    lacked_starts, excluded = _terms(read, read.excluded, hashes, False)
    lacking = np.zeros(len(counts), np.bool_)
    owner = np.repeat(np.arange(len(counts)), counts)
    lacking[owner[np.diff(lacked_starts) > 0]] = True
    asking = _asking(read.starts, read.kinds, read.conjuncts, read.required, read.excluded)
    kinds = places.kinds
    one = (counts == 1) & ~lacking
    kinds[~one] = OTHER
    near = kinds != OTHER
    columns = {
        "id": ids,
        "query": queries,
        "kind": kinds,
        "box": fixed_lists(places.boxes),
        "circle": fixed_lists(np.where((kinds == ROUND)[:, None], places.circles, np.nan)),
    }
    its_starts, taken = picked(starts, np.flatnonzero(near[owner]))
    columns["terms"] = spread_lists(np.flatnonzero(near), its_starts, required[taken], len(near))
    others = np.flatnonzero(~near[owner])
    for name, some, values in (
        ("required", starts, required), ("excluded", lacked_starts, excluded),
    ):  # fmt: skip
        own, taken = picked(some, others)
        inner = hash_lists(own, values[taken])
        outer = starts_of(np.where(near, 0, counts)).astype(np.int32)
        columns[name] = pa.ListArray.from_arrays(pa.array(outer), inner, mask=pa.array(near))
    regions = places.texts(~near | asking)
    columns["region"] = pc.if_else(pa.array(near), None, regions) if near.any() else regions
    if asking.any():
        columns["asks"] = _asks(queries, regions, asking)
    return columns


def _asks(queries: pa.Array, regions: pa.StringArray, asking: Bools) -> pa.StringArray:
    """The queries and regions of those who ask for more than terms, as `asks_of` writes them."""
    some = pa.array(asking)
    texts = [_encode(query).decode() for query in queries.filter(some).to_pylist()]
    found = _joined('{"query":', pa.array(texts), ',"region":', regions.filter(some), "}")
    place = np.cumsum(asking) - 1
    return found.take(pa.array(place, mask=~asking))


@kernel
def _hashed(secret: Secret, data: Bytes, kinds: Bytes, spans: Int64s) -> Hashes:
    """The hashes of members that are terms, as texts have them."""
    hashes = np.zeros(len(kinds), np.uint64)
    for member in range(len(kinds)):
        if kinds[member] != TERM:
            continue
        begin, end = spans[member, 0], spans[member, 1]
        if len(secret) > 0:
            hashes[member], _ = hash_bytes(secret, data, begin, end, True)
            continue
        value = FIRST_SEED
        for at in range(begin, end):
            letter = data[at]
            if 65 <= letter <= 90:
                letter += np.uint8(32)
            value = (value ^ np.uint64(letter)) * FIRST_FACTOR
        hashes[member] = mixed(value)
    return hashes


def _terms(read: BulkQueries, sets: Bits, hashes: Hashes, everyone: bool) -> tuple[Int64s, Hashes]:
    """The terms of each conjunct that are in a set of members; `EVERYONE` instead of none."""
    starts = np.zeros(len(sets) + 1, np.int64)
    room = int((np.diff(read.conjuncts) * (np.diff(read.starts) + 1)).sum())
    values = np.empty(room, np.uint64)
    used = _write_terms(
        read.starts, read.kinds, read.conjuncts, sets, hashes, everyone, EVERYONE, starts, values
    )
    return starts, values[:used]


@kernel
def _write_terms(
    members: Int64s, kinds: Bytes, conjuncts: Int64s, sets: Bits, hashes: Hashes, instead: bool,
    everyone: Any, starts: Int64s, values: Hashes,
) -> int:  # fmt: skip
    used = 0
    one = np.uint64(1)
    for query in range(len(members) - 1):
        base, stop = members[query], members[query + 1]
        for conjunct in range(conjuncts[query], conjuncts[query + 1]):
            begin = used
            for member in range(base, stop):
                bit = one << np.uint64(member - base)
                if sets[conjunct] & bit != 0 and kinds[member] == TERM:
                    values[used] = hashes[member]
                    used += 1
            if used == begin and instead:
                values[used] = everyone
                used += 1
            starts[conjunct + 1] = used
    return used


@kernel
def _asking(
    members: Int64s, kinds: Bytes, conjuncts: Int64s, required: Bits, excluded: Bits
) -> Bools:
    """Which queries ask for more than terms."""
    found = np.zeros(len(members) - 1, np.bool_)
    one = np.uint64(1)
    for query in range(len(found)):
        known = np.uint64(0)
        for conjunct in range(conjuncts[query], conjuncts[query + 1]):
            known |= required[conjunct] | excluded[conjunct]
        for member in range(members[query], members[query + 1]):
            bit = one << np.uint64(member - members[query])
            found[query] |= kinds[member] != TERM and known & bit != 0
    return found
