"""The subscription table: one row for each conjunct and each plain bounding box.

All indexes read the same rows and none keeps a copy of what is exact: an index proposes rows, the
table decides (`verify.py`). A row belongs to an *owner*, a small number for a
subscription; a subscription with several conjuncts, with a region on both sides of the
antimeridian, or with one of several polygons, owns several rows.

Terms are int32 ids. `frequency` says how often each is expected in messages; it only guides
indexes towards the rarest term and is never needed for an answer to be right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from nearcast.arrays.column import Column as Column  # a table is made of them
from nearcast.arrays.memory import Memory
from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import StateError
from nearcast.geo import Box, Circle, MultiPolygon, Polygon, Region

CIRCLE = 1
"""Flag: the row's box only bounds a circle."""
POLYGON = 2
"""Flag: the row's box only bounds a polygon."""
EXCLUDES = 4
"""Flag: the row has NOT terms."""
SHARED = 8
"""Flag: the owner has other rows too, so a message may meet it more than once."""
RESIDUAL = 16
"""Flag: the row has a residual predicate, which decides when all else matches."""

NO_OWNER = -1
_WORTH_COMPACTING = 1 << 12
_KIND, _VERSION = "table", 1
_MANY = 64  # rows whose boxes are better written by a kernel
_CIRCLE, _POSITION = 6, 4  # int32 words that a circle takes, and a position of a polygon
_MOST = 2**31 - 1
_WITH_CORNERS = (Polygon, MultiPolygon)


class Rows(NamedTuple):
    """The table as kernels read it.

    The terms of row r are `terms[first[r] : first[r] + required[r]]`. With the flag EXCLUDES the
    next entry is a count and the excluded terms follow it. With RESIDUAL the number of a predicate
    comes after that. With CIRCLE or POLYGON the entry before `first[r]` is the number of the shape.
    """

    box: Floats  # (n, 4): west, south, east, north, exact or around the shape
    owner: Int32s  # NO_OWNER for a row that is free
    flags: npt.NDArray[np.uint8]
    first: Int32s
    required: Int32s
    terms: Int32s
    circles: Floats  # (n, 3): longitude, latitude, limit
    rings: Int32s  # (n + 1): the first ring of each polygon
    starts: Int32s  # the first position of each ring, and the end of the last
    lons: Floats
    lats: Floats


class Parts(NamedTuple):
    """Those of `Rows` that say what a row asks for, shapes and excluded terms aside."""

    box: Floats
    flags: npt.NDArray[np.uint8]
    first: Int32s
    required: Int32s
    terms: Int32s


_COLUMNS: dict[str, tuple[type, int]] = {
    "box": (np.float64, 4),
    "owner": (np.int32, 0),
    "flags": (np.uint8, 0),
    "first": (np.int32, 0),
    "required": (np.int32, 0),
    "terms": (np.int32, 0),
    "circles": (np.float64, 3),
    "rings": (np.int32, 0),
    "starts": (np.int32, 0),
    "lons": (np.float64, 0),
    "lats": (np.float64, 0),
}


class Table:
    """Keeps the rows of all boolean subscriptions."""

    _box: Column
    _owner: Column
    _flags: Column
    _first: Column
    _required: Column
    _terms: Column
    _circles: Column
    _rings: Column
    _starts: Column
    _lons: Column
    _lats: Column

    def __init__(self, memory: Memory | None = None) -> None:
        self.memory = memory or Memory()
        for name, (dtype, width) in _COLUMNS.items():
            setattr(self, f"_{name}", Column(dtype, width, self.memory, name))
        self._rings.extend([0])
        self._starts.extend([0])
        self._free: list[int] = []
        self._dead = 0  # int32 words that removed rows have left behind, in terms and shapes
        self._rows: Rows | None = None
        self.shared = False
        """Whether any owner ever had several rows, so that a message may meet it twice."""
        self.residual = False
        """Whether any row ever had a residual predicate."""
        self.own_rows = True
        """Whether every owner so far had the number of its one row, as bulk loads give them."""
        self.frequency: Int64s = self.memory.array("frequency", 16, np.int64)
        self.frequency[:] = 0
        self.live = 0

    def __len__(self) -> int:
        return self._owner.size

    @property
    def rows(self) -> Rows:
        """The arrays as they are now; ask again after every change."""
        if self._rows is None:
            self._rows = self._views()
        return self._rows

    def _views(self) -> Rows:
        return Rows(
            self._box.array,
            self._owner.array,
            self._flags.array,
            self._first.array,
            self._required.array,
            self._terms.array,
            self._circles.array,
            self._rings.array,
            self._starts.array,
            self._lons.array,
            self._lats.array,
        )

    @property
    def parts(self) -> Parts:
        """What an index keeps of rows, with the room behind them; ask again after every change."""
        # Not cut to size, which would take longer than to insert a row.
        return Parts(
            self._box._data,
            self._flags._data,
            self._first._data,
            self._required._data,
            self._terms._data,
        )

    @property
    def nbytes(self) -> int:
        """Bytes in use."""
        return sum(int(array.nbytes) for array in self.rows)

    @property
    def has_shapes(self) -> bool:
        """Whether any row may be a circle or a polygon."""
        return self._circles.size > 0 or self._lons.size > 0

    def live_rows(self) -> Int32s:
        """The numbers of all rows in use."""
        return np.flatnonzero(self._owner.array != NO_OWNER).astype(np.int32)

    def ensure_terms(self, count: int) -> None:
        """Make room for the frequencies of terms 0 to count - 1."""
        if count > len(self.frequency):
            known = len(self.frequency)
            grown = self.memory.array("frequency", max(count, 2 * known), np.int64)
            grown[:known] = self.frequency
            grown[known:] = 0
            self.frequency = grown

    def add(
        self,
        owner: int,
        conjuncts: Sequence[tuple[Sequence[int], Sequence[int]]],
        region: Region,
        residuals: Sequence[int | None] | None = None,
    ) -> Int32s:
        """Add the rows of one subscription: (required, excluded) terms of each conjunct.

        `residuals` has the number of a residual predicate for each, or None.
        """
        self.check_room(conjuncts, region)
        self._rows = None
        bounds = region.bounds()
        shapes, kind = self._shapes(region)
        shared = SHARED if len(bounds) * len(conjuncts) > 1 else 0
        rows = []
        beside = [None] * len(conjuncts) if residuals is None else residuals
        for (required, excluded), residual in zip(conjuncts, beside, strict=True):
            entries = shapes[:1]
            entries += required
            if excluded:
                entries += [len(excluded), *excluded]
            flags = kind | shared | (EXCLUDES if excluded else 0)
            if residual is not None:
                entries.append(residual)
                flags |= RESIDUAL
                self.residual = True
            for place, box in enumerate(bounds):
                if len(shapes) > 1:
                    entries[0] = shapes[place]
                first = self._terms.extend(entries) + (kind > 0)
                rows.append(self._row(owner, box, flags, first, len(required)))
        self.live += len(rows)
        self.shared |= shared > 0
        self.own_rows &= rows == [owner]
        return np.array(rows, np.int32)

    def add_boxes(
        self,
        owners: Int32s,
        boxes: Floats,
        starts: Int64s,
        terms: Int32s,
        circles: Floats | None = None,
    ) -> Int32s:
        """Add many subscriptions of one conjunct without NOT and one plain box each.

        The terms of the i-th are `terms[starts[i] : starts[i + 1]]`. With `circles`, the box of
        each only bounds its circle: longitude, latitude and limit.
        """
        shapes = 0
        if circles is not None:
            base, shapes = self._circles.extend(circles), 1
            terms = np.insert(terms, starts[:-1], np.arange(base, base + len(circles)))
            starts = starts + np.arange(len(starts))
        check_size(self._terms.size + len(terms))
        self._rows = None
        start, some_again = len(self), bool(self._free)
        rows = self._numbers(len(owners))
        # New numbers follow each other, and writing to a slice is several times faster.
        where = rows if some_again else slice(start, None)
        self._first.array[where] = starts[:-1] + (self._terms.extend(terms) + shapes)
        self._required.array[where] = starts[1:] - starts[:-1] - shapes
        self._owner.array[where] = owners
        self._box.array[where] = boxes
        self._flags.array[where] = CIRCLE if shapes else 0
        self.live += len(rows)
        self.own_rows = self.own_rows and bool((owners == rows).all())
        return rows

    def check_room(
        self, conjuncts: Sequence[tuple[Sequence[int], Sequence[int]]], region: Region
    ) -> None:
        """Refuse a subscription that would not fit any more."""
        entries = sum(len(required) + len(excluded) + 3 for required, excluded in conjuncts)
        if isinstance(region, _WITH_CORNERS):
            polygons = _polygons(region)
            check_size(self._terms.size + len(polygons) * entries)
            check_size(self._lons.size + sum(len(each.lons) for each in polygons))
        else:
            check_size(self._terms.size + 2 * entries)  # two boxes at most

    def remove(self, rows: Int32s) -> None:
        """Take rows out of use; their numbers stay taken until `release`."""
        self._owner.array[rows] = NO_OWNER
        self._dead += int(self._required.array[rows].sum())
        if self._flags.array[rows].any():
            self._dead += self._words_beside_terms(rows)
        self.live -= len(rows)
        held = self._terms.size + _CIRCLE * self._circles.size + _POSITION * self._lons.size
        if self._dead > max(_WORTH_COMPACTING, held // 2):
            self._compact()

    def _words_beside_terms(self, rows: Int32s) -> int:
        """How much rows with flags hold besides their required terms; a shape counts once."""
        flags, first, terms = self._flags.array[rows], self._first.array[rows], self._terms.array
        excludes = (flags & EXCLUDES) != 0
        counts = terms[(first + self._required.array[rows])[excludes]]
        words = int(counts.sum()) + len(counts) + int(((flags & RESIDUAL) != 0).sum())
        places = first[(flags & (CIRCLE | POLYGON)) != 0] - 1
        words += len(places) + _CIRCLE * len(np.unique(terms[first[(flags & CIRCLE) != 0] - 1]))
        for polygon in np.unique(terms[first[(flags & POLYGON) != 0] - 1]):
            edges = self._starts.array[self._rings.array[polygon : polygon + 2]]
            words += _POSITION * int(edges[1] - edges[0])
        return words

    def residuals_of(self, rows: Int32s) -> Int32s:
        """The numbers of the residual predicates of rows that have one."""
        at, terms = self._first.array[rows] + self._required.array[rows], self._terms.array
        excludes = (self._flags.array[rows] & EXCLUDES) != 0
        at[excludes] += terms[at[excludes]] + 1
        numbers: Int32s = terms[at]
        return numbers

    def release(self, rows: Int32s) -> None:
        """Let the numbers of removed rows be used again, once no index refers to them."""
        self._free.extend(rows.tolist())

    def move(self, rows: Int32s, boxes: Floats, circles: Floats | None = None) -> None:
        """Give rows that are boxes another box, or rows that are circles another circle.

        A circle is its longitude, latitude and limit; its box bounds it.
        """
        if len(rows) < _MANY:
            self._box.array[rows] = boxes
        else:
            from nearcast.index.boxes import write_boxes  # which needs this module

            write_boxes(self._box.array, rows, boxes)
        if circles is not None:
            self._circles.array[self._terms.array[self._first.array[rows] - 1]] = circles

    def save(self, folder: Path) -> None:
        """Write the table to files that can be memory-mapped."""
        arrays = self.rows._asdict() | {
            "free": np.array(self._free, np.int32),
            "frequency": self.frequency,
        }
        about = {
            "live": self.live,
            "dead": self._dead,
            "shared": self.shared,
            "residual": self.residual,
            "own_rows": self.own_rows,
        }
        save_arrays(folder, _KIND, _VERSION, about, arrays)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read what `save` wrote; changes stay in this process."""
        about, mapped = load_arrays(folder, _KIND, _VERSION)
        arrays = {name: np.asarray(array) for name, array in mapped.items()}
        table = cls()
        for name in Rows._fields:
            setattr(table, f"_{name}", Column.of(arrays[name]))
        table._free = arrays["free"].tolist()
        table.frequency = arrays["frequency"]
        table.live, table._dead = about["live"], about["dead"]
        table.shared, table.own_rows = about["shared"], about["own_rows"]
        table.residual = about.get("residual", False)  # an earlier release knew none
        return table

    def describe(self) -> dict[str, Any]:
        """Say what `attach` needs to find the table again in its memory."""
        free = self.memory.array("free", len(self._free), np.int32)
        free[:] = self._free
        return {
            "sizes": {name: getattr(self, f"_{name}").size for name in _COLUMNS},
            "free": len(self._free),
            "terms": len(self.frequency),
            "live": self.live,
            "dead": self._dead,
            "shared": self.shared,
            "residual": self.residual,
            "own_rows": self.own_rows,
        }

    @classmethod
    def attach(cls, memory: Memory, described: Mapping[str, Any]) -> Self:
        """Find a table again in memory that is kept in files."""
        table = cls.__new__(cls)
        table.memory, table._rows = memory, None
        for name, size in described["sizes"].items():
            dtype, width = _COLUMNS[name]
            setattr(table, f"_{name}", Column(dtype, width, memory, name, size))
        table._free = memory.array("free", described["free"], np.int32).tolist()
        table.frequency = memory.array("frequency", described["terms"], np.int64)
        table.live, table._dead = described["live"], described["dead"]
        table.shared, table.own_rows = described["shared"], described["own_rows"]
        table.residual = described.get("residual", False)  # an earlier release knew none
        return table

    def _compact(self) -> None:
        """Drop the terms and shapes that no row in use refers to."""
        self._rows = None
        live = self.live_rows()
        flags, first, terms = self._flags.array[live], self._first.array[live], self._terms.array
        shaped = (flags & (CIRCLE | POLYGON)) != 0
        excludes = (flags & EXCLUDES) != 0
        length = self._required.array[live].astype(np.int64)
        ends = first + length
        length[excludes] += terms[ends[excludes]] + 1
        length += (flags & RESIDUAL) != 0
        begin = first - shaped
        length += shaped
        starts = np.cumsum(length) - length
        take = np.repeat(begin - starts, length) + np.arange(int(length.sum()))
        self._first.array[live] = starts + shaped
        self._terms.replace(terms[take])
        self._dead = 0
        self._compact_circles(live[(flags & CIRCLE) != 0])
        self._compact_polygons(live[(flags & POLYGON) != 0])

    def _compact_circles(self, rows: Int32s) -> None:
        places = self._first.array[rows] - 1
        used, renamed = np.unique(self._terms.array[places], return_inverse=True)
        self._terms.array[places] = renamed
        self._circles.replace(self._circles.array[used])

    def _compact_polygons(self, rows: Int32s) -> None:
        places = self._first.array[rows] - 1
        used, renamed = np.unique(self._terms.array[places], return_inverse=True)
        self._terms.array[places] = renamed
        columns = (self._rings, self._starts, self._lons, self._lats)
        old_rings, old_starts, old_lons, old_lats = (column.array.copy() for column in columns)
        for column in columns:
            column.replace(column.array[:0])
        self._rings.extend([0])
        self._starts.extend([0])
        for polygon in used.tolist():
            edges = old_starts[old_rings[polygon] : old_rings[polygon + 1] + 1]
            base = self._lons.extend(old_lons[edges[0] : edges[-1]])
            self._lats.extend(old_lats[edges[0] : edges[-1]])
            self._starts.extend(base + edges[1:] - edges[0])
            self._rings.extend([self._starts.size - 1])

    def _numbers(self, count: int) -> Int32s:
        """Numbers for that many new rows: free ones first, then more at the end."""
        kept = max(0, len(self._free) - count)
        again, self._free[kept:] = self._free[kept:], ()
        start, more = self._owner.size, count - len(again)
        for column in (self._box, self._owner, self._flags, self._first, self._required):
            column.lengthen(more)
        fresh = np.arange(start, start + more, dtype=np.int32)
        return np.concatenate([np.array(again, np.int32), fresh]) if again else fresh

    def _row(
        self, owner: int, box: tuple[float, float, float, float], flags: int, first: int, n: int
    ) -> int:
        if self._free:
            row = self._free.pop()
            self._box.array[row] = box
            self._owner.array[row] = owner
            self._flags.array[row] = flags
            self._first.array[row] = first
            self._required.array[row] = n
            return row
        self._box.append(box)
        self._flags.append(flags)
        self._first.append(first)
        self._required.append(n)
        return self._owner.append(owner)

    def _shapes(self, region: Region) -> tuple[list[int], int]:
        """Add the shapes of a region: one for all of its plain boxes, or for each; and the flag."""
        if isinstance(region, Box) or not decides(region):
            return [], 0
        if isinstance(region, Circle):
            return [self._circles.extend([(*region.center, region.limit)])], CIRCLE
        return [self._polygon(each) for each in _polygons(region)], POLYGON

    def _polygon(self, polygon: Polygon) -> int:
        base = self._lons.extend(polygon.lons)
        self._lats.extend(polygon.lats)
        self._starts.extend([base + start for start in polygon.starts[1:]])
        return self._rings.extend([self._starts.size - 1]) - 1


def _polygons(region: Polygon | MultiPolygon) -> tuple[Polygon, ...]:
    return region.polygons if isinstance(region, MultiPolygon) else (region,)


def decides(region: Region) -> bool:
    """Whether rows say exactly where a region is; of another shape they have the boxes around it.

    Who adds such a region decides it for the rows that match.
    """
    return type(region) in (Box, Circle, Polygon, MultiPolygon)


def check_size(size: int) -> None:
    """Refuse more terms or positions than 31 bits count."""
    if size > _MOST:
        raise StateError(
            f"subscriptions: {size} terms or positions in all given; expected at most {_MOST}: "
            "use several engines"
        )
