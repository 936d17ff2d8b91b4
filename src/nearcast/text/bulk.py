"""Many queries at once, straight to disjunctive normal form.

A kernel reads the usual forms in ASCII: words, phrases, prefixes and properties, joined by AND, OR,
NOT and parentheses. What is rare, long or wrong is left to `parse_query`, which reads everything
and makes all error messages. Both give the same conjuncts in the same order.

The *members* of a query are its distinct terms and other operands. A conjunct is two sets of them,
as bits: those to have and those to lack. A phrase that a conjunct has comes with its terms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast._jit import inner, kernel
from nearcast.arrays.types import Bits, Bools, Bytes, Int64s
from nearcast.text._clauses import MOST_CLAUSES, both, close_side, times, write_conjuncts
from nearcast.text._letters import (
    has_same_tokens,
    is_alnum,
    is_blank,
    is_digit,
    is_same,
    name_end,
    number_end,
    small,
)
from nearcast.text.analyser import DEFAULT, Analyser
from nearcast.text.columns import buffers, not_ascii
from nearcast.text.keys import LONGEST_PHRASE

TERM, PHRASE, PREFIX, EXISTS, STRING, FLAG, TRUTH, NUMBER = range(8)
"""Kinds of members; TRUTH is a string that reads as true or false, and is in quotes."""
LESS, AT_MOST, MORE, AT_LEAST, BETWEEN = range(8, 13)
"""Further kinds: properties that are compared with numbers."""
BEGIN, END, NAME, NAME_END, KEY, KEY_END = range(6)
"""What `spans` has: letters or value, the name of a property, and the key (see `keys`)."""
INEXACT = (1 << TRUTH) | (1 << NUMBER) | (0b11111 << LESS)
"""The kinds, as bits, of which a residual predicate has to decide even where the key is there."""

_MOST_MEMBERS, _DEEPEST = 48, 6
_LONGEST_NUMBER, _LONGEST_WHOLE = 40, 15
_MORE_CONJUNCTS = 8  # room for each query; what needs more finds none, and is left
_AND, _OR, _NOT = 1, 2, 3


class BulkQueries(NamedTuple):
    """Queries that were read, and which were left.

    Query i has the members `starts[i]` to `starts[i + 1]` and the conjuncts `conjuncts[i]` to
    `conjuncts[i + 1]`. Bit b of a conjunct is member `starts[i] + b`.
    """

    left: Bools
    data: Bytes
    keys: Bytes
    starts: Int64s
    kinds: Bytes
    spans: Int64s  # (n, 6), in `data`; of the keys in `keys`
    conjuncts: Int64s
    required: Bits
    excluded: Bits


def read_queries(queries: pa.StringArray, analyser: Analyser = DEFAULT) -> BulkQueries:
    """Read a column of queries, none of them null."""
    data, offsets = buffers(queries)
    plain = analyser == DEFAULT
    left = not_ascii(data, offsets) if plain else np.ones(len(queries), np.bool_)
    count, size = len(queries), int(offsets[-1] - offsets[0])
    room = size // 2 + 2 * count + _MOST_MEMBERS
    starts, conjuncts = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    kinds, spans = np.empty(room, np.uint8), np.empty((room, 6), np.int64)
    keys = np.empty(4 * size + 16 * count + 64, np.uint8)
    clauses = _MORE_CONJUNCTS * count + MOST_CLAUSES
    required, excluded = np.empty(clauses, np.uint64), np.empty(clauses, np.uint64)
    _read(data, offsets, left, starts, kinds, spans, keys, conjuncts, required, excluded)
    members, found = int(starts[-1]), int(conjuncts[-1])
    return BulkQueries(
        left, data, keys, starts, kinds[:members], spans[:members], conjuncts, required[:found],
        excluded[:found],
    )  # fmt: skip


@inner
def _is_truth(data: Bytes, at: int, stop: int) -> bool:
    """Return whether a span is true or false, but for capital letters."""
    if stop - at == 4:
        return bool(
            small(data[at]) == 116 and small(data[at + 1]) == 114
            and small(data[at + 2]) == 117 and small(data[at + 3]) == 101
        )  # fmt: skip
    return bool(
        stop - at == 5 and small(data[at]) == 102 and small(data[at + 1]) == 97
        and small(data[at + 2]) == 108 and small(data[at + 3]) == 115 and small(data[at + 4]) == 101
    )  # fmt: skip


@inner
def _operator(data: Bytes, at: int, end: int) -> int:
    """Return which operator a word is, 0 if it is none."""
    if end - at == 2:
        return _OR if data[at] == 79 and data[at + 1] == 82 else 0
    if end - at != 3:
        return 0
    if data[at] == 65 and data[at + 1] == 78 and data[at + 2] == 68:
        return _AND
    return _NOT if data[at] == 78 and data[at + 1] == 79 and data[at + 2] == 84 else 0


@inner
def _is_equal(data: Bytes, a: int, a_end: int, b: int, b_end: int) -> bool:
    if a_end - a != b_end - b:
        return False
    for step in range(a_end - a):  # noqa: SIM110 - kernels have no generators
        if data[a + step] != data[b + step]:
            return False
    return True


@inner
def _member(
    data: Bytes, kinds: Bytes, spans: Int64s, base: int, count: int, kind: int, begin: int,
    end: int, name: int, name_stop: int,
) -> int:  # fmt: skip
    """Return the number of a member that may be there already; -1 if that cannot be said."""
    for number in range(count):
        place = base + number
        if kinds[place] != kind:
            continue
        a, a_end = spans[place, BEGIN], spans[place, END]
        if kind == PHRASE:
            if has_same_tokens(data, a, a_end, begin, end):
                return number
            continue
        if kind > PREFIX and not _is_equal(
            data, spans[place, NAME], spans[place, NAME_END], name, name_stop
        ):
            continue
        if kind == EXISTS or is_same(data, a, a_end, begin, end):
            return number
        if kind >= LESS:
            return -1  # perhaps the same number, written in another way
    if count == _MOST_MEMBERS:
        return -1
    place = base + count
    kinds[place] = kind
    spans[place, BEGIN], spans[place, END] = begin, end
    spans[place, NAME], spans[place, NAME_END] = name, name_stop
    spans[place, KEY] = spans[place, KEY_END] = 0
    return count


@inner
def _write_key(data: Bytes, keys: Bytes, used: int, spans: Int64s, place: int, kind: int) -> int:
    """Write the key of a new member, as `keys` has it, and return where it ends."""
    spans[place, KEY] = used
    keys[used] = 0
    mark = 63  # ?
    if kind == PHRASE:
        return _write_phrase(data, keys, used, spans, place)
    if kind == PREFIX:
        mark = 94  # ^
    elif kind == NUMBER:
        mark = 35  # #
    elif STRING <= kind <= TRUTH:
        mark = 61  # =
    keys[used + 1] = mark
    used += 2
    for at in range(spans[place, NAME], spans[place, NAME_END]):
        keys[used] = data[at]
        used += 1
    if mark != 63:
        if kind != PREFIX:
            keys[used] = 0
            used += 1
        for at in range(spans[place, BEGIN], spans[place, END]):
            keys[used] = small(data[at])
            used += 1
        if kind == NUMBER:  # as a double is written
            keys[used], keys[used + 1] = 46, 48
            used += 2
    spans[place, KEY_END] = used
    return used


@inner
def _write_phrase(data: Bytes, keys: Bytes, used: int, spans: Int64s, place: int) -> int:
    """Write the key of a phrase: its terms with a blank between two of them."""
    keys[used + 1] = 126  # ~
    used += 2
    first = used
    begin = spans[place, BEGIN]
    for at in range(begin, spans[place, END]):
        if is_alnum(data[at]):
            if used > first and not is_alnum(data[at - 1]):
                keys[used] = 32
                used += 1
            keys[used] = small(data[at])
            used += 1
    spans[place, KEY_END] = used
    return used


@inner
def tokens_in(data: Bytes, begin: int, end: int) -> int:
    """Return how many terms a span has; no letter or digit stands right before it."""
    tokens = 0
    for at in range(begin, end):
        tokens += is_alnum(data[at]) and not is_alnum(data[at - 1])
    return tokens


@inner
def _closed(data: Bytes, at: int, stop: int) -> bool:
    """Return whether nothing sticks to a closing quote or bracket before `at`."""
    return bool(at == stop or data[at] == 41 or is_blank(data[at]))


@inner
def _quote_end(data: Bytes, at: int, stop: int) -> int:
    """Return the place of the closing quote from `at` on; -1 if it is missing, or has escapes."""
    while at < stop and data[at] != 34:
        if data[at] == 92:
            return -1
        at += 1
    return at if at < stop and _closed(data, at + 1, stop) else -1


@inner
def _bound_end(data: Bytes, at: int, stop: int) -> int:
    """Return where a number ends that can be no more than a double; -1 if there is none."""
    end = number_end(data, at, stop)
    return -1 if end < 0 or end - at > _LONGEST_NUMBER else end


@inner
def _range_end(data: Bytes, at: int, stop: int) -> int:
    """Return the place after a range in brackets that begins at `at`, or -1."""
    at += 1
    while at < stop and is_blank(data[at]):
        at += 1
    at = _bound_end(data, at, stop)
    if at < 0 or at == stop or not is_blank(data[at]):
        return -1
    while at < stop and is_blank(data[at]):
        at += 1
    if at + 2 >= stop or data[at] != 84 or data[at + 1] != 79 or not is_blank(data[at + 2]):
        return -1
    at += 2
    while at < stop and is_blank(data[at]):
        at += 1
    at = _bound_end(data, at, stop)
    if at < 0:
        return -1
    while at < stop and is_blank(data[at]):
        at += 1
    if at == stop or data[at] != 93 or not _closed(data, at + 1, stop):
        return -1
    return at + 1


@inner
def _comparison(data: Bytes, at: int, end: int) -> int:
    """Return the kind of a property from its value, which is not quoted and no range; or -1."""
    first = data[at]
    if first == 60 or first == 62:  # < or >
        closed = at + 1 < end and data[at + 1] == 61
        begin = at + 2 if closed else at + 1
        if begin == end or _bound_end(data, begin, end) != end:
            return -1
        if first == 60:
            return AT_MOST if closed else LESS
        return AT_LEAST if closed else MORE
    if first == 61 or first == 123:  # = or {
        return -1
    for place in range(at, end):
        if data[place] == 42:
            return EXISTS if end - at == 1 else -1
    if _is_truth(data, at, end):
        return FLAG
    if is_digit(first) or first == 45:
        digits = True
        for place in range(at + (first == 45), end):
            digits &= is_digit(data[place])
        if digits and number_end(data, at, end) == end:
            # Whole numbers up to this size are written in one way as doubles; not so -0.
            plain = end - at <= _LONGEST_WHOLE and not (first == 45 and data[at + 1] == 48)
            return NUMBER if plain else -1
        if number_end(data, at, end) >= 0:
            return -1  # a fraction, an exponent, or a string that begins like a number
    return STRING


@kernel
def _read(
    data: Bytes, offsets: Int64s, left: Bools, starts: Int64s, kinds: Bytes, spans: Int64s,
    keys: Bytes, conjuncts: Int64s, all_required: Bits, all_excluded: Bits,
) -> None:  # fmt: skip
    """Read queries; see `BulkQueries` for what the arrays get. `left` says which to pass over."""
    # By level of parentheses: the clauses of the current side of OR, and those of earlier sides.
    required = np.zeros((_DEEPEST + 1, MOST_CLAUSES), np.uint64)
    excluded = np.zeros((_DEEPEST + 1, MOST_CLAUSES), np.uint64)
    sides = np.zeros((_DEEPEST + 1, MOST_CLAUSES), np.uint64)
    lacking = np.zeros((_DEEPEST + 1, MOST_CLAUSES), np.uint64)
    counts, held = np.zeros(_DEEPEST + 1, np.int64), np.zeros(_DEEPEST + 1, np.int64)
    have, lack = np.zeros(MOST_CLAUSES, np.uint64), np.zeros(MOST_CLAUSES, np.uint64)
    one, none = np.uint64(1), np.uint64(0)
    base = written = used = 0
    for query in range(len(offsets) - 1):
        starts[query], conjuncts[query] = base, written
        if left[query]:
            continue
        members, key_used = 0, used
        level, negative, waiting, good = 0, False, True, True
        counts[0], held[0], required[0, 0], excluded[0, 0] = 1, 0, none, none
        at, stop = offsets[query], offsets[query + 1]
        while good:
            while at < stop and is_blank(data[at]):
                at += 1
            if at == stop:
                break
            letter = data[at]
            if letter == 40:  # (
                if negative or level == _DEEPEST:
                    good = False
                    break
                level += 1
                counts[level], held[level] = 1, 0
                required[level, 0] = excluded[level, 0] = none
                waiting = True
                at += 1
                continue
            if letter == 41:  # )
                good = not waiting and level > 0
                good = good and close_side(required, excluded, counts, sides, lacking, held, level)
                if good:
                    level -= 1
                    good = times(
                        required, excluded, counts, sides, lacking, held, level, have, lack
                    )
                at += 1
                continue
            # The word that begins here; none before a quote.
            end, colon, star = at, -1, -1
            while end < stop and not (
                is_blank(data[end]) or data[end] == 40 or data[end] == 41 or data[end] == 34
            ):
                if data[end] == 58 and colon < 0:
                    colon = end
                if data[end] == 42 and star < 0:
                    star = end
                end += 1
            quoted = end < stop and data[end] == 34
            size = end - at
            operator = 0 if quoted else _operator(data, at, end)
            if operator > 0:
                if operator == _NOT:
                    negative = not negative
                else:
                    good = not waiting
                    if operator == _OR:
                        good = good and close_side(
                            required, excluded, counts, sides, lacking, held, level
                        )
                waiting, at = True, end
                continue
            waiting = False
            bits = none
            if size > 0 and colon >= 0 and not is_digit(letter):
                # A property.
                name, name_stop = at, name_end(data, at, end)
                begin, kind = colon + 1, -1
                if name_stop == colon:
                    if begin < end and data[begin] == 91:  # [
                        after = _range_end(data, begin, stop)
                        if after > 0:
                            kind, end = BETWEEN, after
                        at = end
                    elif quoted:
                        close = _quote_end(data, end + 1, stop) if begin == end else -1
                        if close >= 0:
                            begin, end, at = end + 1, close, close + 1
                            kind = TRUTH if _is_truth(data, begin, end) else STRING
                    elif begin < end:
                        kind, at = _comparison(data, begin, end), end
                if kind < 0:
                    good = False
                    break
                number = _member(
                    data, kinds, spans, base, members, kind, begin, end, name, name_stop
                )
                if number < 0:
                    good = False
                    break
                if number == members:
                    members += 1
                    key_used = _write_key(data, keys, key_used, spans, base + number, kind)
                bits = one << np.uint64(number)
            elif size == 0 or star >= 0:
                # A phrase, or a prefix.
                if size == 0:
                    close = _quote_end(data, at + 1, stop)
                    if close < 0:
                        good = False
                        break
                    begin, end, kind, at = at + 1, close, PHRASE, close + 1
                    tokens = tokens_in(data, begin, end)
                    if tokens == 0 or tokens > LONGEST_PHRASE:
                        good = False
                        break
                else:
                    begin, kind, tokens, at = at, PREFIX, 0, end
                    end -= 1
                    for place in range(begin, end):
                        good = good and is_alnum(data[place])
                    good = good and star == end and end - begin >= 2 and not quoted
                    if not good:
                        break
                if tokens != 1:
                    number = _member(data, kinds, spans, base, members, kind, begin, end, 0, 0)
                    if number < 0:
                        good = False
                        break
                    if number == members:
                        members += 1
                        key_used = _write_key(data, keys, key_used, spans, base + number, kind)
                    bits = one << np.uint64(number)
                if tokens == 1 or (tokens > 1 and not negative):
                    place = begin
                    while place < end:
                        first = place
                        while place < end and is_alnum(data[place]):
                            place += 1
                        if place > first:
                            number = _member(
                                data, kinds, spans, base, members, TERM, first, place, 0, 0
                            )
                            if number < 0:
                                good = False
                                break
                            members += number == members
                            bits |= one << np.uint64(number)
                        place += 1
            else:
                # A word: each of its tokens is a term.
                if quoted or letter == 45 or letter == 33:
                    good = False
                    break
                tokens = 0
                while at < end:
                    first = at
                    while at < end and is_alnum(data[at]):
                        at += 1
                    if at > first:
                        tokens += 1
                        number = _member(data, kinds, spans, base, members, TERM, first, at, 0, 0)
                        if number < 0:
                            good = False
                            break
                        members += number == members
                        bits |= one << np.uint64(number)
                    at += 1
                at = end
                good = good and tokens > 0 and not (negative and tokens > 1)
            if good:
                if negative:
                    both(required, excluded, counts, level, none, bits)
                else:
                    both(required, excluded, counts, level, bits, none)
            negative = False
        good = good and not waiting and level == 0
        good = good and close_side(required, excluded, counts, sides, lacking, held, 0)
        good = good and written + held[0] <= len(all_required)
        after = -1
        if good:
            after = write_conjuncts(sides, lacking, held, all_required, all_excluded, written)
        if after < 0:
            left[query] = True
        else:
            base, written, used = base + members, after, key_used
    starts[len(offsets) - 1], conjuncts[len(offsets) - 1] = base, written
