"""The arrays of the top-k core, and what is where in them.

Kernels take two named tuples: `TopkState`, which is all there is to know, and `TopkScratch`, which
one call works in. Records are rows of flat arrays that are seen both as 64-bit floats
and as 32-bit integers; the names below say at which place of the row a field is.

Lists and buffers are *regions* of arenas. A region has one of a few sizes, its class; a freed one
is chained to the others of its class by its first integer. Message numbers count up from 0; message
`v` has the row `v & mask` of the ring.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s, Shorts

# A subscription: 8 floats, 16 integers. What matching reads.
SUB = 8
X, Y, ALPHA, SQUARED, THETA = range(5)
"""ALPHA has a minus sign (0 too) if nearness is by a scale in metres, the one in `scales`."""
TERM_COUNT, TERMS, INLINE = 10, 11, 5
"""Its terms are inline, or, where there are more, from the pair that `TERMS` names in `more`."""

# Its seat, a second record: 8 floats, 16 integers. What changes: its buffer, the score and number
# of its k-th message, and its place in the chain of those that wait for the expiry of a message.
KTH_SCORE = 0
KTH_NUMBER, BUFFER, BEGIN, END, K_AND_CLASS, NEXT_SEAT, BEFORE, MEMBERS, LOGGED = range(2, 11)
PLACES = 11
"""Where its postings are in the lists of its terms, in the order of its terms."""

NOT_FILED = -(1 << 31)
"""`NEXT_SEAT` of a seat that waits for no expiry; a chain ends with -1.

`BEFORE` is the seat before it in its chain; of the first one, -2 less the message it waits for."""

# A message: 4 floats, 4 integers.
MESSAGE = 4
AT = 3
FIRST_TERM, LENGTH, SEATS = range(3)
TAKEN_OUT = -1
"""`LENGTH` of a message that was taken out of the window: a hole, until the oldest have left."""

# A list of a term: of messages in the window (a circle), or of subscriptions.
LIST = 4
OFFSET, SIZE, COUNT, OLDEST = range(4)
MESSAGE_PLANES = 3
"""Message number, place, weights; the last two are pairs of 16-bit numbers."""
POSTING_PLANES = 6
PX, PY, PTHETA, PWEIGHT, PREST, PALPHA = range(6)
"""Of 16 bits each; the numbers of subscriptions, 32 bits each, follow."""
POSTING = 4
"""How many integers of 32 bits a posting takes."""
PSUB = 3
"""Where the numbers begin, in integers a posting."""

NOTHING = -2.0
"""Below every score: the threshold of a buffer that has all there is."""

BUFFER_SIZES = np.array([8, 16, 32, 56, 96, 160, 288, 512, 896, 1600, 2816], np.int64)
CLASSES = 32

# Scalars of the state.
(
    FIRST, NEXT, DUE, MESSAGE_MASK, WINDOW_COUNT, TERM_TAIL, LIST_END, POSTING_END, BUFFER_END,
    MORE_END, CHANGES, EVENT_START, NEEDED, LAZY, AHEAD, STEPS_AHEAD,
) = range(16)  # fmt: skip
(
    CANDIDATES, AFFECTED, VERIFIED_LISTS, ADDED, REMOVED, REFRESHED, REFILED, REEVALUATED, CUT,
    SCANNED, MATCH_CYCLES, BUFFER_CYCLES, EXPIRY_CYCLES, WINDOW_CYCLES, VISITED,
) = range(16, 31)  # fmt: skip
HOLES = 31
SCALARS = 32
COUNTERS = (
    "candidates", "affected", "verified", "added", "removed", "refreshed", "refiled",
    "reevaluated", "cut", "scanned", "match_cycles", "buffer_cycles", "expiry_cycles",
    "window_cycles", "visited",
)  # fmt: skip

# What a kernel that stopped asks for.
DONE, MORE_CHANGES, MORE_RING, MORE_TERMS, MORE_LISTS, MORE_BUFFERS, MORE_POSTINGS, MORE_MORE = (
    range(8)
)


class TopkState(NamedTuple):
    """All that the core knows."""

    scalars: Int64s
    measures: Floats  # west, south and diagonal of the space, seconds of the window
    idf: Floats
    message_f: Floats
    message_i: Int32s
    message_terms: Int32s  # a circle of terms; -n behind one that its message has n times
    lists: Int32s
    list_i: Int32s
    list_free: Int32s
    posts: Int32s
    post_s: Shorts
    post_i: Int32s
    post_free: Int32s
    sub_f: Floats
    sub_i: Int32s
    seat_f: Floats
    seat_i: Int32s
    buffer_f: Floats
    buffer_i: Int32s
    buffer_l: Int64s  # scores as integers, which are ordered alike: none is below 0
    buffer_free: Int32s
    more: Int32s  # pairs of a term and its place, of subscriptions with many terms
    more_free: Int32s
    scales: Floats  # metres, of subscriptions that have one


class TopkScratch(NamedTuple):
    """What one call keeps meanwhile, and what it answers."""

    terms: Int32s  # of the message at hand, highest number first; 16 at least
    weights: Floats
    idfs: Floats
    products: Floats  # of the weights of both sides; behind those of sixteen terms is a 0
    likeness: Float32s  # the weight of each, of a vector of length 1
    rest: Float32s  # the length of what follows it
    keys: Int32s  # a small table of them
    key_weights: Floats
    key_idfs: Floats
    peaks: Float32s  # what the best of some messages are known to score
    found: Int32s  # pairs of a subscription and a term, or messages
    affected: Int32s
    scores: Floats
    best_scores: Floats
    best_numbers: Int32s
    changes: Int32s  # event, op, subscription, message
    change_scores: Floats


PEAKS = 4096
FOUND = 4096


def buffer_class(k: int) -> int:
    """The class of the largest buffer that a subscription to the k best may have."""
    return int(np.searchsorted(BUFFER_SIZES, 2.75 * k))
