"""From a row of the table to its record."""

from __future__ import annotations

from nearcast._jit import inlined
from nearcast.arrays.lanes import prefetch, rounded_down, rounded_up
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s
from nearcast.index.rarest_term._layout import KEY, NO_TERM, ROUND, ROW, SECOND, THIRD
from nearcast.index.table import CIRCLE, EXCLUDES, POLYGON, Parts

_MORE_THAN_ANY = 2**62


@inlined
def rarest_terms(terms: Int32s, first: int, count: int, frequency: Int64s) -> tuple[int, int, int]:
    """Give the three rarest of some terms, of equally rare ones the newest first."""
    one = two = three = wide(NO_TERM)
    much_one = much_two = much_three = wide(_MORE_THAN_ANY)
    for at in range(first, first + count):
        term = wide(terms[at])
        # A term that is not known yet is the rarest.
        much = frequency[term] if term < len(frequency) else wide(0)
        if much < much_one or (much == much_one and term > one):
            three, much_three = two, much_two
            two, much_two = one, much_one
            one, much_one = term, much
        elif much < much_two or (much == much_two and term > two):
            three, much_three = two, much_two
            two, much_two = term, much
        elif much < much_three or (much == much_three and term > three):
            three, much_three = term, much
    return one, two, three


@inlined
def write_box(box: Floats, row: int, memory: Float32s, at: int) -> None:
    """Write the box of a row, rounded outward, to `memory[at : at + 4]`."""
    memory[at] = rounded_down(box[row, 0])
    memory[at + 1] = rounded_down(box[row, 1])
    memory[at + 2] = rounded_up(box[row, 2])
    memory[at + 3] = rounded_up(box[row, 3])


@inlined
def write_record(
    rows: Parts, row: int, frequency: Int64s, memory: Float32s, ints: Int32s, at: int
) -> int:
    """Write the record of a row to `at` and the seven numbers behind it, and give its key."""
    write_box(rows.box, row, memory, at)
    required = rows.required[row]
    key, second, third = rarest_terms(rows.terms, rows.first[row], required, frequency)
    flags = rows.flags[row]
    if required < 3 and flags & (CIRCLE | POLYGON | EXCLUDES) == CIRCLE:
        third = wide(ROUND)
    exact = required > 3 or flags & (CIRCLE | POLYGON | EXCLUDES) != 0
    ints[at + ROW] = ~row if exact else row
    ints[at + SECOND] = second
    ints[at + THIRD] = third
    ints[at + KEY] = key
    return key


@inlined
def ask_for_row(rows: Parts, places: Int32s, row: int) -> None:
    """Ask for what `write_record` reads of a row, but its terms, and for where its place is."""
    prefetch(rows.box, row * 4)
    prefetch(rows.first, row)
    prefetch(rows.required, row)
    prefetch(rows.flags, row)
    prefetch(places, row)
