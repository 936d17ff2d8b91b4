"""From a row of the table to its record."""

from __future__ import annotations

import numpy as np

from nearcast._jit import kernel
from nearcast.index.rarest_term._lanes import rounded_down, rounded_up
from nearcast.index.rarest_term._layout import KEY, NO_TERM, ROW, SECOND, THIRD, Float32s
from nearcast.index.table import CIRCLE, EXCLUDES, POLYGON, Int32s, Int64s, Rows


@kernel
def frequency_of(frequency: Int64s, term: int) -> int:
    """Give how often a term is expected; one that is not known yet is the rarest."""
    return frequency[term] if term < len(frequency) else 0


@kernel
def rarest_terms(rows: Rows, row: int, frequency: Int64s) -> tuple[int, int, int]:
    """Give the three rarest required terms of a row, of equally rare ones the newest first."""
    one = two = three = NO_TERM
    much_one = much_two = much_three = np.int64(2**62)
    first = rows.first[row]
    for at in range(first, first + rows.required[row]):
        term = np.int64(rows.terms[at])
        much = frequency_of(frequency, term)
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


@kernel
def write_record(
    rows: Rows, row: int, frequency: Int64s, record: Float32s, ints: Int32s, at: int
) -> int:
    """Write the record of a row to `record[at : at + 8]`, and give its key."""
    box = rows.box
    record[at] = rounded_down(box[row, 0])
    record[at + 1] = rounded_down(box[row, 1])
    record[at + 2] = rounded_up(box[row, 2])
    record[at + 3] = rounded_up(box[row, 3])
    key, second, third = rarest_terms(rows, row, frequency)
    exact = rows.required[row] > 3 or rows.flags[row] & (CIRCLE | POLYGON | EXCLUDES) != 0
    ints[at + ROW] = ~row if exact else row
    ints[at + SECOND] = second
    ints[at + THIRD] = third
    ints[at + KEY] = key
    return key
