"""Subscriptions in the posting lists of IGPT and CIQ: entering, leaving, and new thresholds."""

from __future__ import annotations

from math import sqrt

from nearcast._jit import inlined, inner
from nearcast.arrays.numbers import wide
from nearcast.topk.kernels.layout import (
    ALPHA,
    SQUARED,
    SUB,
    TERM_COUNT,
    THETA,
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.postings import post, set_theta, term_of, withdraw
from nearcast.topk.skype._layout import (
    ALPHA_STAR,
    CELL_FIELDS,
    CIQ,
    COUNT,
    DEPTH,
    EAST,
    ENTRY_END,
    IGPT,
    INNER_DISTANCE,
    LAMBDA,
    LARGEST_NEXT,
    LIST_COUNT,
    METHOD,
    NORTH,
    OFFSET,
    PLANES,
    ROW,
    SIZE,
    SOUTH,
    TAAT,
    WEIGHT,
    WEIGHT_SUM,
    WEST,
    SkypeArrays,
)
from nearcast.topk.skype._lists import (
    close_place,
    find_list,
    list_for,
    open_place,
    place_in,
    sum_up_group,
)

_LEAST = 1e-9
"""What 1 - alpha is at least: the paper divides by it."""


@inlined
def outside(index: SkypeArrays, cell: int, x: float, y: float) -> float:
    """The distance from a point to a cell; 0 inside."""
    row = cell * CELL_FIELDS
    dx = max(0.0, max(index.cells[row + WEST] - x, x - index.cells[row + EAST]))
    dy = max(0.0, max(index.cells[row + SOUTH] - y, y - index.cells[row + NORTH]))
    return sqrt(dx * dx + dy * dy)


@inlined
def _group_of(index: SkypeArrays, alpha: float) -> int:
    group = 0
    while group < len(index.group_edges) and alpha >= index.group_edges[group]:
        group += 1
    return group


@inlined
def _cover(state: TopkState, sub: int, n: int, at: int) -> int:
    """The n-th cell by which CIQ covers a subscription; cells are numbered level by level.

    The cells are those beside the way down to the subscription, and the last of that way.
    """
    level, beside = n // 3 + 1, n % 3
    if n == 3 * DEPTH:
        level, beside = DEPTH, -1
    west, south, size = state.measures[0], state.measures[1], state.measures[2]
    parts = 1 << level
    across = min(wide((state.sub_f[SUB * sub + X] - west) / size * parts), parts - 1)
    up = min(wide((state.sub_f[SUB * sub + Y] - south) / size * parts), parts - 1)
    if beside >= 0:
        quarter = (2 * (up & 1) + (across & 1) + 1 + beside) & 3
        across, up = (across & ~1) | (quarter & 1), (up & ~1) | (quarter >> 1)
    first = ((1 << (2 * level)) - 1) // 3
    return first + up * parts + across + at


@inner
def _enter_list(
    state: TopkState, index: SkypeArrays, sub: int, n: int, cell: int, total: float, group: int
) -> None:
    """Enter a subscription into the list of a cell and its n-th term."""
    row = SUB * sub
    alpha, theta = state.sub_f[row + ALPHA], state.sub_f[row + THETA]
    other = max(1.0 - alpha, _LEAST)
    term = term_of(state, sub, n)
    weight = state.idf[term] / total
    weight_sum, largest_next = weight, 0.0
    for m in range(state.sub_i[2 * row + TERM_COUNT]):
        following = term_of(state, sub, m)
        if following < term:
            weight_sum += state.idf[following] / total
            largest_next = max(largest_next, state.idf[following] / total)
    x, y, diagonal = state.sub_f[row + X], state.sub_f[row + Y], state.measures[2]
    box = cell * CELL_FIELDS
    number = list_for(index, cell, term)
    if index.options[METHOD] == CIQ:
        near = 1.0 - outside(index, cell, x, y) / diagonal
        place = open_place(index, number, (theta - alpha * near) / other, sub, 0)
    else:
        place = open_place(index, number, theta / other, sub, group)
    size = wide(1) << index.lists[number * ROW + SIZE]
    at = wide(index.lists[number * ROW + OFFSET]) + place
    index.entry_f[at + WEIGHT * size] = weight
    if index.options[METHOD] == CIQ:
        return
    index.entry_f[at + ALPHA_STAR * size] = alpha / other
    index.entry_f[at + WEIGHT_SUM * size] = weight_sum
    index.entry_f[at + LARGEST_NEXT * size] = largest_next
    index.entry_f[at + INNER_DISTANCE * size] = max(
        0.0,
        min(
            min(x - index.cells[box + WEST], index.cells[box + EAST] - x),
            min(y - index.cells[box + SOUTH], index.cells[box + NORTH] - y),
        ),
    )
    sum_up_group(index, number, group)


@inner
def room_for(state: TopkState, index: SkypeArrays, sub: int) -> bool:
    """Whether the lists of a subscription can be made, or grow by one."""
    row = SUB * sub
    count = wide(state.sub_i[2 * row + TERM_COUNT])
    ciq = index.options[METHOD] == CIQ
    covers = 3 * DEPTH + 1 if ciq else 1
    lists = index.options[LIST_COUNT] + count * covers
    if lists * ROW > len(index.lists) or 2 * lists > len(index.keys):
        return False
    needed = wide(index.options[ENTRY_END])
    for n in range(count):
        term = term_of(state, sub, n)
        for m in range(covers):
            cell = _cover(state, sub, m, 0) if ciq else wide(index.sub_cells[sub])
            number = find_list(index, cell, term)
            if number < 0 or index.lists[number * ROW + SIZE] < 0:
                needed += index.options[PLANES] + 1
            elif index.lists[number * ROW + COUNT] == (1 << index.lists[number * ROW + SIZE]):
                needed += (index.options[PLANES] + 1) * (
                    wide(2) << index.lists[number * ROW + SIZE]
                )
    return bool(needed <= len(index.entry_f))


@inner
def insert_sub(state: TopkState, index: SkypeArrays, sub: int) -> None:
    """Enter a subscription, with the threshold it has."""
    if index.options[METHOD] == TAAT:
        post(state, sub)
        return
    row = SUB * sub
    total = sqrt(state.sub_f[row + SQUARED])
    group = _group_of(index, state.sub_f[row + ALPHA])
    count = state.sub_i[2 * row + TERM_COUNT]
    if index.options[METHOD] == CIQ:
        for n in range(count):
            for cell in range(3 * DEPTH + 1):
                _enter_list(state, index, sub, n, _cover(state, sub, cell, 0), total, 0)
        return
    cell = wide(index.sub_cells[sub])
    for n in range(count):
        _enter_list(state, index, sub, n, cell, total, group)
    _enter_cell(state, index, sub, cell)


@inlined
def _spatial_threshold(state: TopkState, sub: int) -> float:
    """Equation 8; no score is below 0, so no threshold counts as less."""
    alpha = state.sub_f[SUB * sub + ALPHA]
    if alpha <= 0.0:
        return -1e300
    return float((max(state.sub_f[SUB * sub + THETA], 0.0) - (1.0 - alpha)) / alpha)


@inner
def _enter_cell(state: TopkState, index: SkypeArrays, sub: int, cell: int) -> None:
    after = wide(index.cell_heads[cell])
    index.neighbours[2 * sub], index.neighbours[2 * sub + 1] = after, -1
    if after >= 0:
        index.neighbours[2 * after + 1] = sub
    index.cell_heads[cell] = sub
    least = cell * CELL_FIELDS + LAMBDA
    index.cells[least] = min(index.cells[least], _spatial_threshold(state, sub))


@inner
def _leave_cell(state: TopkState, index: SkypeArrays, sub: int, cell: int) -> None:
    """Take a subscription out of its cell, whose least threshold stays that of those in it."""
    after, before = wide(index.neighbours[2 * sub]), wide(index.neighbours[2 * sub + 1])
    if before >= 0:
        index.neighbours[2 * before] = after
    else:
        index.cell_heads[cell] = after
    if after >= 0:
        index.neighbours[2 * after + 1] = before
    place = cell * CELL_FIELDS + LAMBDA
    if _spatial_threshold(state, sub) > index.cells[place]:
        return
    least, other = 1e300, wide(index.cell_heads[cell])
    while other >= 0:
        least = min(least, _spatial_threshold(state, other))
        other = wide(index.neighbours[2 * other])
    index.cells[place] = least


@inner
def remove_sub(state: TopkState, index: SkypeArrays, sub: int) -> None:
    """Take a subscription out of its lists and of its cell."""
    if index.options[METHOD] == TAAT:
        withdraw(state, sub)
        return
    row = SUB * sub
    ciq = index.options[METHOD] == CIQ
    for n in range(state.sub_i[2 * row + TERM_COUNT]):
        term = term_of(state, sub, n)
        for m in range(3 * DEPTH + 1 if ciq else 1):
            cell = _cover(state, sub, m, 0) if ciq else wide(index.sub_cells[sub])
            number = find_list(index, cell, term)
            close_place(index, number, place_in(index, number, sub))
            if not ciq:
                sum_up_group(index, number, _group_of(index, state.sub_f[row + ALPHA]))
    if not ciq:
        _leave_cell(state, index, sub, wide(index.sub_cells[sub]))


@inner
def change_theta(state: TopkState, index: SkypeArrays, sub: int, theta: float) -> None:
    """Change the threshold of a subscription everywhere."""
    if index.options[METHOD] == TAAT:
        set_theta(state, sub, theta)
        return
    if index.options[METHOD] == IGPT:
        remove_sub(state, index, sub)
        state.sub_f[SUB * sub + THETA] = theta
        insert_sub(state, index, sub)
        return
    row = SUB * sub
    state.sub_f[row + THETA] = theta
    alpha, diagonal = state.sub_f[row + ALPHA], state.measures[2]
    for m in range(3 * DEPTH + 1):
        cell = _cover(state, sub, m, 0)
        near = 1.0 - outside(index, cell, state.sub_f[row + X], state.sub_f[row + Y]) / diagonal
        least = (theta - alpha * near) / max(1.0 - alpha, _LEAST)
        for n in range(state.sub_i[2 * row + TERM_COUNT]):
            number = find_list(index, cell, term_of(state, sub, n))
            place = place_in(index, number, sub)
            index.entry_f[wide(index.lists[number * ROW + OFFSET]) + place] = least
