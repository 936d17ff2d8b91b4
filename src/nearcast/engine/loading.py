"""Many new subscriptions at once, from columns to rows of the table and the index.

What the kernels do not read (unusual queries, regions on both sides of the antimeridian) is given
back, to be added one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast._jit import kernel
from nearcast.arrays.strings import strings_at
from nearcast.arrays.types import Bools, Bytes, Floats, Int32s, Int64s
from nearcast.engine import owners as traits_of
from nearcast.engine.operands import AskedCounts
from nearcast.engine.owners import ANYWHERE, ASKS, EXCLUDES, KEYED, WORDLESS
from nearcast.engine.range_kernels import RangeKeys
from nearcast.engine.ranges import counted_kinds, read_ranges
from nearcast.geo import WORLD
from nearcast.geo.circles import circle_columns
from nearcast.geo.region_columns import ABSENT, BOX, CIRCLE, POLYGON, RegionArrays
from nearcast.index.loading import (
    NewRows,
    add_circles,
    add_polygons,
    add_rows,
    check_entries,
    leave_shapes,
    reserve_rows,
)
from nearcast.index.table import CIRCLE as ROUND
from nearcast.index.table import EXCLUDES as WITH_EXCLUDED
from nearcast.index.table import POLYGON as WITH_CORNERS
from nearcast.index.table import RESIDUAL, SHARED
from nearcast.text.bulk import (
    BEGIN,
    EXISTS,
    INEXACT,
    KEY,
    LESS,
    NAME,
    NAME_END,
    PHRASE,
    PREFIX,
    TERM,
    BulkQueries,
    read_queries,
    tokens_in,
)
from nearcast.text.columns import buffers
from nearcast.text.keys import EVERYONE, LONGEST_PHRASE

if TYPE_CHECKING:
    from nearcast.engine.subscriptions import IndexedSubscriptions

_AT_A_TIME = 1 << 15


class NewSubscriptions(NamedTuple):
    """New subscriptions as columns; a query may be null, and a region absent, but not both."""

    ids: pa.StringArray
    queries: pa.StringArray
    regions: RegionArrays

    def __len__(self) -> int:
        return len(self.ids)


class _Places(NamedTuple):
    """The boxes of subscriptions: those of i are `starts[i]` to `starts[i + 1]`."""

    good: Bools  # which subscriptions are in all of their boxes here
    starts: Int64s
    boxes: Floats
    shapes: Int32s  # by box: the number of its circle or polygon, or -1
    flags: Bytes  # by subscription: what the shapes are, as the table has it
    traits: Bytes  # the same, as owners have it
    radius: Floats


def put_columns(population: IndexedSubscriptions, new: NewSubscriptions) -> tuple[Int32s, Int32s]:
    """Add new subscriptions; return the owner of each, -1 if it was not added, and all rows."""
    owners, rows = np.full(len(new), -1, np.int32), [np.empty(0, np.int32)]
    if len(new) > _AT_A_TIME:  # none may be left when some have been added
        check_entries(population.table, new.queries.nbytes + 4 * len(new))
    places = _places_of(population, new.regions)
    everyone = -1
    if new.queries.null_count:
        (everyone,) = population.terms.intern([EVERYONE])
        population.terms.settle()
    population.owners.reserve(len(new))
    reserve_rows(population.table, len(new))
    for start in range(0, len(new), _AT_A_TIME):
        found, some = _put_some(population, new, places, start, everyone)
        owners[start : start + len(found)] = found
        rows.append(some)
    unused = np.repeat(owners < 0, np.diff(places.starts)) & (places.shapes >= 0)
    leave_shapes(population.table, int(unused.sum()))
    return owners, np.concatenate(rows)


def _places_of(population: IndexedSubscriptions, regions: RegionArrays) -> _Places:
    """Add the shapes of regions to the table, and say where all of them are."""
    kinds, table = regions.kinds, population.table
    count = np.ones(len(kinds), np.int64)
    polygons = np.flatnonzero(kinds == POLYGON)
    some = regions.polygons.take(regions.polygon[polygons])
    count[polygons] = np.diff(some.parts)
    starts = np.concatenate([[0], np.cumsum(count)])
    firsts = starts[:-1]
    boxes, shapes = np.empty((starts[-1], 4)), np.full(starts[-1], -1, np.int32)
    flags, traits = np.zeros(len(kinds), np.uint8), np.zeros(len(kinds), np.uint8)
    radius = np.full(len(kinds), np.nan)
    good = np.isin(kinds, (ABSENT, BOX, CIRCLE, POLYGON))
    boxes[firsts[kinds == ABSENT]] = WORLD.bounds()[0]
    traits[kinds == ABSENT] = ANYWHERE
    plain = np.flatnonzero(kinds == BOX)
    boxes[firsts[plain]] = regions.boxes[plain]
    good[plain] = regions.boxes[plain, 0] <= regions.boxes[plain, 2]
    circles = np.flatnonzero(kinds == CIRCLE)
    if len(circles):
        points, radii = regions.circles[circles, :2].copy(), regions.circles[circles, 2].copy()
        around, limits, whole = circle_columns(points, radii)
        good[circles] = whole
        kept = circles[whole]
        first = add_circles(table, np.column_stack([points, limits])[whole])
        boxes[firsts[circles]] = around
        shapes[firsts[kept]] = np.arange(first, first + len(kept))
        flags[circles], traits[circles], radius[circles] = ROUND, traits_of.CIRCLE, radii
    if len(polygons):
        first = add_polygons(table, some.positions, some.starts, some.rings)
        where = np.repeat(firsts[polygons] - some.parts[:-1], np.diff(some.parts))
        where += np.arange(len(where))
        boxes[where], shapes[where] = some.boxes(), np.arange(first, first + len(where))
        flags[polygons] = WITH_CORNERS
        traits[polygons] = np.where(some.several, traits_of.SEVERAL, traits_of.POLYGON)
    return _Places(good, starts, boxes, shapes, flags, traits, radius)


def _put_some(
    population: IndexedSubscriptions,
    new: NewSubscriptions,
    places: _Places,
    start: int,
    everyone: int,
) -> tuple[Int32s, Int32s]:
    """Add some of the subscriptions; return their owners, -1 for those not added, and the rows."""
    queries = new.queries.slice(start, _AT_A_TIME)
    stop = start + len(queries)
    wordless = np.asarray(pc.is_null(queries)) if queries.null_count else None
    if wordless is not None:
        queries = pc.fill_null(queries, "")
    read = read_queries(queries, population.analyser)
    ranges = read_ranges(read)
    read.left[:] |= ranges.left
    good = places.good[start:stop] & (~read.left if wordless is None else ~read.left | wordless)
    which = np.flatnonzero(good)
    owners = np.full(stop - start, -1, np.int32)
    ids = new.ids.slice(start, _AT_A_TIME)
    if len(which) < len(good):
        picked = pa.array(which)
        ids, queries = ids.take(picked), queries.take(picked)
    conjuncts = np.diff(read.conjuncts)
    if wordless is None:
        wordless = np.zeros(len(good), np.bool_)
    conjuncts[wordless] = 1
    boxes = np.diff(places.starts[start : stop + 1])
    rows = int((conjuncts * boxes)[which].sum())
    room = int((conjuncts * boxes * (np.diff(read.starts) + 4))[which].sum())
    check_entries(population.table, room)
    made = population.owners.extend(buffers(ids), buffers(queries))
    owners[which] = made
    numbers, range_numbers = _numbers(population, read, ranges)
    out = NewRows(
        np.empty(rows, np.int32), np.empty((rows, 4)), np.empty(rows, np.uint8),
        np.empty(rows, np.int32), np.empty(rows, np.int32), np.empty(room, np.int32),
    )  # fmt: skip
    operands = population.operands
    asked = np.empty((int(conjuncts.sum()), 2), np.int32)
    traits = places.traits[start:stop]
    counts = np.zeros(len(good), np.int32)
    longest = int((read.spans[:, 1] - read.spans[:, 0]).max(initial=0))
    times, prefixes = np.zeros(len(read.kinds), np.int64), np.zeros(longest + 1, np.int64)
    phrases, range_times = np.zeros(LONGEST_PHRASE + 1, np.int64), np.zeros_like(times)
    used, residuals, unwanted, broad = _fill(
        owners, wordless, everyone, read, numbers, ranges.used, range_numbers,
        places.starts[start : stop + 1], places.boxes, places.shapes, places.flags[start:stop],
        operands.next, out, asked, traits, counts, times, prefixes, phrases, range_times,
    )  # fmt: skip
    operands.extend(asked[:residuals, 0].copy(), asked[:residuals, 1].copy())
    everywhere = int(wordless[which].sum())
    counted = AskedCounts(
        _counted(prefixes), _counted(phrases), unwanted, _names(read, times), everywhere, broad,
        counted_kinds(ranges, range_times),
    )  # fmt: skip
    operands.count_more(counted)
    rows_made = add_rows(population.table, out._replace(entries=out.entries[:used]))
    columns = population.owners.columns
    counts = counts[which]
    firsts = np.cumsum(counts) - counts
    columns.row[made] = rows_made[firsts]
    columns.rows[made], columns.traits[made] = counts, traits[which]
    columns.radius[made] = places.radius[start:stop][which]
    # Where the rows of one owner do not follow each other.
    gaps = np.flatnonzero(np.diff(rows_made) != 1)
    places_of_gaps = np.searchsorted(firsts, gaps, side="right") - 1
    inside = gaps + 1 < firsts[places_of_gaps] + counts[places_of_gaps]
    for place in np.unique(places_of_gaps[inside]).tolist():
        own = rows_made[firsts[place] : firsts[place] + counts[place]]
        population.scatter(int(made[place]), own)
    return owners, rows_made


def _numbers(
    population: IndexedSubscriptions, read: BulkQueries, ranges: RangeKeys
) -> tuple[Int32s, Int32s]:
    """The numbers of the terms and keys that conjuncts require or exclude, by member; else -1.

    Those of the second array are for conjuncts that are found by ranges.
    """
    numbers = np.full(len(read.kinds), -1, np.int32)
    range_numbers = numbers.copy()
    needed = _needed(read, ranges.used)
    terms = population.terms

    def number(some: Bools, data: Bytes, first: int) -> None:
        members = np.flatnonzero(needed & some)
        if len(members):
            spans = np.ascontiguousarray(read.spans[members, first : first + 2])
            numbers[members] = terms.intern_spans(data, spans, first == BEGIN)

    # Until messages have come an index takes terms with high numbers for rare ones.
    phrase, term = read.kinds == PHRASE, read.kinds == TERM
    number(~phrase & ~term, read.keys, KEY)
    found = np.flatnonzero(ranges.spans[:, 1])
    if len(found):
        spans = np.ascontiguousarray(ranges.spans[found, :2])
        range_numbers[found] = terms.intern_spans(ranges.data, spans, False)
    number(term, read.data, BEGIN)
    number(phrase, read.keys, KEY)
    return numbers, range_numbers


def _counted(lengths: Int64s) -> dict[int, int]:
    """How often each length is there."""
    return {length: int(lengths[length]) for length in np.flatnonzero(lengths).tolist()}


def _names(read: BulkQueries, times: Int64s) -> dict[str, int]:
    """How often conjuncts ask for properties, by name, to be there or not."""
    some = np.flatnonzero((times > 0) & (read.kinds >= EXISTS))
    if not len(some):
        return {}
    names = strings_at(read.data, read.spans[some, NAME], read.spans[some, NAME_END])
    coded = names.dictionary_encode()
    counted = np.bincount(coded.indices.to_numpy(), times[some])
    return dict(zip(coded.dictionary.to_pylist(), counted.astype(int).tolist(), strict=True))


@kernel
def _needed(read: BulkQueries, by_range: Bools) -> Bools:
    """Which members need a number: what is required, and terms that are excluded.

    A range needs none by its name where it has a key of its own.
    """
    needed = np.zeros(len(read.kinds), np.bool_)
    one = np.uint64(1)
    for query in range(len(read.starts) - 1):
        has = by_name = lacks = np.uint64(0)
        for conjunct in range(read.conjuncts[query], read.conjuncts[query + 1]):
            has |= read.required[conjunct]
            if not by_range[conjunct]:
                by_name |= read.required[conjunct]
            lacks |= read.excluded[conjunct]
        for member in range(read.starts[query], read.starts[query + 1]):
            bit, kind = one << np.uint64(member - read.starts[query]), read.kinds[member]
            wanted = by_name if kind >= LESS else has
            needed[member] = wanted & bit != 0 or (lacks & bit != 0 and kind == TERM)
    return needed


@kernel
def _fill(
    owners: Int32s, wordless: Bools, everyone: int, read: BulkQueries, numbers: Int32s,
    by_range: Bools, range_numbers: Int32s, box_starts: Int64s, boxes: Floats, shapes: Int32s,
    flags: Bytes, next_residual: int, out: NewRows, asked: Int32s, traits: Bytes, counts: Int32s,
    times: Int64s, prefixes: Int64s, phrases: Int64s, range_times: Int64s,
) -> tuple[int, int, int, int]:  # fmt: skip
    """Write the rows of all subscriptions with an owner.

    Beside the rows it writes: the owner and the place of each residual predicate to `asked`, how
    many rows a subscription has to `counts`, what it asks for to `traits`, and to `times`,
    `prefixes` and `phrases` how many conjuncts require or exclude each member, a prefix and a
    phrase of each length, and to `range_times` how many are found by each member, a range. Returns
    how many entries and predicates there are, how many phrases must not be there, and how many
    conjuncts ask for properties of any value alone.
    """
    row = used = residuals = unwanted = broads = 0
    one = np.uint64(1)
    for query in range(len(owners)):
        if owners[query] < 0:
            continue
        base, stop = read.starts[query], read.starts[query + 1]
        first, last = read.conjuncts[query], read.conjuncts[query + 1]
        if wordless[query]:
            last = first + 1
            traits[query] |= WORDLESS | ASKS | KEYED
        sides = box_starts[query + 1] - box_starts[query]
        shared = SHARED if (last - first) * sides > 1 else 0
        for conjunct in range(first, last):
            # What the conjunct asks for beside terms, once for all boxes.
            rest = excludes = ranged = False
            broad = True
            has = lacks = np.uint64(0)
            if not wordless[query]:
                has, lacks = read.required[conjunct], read.excluded[conjunct]
                ranged = by_range[conjunct]
            for member in range(base, stop):
                kind, bit = read.kinds[member], one << np.uint64(member - base)
                if has & bit != 0:
                    times[member] += 1
                    rest |= (INEXACT >> kind) & 1 != 0
                    if kind != TERM:
                        traits[query] |= ASKS | KEYED
                        broad &= kind == EXISTS
                        range_times[member] += ranged and kind >= LESS
                    else:
                        broad = False
                elif lacks & bit != 0:
                    if kind == TERM:
                        excludes = True
                    else:
                        rest = True
                        traits[query] |= ASKS
                        times[member] += 1
                        unwanted += kind == PHRASE
                else:
                    continue
                begin, end = read.spans[member, 0], read.spans[member, 1]
                if kind == PREFIX:
                    prefixes[end - begin] += 1
                elif kind == PHRASE:
                    phrases[tokens_in(read.data, begin, end)] += 1
            broads += broad and has != 0
            if excludes:
                traits[query] |= EXCLUDES
            for box in range(box_starts[query], box_starts[query + 1]):
                row_flags = flags[query] | shared
                if flags[query] != 0:
                    out.entries[used] = shapes[box]
                    used += 1
                begin = used
                if wordless[query]:
                    out.entries[used] = everyone
                    used += 1
                for member in range(base, stop):
                    if has & (one << np.uint64(member - base)) == 0:
                        continue
                    number = numbers[member]
                    if ranged and read.kinds[member] >= LESS:
                        number = range_numbers[member]
                    if number >= 0:
                        again = False  # two properties of one name, or two ranges, have one key
                        for place in range(begin, used):
                            again |= out.entries[place] == number
                        if not again:
                            out.entries[used] = number
                            used += 1
                out.first[row], out.required[row] = begin, used - begin
                if excludes:
                    row_flags |= WITH_EXCLUDED
                    size = used
                    used += 1
                    for member in range(base, stop):
                        bit = one << np.uint64(member - base)
                        if lacks & bit != 0 and read.kinds[member] == TERM:
                            out.entries[used] = numbers[member]
                            used += 1
                    out.entries[size] = used - size - 1
                if rest:
                    row_flags |= RESIDUAL
                    out.entries[used] = next_residual + residuals
                    used += 1
                out.owner[row], out.flags[row] = owners[query], row_flags
                for side in range(4):
                    out.box[row, side] = boxes[box, side]
                row += 1
                counts[query] += 1
            if rest:
                asked[residuals, 0], asked[residuals, 1] = owners[query], conjunct - first
                residuals += 1
    return used, residuals, unwanted, broads
