"""The directory of a property's numbers: the key by which a range is found, whatever its bounds.

A range has one key, and every number in it has that key, too, so that it is required like a term.
Doubles become whole numbers in the same order, their *ordinals*. A whole number beyond 2**53 counts
as the nearest double, which keeps the order: what is in a range always has its key. The converse is
left to a residual predicate.

| range                        | filed at                                                      |
|------------------------------|---------------------------------------------------------------|
| between bounds close by      | the smallest *cell* that contains it                          |
| between any other bounds     | *near*: the *edge* beyond the bound that is farther from zero |
| less than a bound            | *below*: the edge above it                                    |
| more than a bound            | *above*: the edge below it                                    |

A cell of level n has 2**n ordinals. Each level has two grids, one shifted by half a cell, so that a
range is in a cell of less than four times its length; with one grid, those around a power of two
would need very large cells. A number has a key for its cell in each grid that is in use.
(Edelsbrunner, "Dynamic data structures for orthogonal intersection queries", 1980, also files an
interval at one node of a tree, but with all nodes above a number to look at, and sorted by bounds
there. A key can say neither.)

Half of all doubles are between -1 and 1, so no small cell contains a range with zero inside, nor
one without end. Such ranges are filed at edges, eight for each doubling, by one bound. A number has
the keys of all edges in use on its side. All ranges that are filed there contain it as far as that
bound goes, except at the edge next to it: there are few keys, and what they find matches mostly.

Everything here is plain Python that is also valid numba (`nearcast.engine.range_kernels`), except
what makes strings.
"""

from __future__ import annotations

from math import inf
from struct import Struct

BELOW, ABOVE, NEAR, CELLS = range(4)
"""Where a range is filed: at an edge of one of three kinds, or in grid n, which is CELLS + n."""
WIDEST = 53
"""The level of the largest cells: two octaves."""
EDGE_MARKS, CELL_MARK = "LMN", "["
"""The second letters of keys."""

_NO_GRID = -1
_EDGE_BITS = 49  # of an ordinal, which do not matter for an edge
_EDGE_ZERO = 1 << 15  # added to edges, so that none is negative
_LOW = 0x7FFFFFFFFFFFFFFF
_WORD = 0xFFFFFFFFFFFFFFFF
_AS_DOUBLE, _AS_BITS = Struct("<d"), Struct("<q")


def ordinal(bits: int) -> int:
    """Return the place of a double in the order of all, from its bits; zero must have no sign."""
    return bits ^ ((bits >> 63) & _LOW)


def cell_at(place: int, grid: int) -> int:
    """Return the cell of an ordinal in a grid; the last bit of its number says if it is shifted."""
    level = grid >> 1
    if grid & 1:
        return ((place >> (level - 1)) + 1) >> 1
    return place >> level


def edge_at(kind: int, place: int) -> int:
    """Return the last edge of a kind that a number has the key of; it has those before it, too."""
    if kind == NEAR and place < 0:
        place = ~place  # that of the number without its sign
    edge = place >> _EDGE_BITS
    return _EDGE_ZERO + (edge if kind == ABOVE else -edge)


def filed_at(has_low: bool, has_high: bool, low: int, high: int) -> tuple[int, int]:
    """Return where a range is filed, and the edge or the cell there; bounds are ordinals."""
    if not has_low:
        return BELOW, edge_at(BELOW, high)
    if not has_high:
        return ABOVE, edge_at(ABOVE, low)
    high = max(low, high)  # what ends before it begins never holds
    grid = _grid_of(low, high)
    if grid == _NO_GRID:
        return NEAR, min(edge_at(NEAR, low), edge_at(NEAR, high))
    return CELLS + grid, cell_at(low, grid)


def _grid_of(low: int, high: int) -> int:
    """Return the grid of the smallest cell with all from one ordinal to another, if there is."""
    if low < 0 <= high:
        return _NO_GRID
    apart, level = high - low, 0
    while apart >> level > 0:
        level += 1
    # It fits at the next level at the latest: half of such a cell is longer than it.
    while level <= WIDEST:
        if cell_at(low, 2 * level) == cell_at(high, 2 * level):
            return 2 * level
        if level > 0 and cell_at(low, 2 * level + 1) == cell_at(high, 2 * level + 1):
            return 2 * level + 1
        level += 1
    return _NO_GRID


def double_of(number: int | float) -> float:
    """The nearest double, and zero without its sign."""
    try:
        return float(number) + 0.0
    except OverflowError:
        return inf if number > 0 else -inf


def ordinal_of(number: int | float) -> int:
    """The ordinal of a number."""
    (bits,) = _AS_BITS.unpack(_AS_DOUBLE.pack(double_of(number)))
    return ordinal(bits)


def range_key(name: str, low: int | float | None, high: int | float | None) -> str:
    """The key of all that has a property with a number between two bounds, and of some more."""
    bounds = [0 if bound is None else ordinal_of(bound) for bound in (low, high)]
    where, number = filed_at(low is not None, high is not None, *bounds)
    if where < CELLS:
        return edge_key(name, where, number)
    return f"{kind_of_cells(name, where - CELLS)}{number & _WORD:x}"


def edge_key(name: str, kind: int, edge: int) -> str:
    """The key of all numbers on one side of an edge."""
    return f"\0{EDGE_MARKS[kind]}{name}\0{edge:x}"


def kind_of_cells(name: str, grid: int) -> str:
    """What the keys of all cells of a grid begin with."""
    return f"\0{CELL_MARK}{name}\0{grid:02x}"


def kind_of(key: str) -> str:
    """What has to be known of a key, to look for it in messages: its grid, or all of it."""
    return key[: key.rindex("\0") + 3] if key[1] == CELL_MARK else key


def read_kind(kind: str) -> tuple[str, int, int]:
    """The name of the property, CELLS and a grid, or one of the others and an edge."""
    name, _, number = kind[2:].rpartition("\0")
    where = CELLS if kind[1] == CELL_MARK else EDGE_MARKS.index(kind[1])
    return name, where, int(number, 16)
