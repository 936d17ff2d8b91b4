"""Posting lists of (cell, term): found by hashing, sorted, changed in place."""

from __future__ import annotations

from nearcast._jit import inlined, inner
from nearcast.arrays.numbers import wide
from nearcast.topk.skype._layout import (
    ALPHA_AFTER,
    ALPHA_STAR,
    CELL,
    CIQ,
    COUNT,
    ENTRY_END,
    K_STAR,
    LARGEST_AFTER,
    LARGEST_NEXT,
    LIST_COUNT,
    METHOD,
    NEXT_OF_TERM,
    OFFSET,
    PLANES,
    ROW,
    SIZE,
    TERM,
    WEIGHT,
    SkypeArrays,
)

_SPREAD = 0x9E3779B97F4A7C1
_SHIFT = 1 << 32


@inlined
def _home(index: SkypeArrays, key: int) -> int:
    mixed = key * _SPREAD
    return (mixed ^ (mixed >> 29)) & (len(index.keys) - 1)


@inlined
def find_list(index: SkypeArrays, cell: int, term: int) -> int:
    """The list of a cell and a term, or -1."""
    key = cell * _SHIFT + term
    at = _home(index, key)
    while index.keys[at] >= 0:
        if index.keys[at] == key:
            return wide(index.values[at])
        at = (at + 1) & (len(index.keys) - 1)
    return wide(-1)


@inner
def put_key(index: SkypeArrays, key: int, number: int) -> None:
    """Enter a key that is not there."""
    at = _home(index, key)
    while index.keys[at] >= 0:
        at = (at + 1) & (len(index.keys) - 1)
    index.keys[at], index.values[at] = key, number


@inner
def list_for(index: SkypeArrays, cell: int, term: int) -> int:
    """The list of a cell and a term, made if there is none; there must be room."""
    found = find_list(index, cell, term)
    if found >= 0:
        return found
    number = wide(index.options[LIST_COUNT])
    index.options[LIST_COUNT] = number + 1
    put_key(index, cell * _SHIFT + term, number)
    row = number * ROW
    index.lists[row + SIZE], index.lists[row + COUNT] = -1, 0
    index.lists[row + CELL], index.lists[row + TERM] = cell, term
    index.lists[row + NEXT_OF_TERM] = index.term_heads[term]
    index.term_heads[term] = number
    return number


@inlined
def sub_place(index: SkypeArrays, size: int, at: int, n: int) -> int:
    """Where the subscription of a posting is; its group is `size` further."""
    return 2 * (at + wide(index.options[PLANES]) * size) + n


@inner
def _grow(index: SkypeArrays, number: int) -> None:
    row = number * ROW
    old = wide(index.lists[row + SIZE])
    kind = old + 1
    size = wide(1) << kind
    to = wide(index.entry_free[kind])
    if to >= 0:
        index.entry_free[kind] = index.entry_i[2 * to]
    else:
        to = wide(index.options[ENTRY_END])
        index.options[ENTRY_END] += (index.options[PLANES] + 1) * size
    if old >= 0:
        had, at = wide(1) << old, wide(index.lists[row + OFFSET])
        for n in range(wide(index.lists[row + COUNT])):
            for plane in range(index.options[PLANES]):
                index.entry_f[to + plane * size + n] = index.entry_f[at + plane * had + n]
            old_place, place = sub_place(index, had, at, n), sub_place(index, size, to, n)
            index.entry_i[place] = index.entry_i[old_place]
            index.entry_i[place + size] = index.entry_i[old_place + had]
        index.entry_i[2 * at] = index.entry_free[old]
        index.entry_free[old] = at
    index.lists[row + OFFSET], index.lists[row + SIZE] = to, kind


@inner
def open_place(index: SkypeArrays, number: int, k_star: float, sub: int, group: int) -> int:
    """Make room for a posting where it belongs: by subscription, or by group and threshold."""
    row = number * ROW
    count = wide(index.lists[row + COUNT])
    if index.lists[row + SIZE] < 0 or count == (1 << index.lists[row + SIZE]):
        _grow(index, number)
    size, at = wide(1) << index.lists[row + SIZE], wide(index.lists[row + OFFSET])
    by_sub = index.options[METHOD] == CIQ
    n = count
    while n > 0:
        place = sub_place(index, size, at, n - 1)
        other = wide(index.entry_i[place + size])
        if by_sub:
            if index.entry_i[place] < sub:
                break
        elif other < group or (other == group and index.entry_f[at + n - 1] <= k_star):
            break
        for plane in range(index.options[PLANES]):
            index.entry_f[at + plane * size + n] = index.entry_f[at + plane * size + n - 1]
        index.entry_i[place + 1] = index.entry_i[place]
        index.entry_i[place + size + 1] = index.entry_i[place + size]
        n -= 1
    index.lists[row + COUNT] = count + 1
    place = sub_place(index, size, at, n)
    index.entry_i[place], index.entry_i[place + size] = sub, group
    index.entry_f[at + K_STAR * size + n] = k_star
    return n


@inner
def close_place(index: SkypeArrays, number: int, n: int) -> None:
    """Take a posting out."""
    row = number * ROW
    size, at = wide(1) << index.lists[row + SIZE], wide(index.lists[row + OFFSET])
    count = wide(index.lists[row + COUNT]) - 1
    for m in range(n, count):
        for plane in range(index.options[PLANES]):
            index.entry_f[at + plane * size + m] = index.entry_f[at + plane * size + m + 1]
        place = sub_place(index, size, at, m)
        index.entry_i[place] = index.entry_i[place + 1]
        index.entry_i[place + size] = index.entry_i[place + size + 1]
    index.lists[row + COUNT] = count


@inner
def place_in(index: SkypeArrays, number: int, sub: int) -> int:
    """Where a subscription is in a list that has it."""
    row = number * ROW
    size, at = wide(1) << index.lists[row + SIZE], wide(index.lists[row + OFFSET])
    low, high = 0, wide(index.lists[row + COUNT]) - 1
    if index.options[METHOD] == CIQ:
        while low < high:
            middle = (low + high) // 2
            if index.entry_i[sub_place(index, size, at, middle)] < sub:
                low = middle + 1
            else:
                high = middle
        return low
    while index.entry_i[sub_place(index, size, at, low)] != sub:
        low += 1
    return low


@inner
def sum_up_group(index: SkypeArrays, number: int, group: int) -> None:
    """Note, at each posting of a group, the largest weight and alpha from there on."""
    row = number * ROW
    size, at = wide(1) << index.lists[row + SIZE], wide(index.lists[row + OFFSET])
    largest, alpha = 0.0, 0.0
    for back in range(wide(index.lists[row + COUNT])):
        n = wide(index.lists[row + COUNT]) - 1 - back
        other = wide(index.entry_i[sub_place(index, size, at, n) + size])
        if other < group:
            return
        if other == group:
            weight = index.entry_f[at + WEIGHT * size + n]
            largest = max(largest, max(weight, index.entry_f[at + LARGEST_NEXT * size + n]))
            alpha = max(alpha, index.entry_f[at + ALPHA_STAR * size + n])
            index.entry_f[at + LARGEST_AFTER * size + n] = largest
            index.entry_f[at + ALPHA_AFTER * size + n] = alpha
