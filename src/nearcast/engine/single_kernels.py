"""One message at a point from its letters to the owners that it reaches, in one call."""

from __future__ import annotations

from nearcast._jit import lean_kernel
from nearcast.arrays.by_address import (
    bools_at,
    boxes_at,
    bytes_at,
    circles_at,
    fixed_bytes_at,
    fixed_words_at,
    float32s_at,
    floats_at,
    int8s_at,
    int32s_at,
    int64s_at,
    pairs_at,
    slots_at,
    words_at,
)
from nearcast.arrays.types import Int64s
from nearcast.engine.key_kernels import read_keys
from nearcast.engine.prefix_memo import PrefixMemo
from nearcast.index.rarest_term import RarestTermArrays, match_batch
from nearcast.index.table import Parts, Rows

INDEX, TABLE, TERMS, ASKED, OWN = 0, 5, 16, 25, 28
"""Where the arrays of each group begin: five of the index, those of `Rows`, the slots, secret,
marks, filters, memo and frequencies of terms, the lengths and names asked for, and room for one
message.
"""
NOT_DONE = -1


@lean_kernel
def match_single(
    where: Int64s, size: int, lon: float, lat: float, mark: int, all_known: bool, everyone: int,
    keys: int,
) -> tuple[int, int, int]:  # fmt: skip
    """Find the rows that match a message, and their owners.

    `where` has the addresses of all arrays; the text is the first `size` bytes of its array, and
    of the keys of properties there are so many. Gives
    how many rows there are, how many were looked at, and the flags that any of them has; or
    NOT_DONE, and no other effect, if they are too many for the room.
    """
    state = RarestTermArrays(
        int32s_at(where, INDEX), int32s_at(where, INDEX + 1), int64s_at(where, INDEX + 2),
        float32s_at(where, INDEX + 3), int32s_at(where, INDEX + 4),
    )  # fmt: skip
    rows = Rows(
        boxes_at(where, TABLE), int32s_at(where, TABLE + 1), bytes_at(where, TABLE + 2),
        int32s_at(where, TABLE + 3), int32s_at(where, TABLE + 4), int32s_at(where, TABLE + 5),
        circles_at(where, TABLE + 6), int32s_at(where, TABLE + 7), int32s_at(where, TABLE + 8),
        floats_at(where, TABLE + 9), floats_at(where, TABLE + 10),
    )  # fmt: skip
    parts = Parts(rows.box, rows.flags, rows.first, rows.required, rows.terms)
    offsets, starts = int64s_at(where, OWN + 1), int64s_at(where, OWN + 3)
    terms, box = int32s_at(where, OWN + 4), boxes_at(where, OWN + 18)
    found, owners = int32s_at(where, OWN + 22), int32s_at(where, OWN + 23)
    memo = PrefixMemo(
        int32s_at(where, TERMS + 5), int32s_at(where, TERMS + 6), int64s_at(where, TERMS + 7)
    )
    # The terms and keys of the text.
    offsets[1] = size
    read_keys(
        slots_at(where, TERMS), fixed_words_at(where, TERMS + 1), fixed_bytes_at(where, OWN),
        offsets, bools_at(where, OWN + 2), int64s_at(where, ASKED), int64s_at(where, ASKED + 1),
        all_known, words_at(where, TERMS + 3), words_at(where, TERMS + 4), memo, everyone,
        int64s_at(where, TERMS + 2), mark, starts, terms, slots_at(where, OWN + 5),
        pairs_at(where, OWN + 6), int32s_at(where, OWN + 7), bytes_at(where, OWN + 8),
        slots_at(where, ASKED + 2), fixed_bytes_at(where, OWN + 9), int64s_at(where, OWN + 10),
        pairs_at(where, OWN + 11), int8s_at(where, OWN + 12), pairs_at(where, OWN + 13),
        floats_at(where, OWN + 14), int64s_at(where, OWN + 15), int32s_at(where, OWN + 16),
        floats_at(where, OWN + 17),
    )  # fmt: skip
    own = int32s_at(where, OWN + 24)
    for at in range(keys):
        terms[starts[1] + at] = own[at]
    starts[1] += keys
    # What it matches.
    box[0, 0], box[0, 1], box[0, 2], box[0, 3] = lon, lat, lon, lat
    following, written, looked, _ = match_batch(
        state, parts, rows, starts, terms, box, words_at(where, OWN + 19),
        int64s_at(where, OWN + 20), 0, int32s_at(where, OWN + 21), found,
    )  # fmt: skip
    if following == 0:
        return NOT_DONE, 0, 0
    frequency = int64s_at(where, TERMS + 8)
    for at in range(starts[1]):
        frequency[terms[at]] += 1
    flags = 0
    for at in range(written):
        owners[at] = rows.owner[found[at]]
        flags |= rows.flags[found[at]]
    return written, looked, flags
