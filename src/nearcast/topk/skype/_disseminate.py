"""Who is affected by a message: IGPT (section 5), CIQ, and plain term-at-a-time.

Every method ends with the exact score, recomputed, so all of them find the same. Algorithm 1 as
printed verifies by the similarity it accumulated, from which terms may be missing that a theorem
skipped; and the bound for unseen terms (theorem 2) is safe only where a subscription is met first.
`AS_PRINTED` does both as the paper says, and loses some results.
"""

from __future__ import annotations

from nearcast._jit import inlined, inner
from nearcast.arrays.numbers import wide
from nearcast.geo.kernels import planar_distance
from nearcast.topk.kernels.evaluate import weighed
from nearcast.topk.kernels.lanes import STEPS
from nearcast.topk.kernels.layout import (
    ALPHA,
    CANDIDATES,
    LIST,
    PSUB,
    PWEIGHT,
    SQUARED,
    SUB,
    TERM_COUNT,
    THETA,
    VISITED,
    TopkScratch,
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.layout import (
    COUNT as LIST_COUNT_OF,
)
from nearcast.topk.kernels.layout import (
    OFFSET as LIST_OFFSET,
)
from nearcast.topk.kernels.layout import (
    SIZE as LIST_SIZE,
)
from nearcast.topk.kernels.message import slot_of_term
from nearcast.topk.kernels.postings import term_of
from nearcast.topk.skype._entries import outside
from nearcast.topk.skype._layout import (
    ALPHA_AFTER,
    ALPHA_STAR,
    AS_PRINTED,
    CELL,
    CELL_FIELDS,
    CELLS,
    CIQ,
    COUNT,
    DEPTH,
    EARLY,
    GROUPS,
    INNER,
    INNER_DISTANCE,
    K_STAR,
    LAMBDA,
    LARGEST_AFTER,
    LARGEST_NEXT,
    LEAF_COUNT,
    METHOD,
    NEXT_OF_TERM,
    OFFSET,
    PREFIX,
    REFINED,
    ROW,
    SIZE,
    SKIPPED_CELLS,
    TAAT,
    TERM_FIRST,
    UNSEEN,
    WEIGHT,
    WEIGHT_SUM,
    SkypeArrays,
)
from nearcast.topk.skype._lists import (
    find_list,
    sub_place,
)

_TOLERANCE = 1e-6
"""By how much a bound must fall short before it prunes: bounds and scores are rounded."""


@inlined
def _begin(work: TopkScratch, index: SkypeArrays, length: int) -> None:
    """Sum up the weights of the message at hand from each term on."""
    total, largest = 0.0, 0.0
    for back in range(length):
        n = length - 1 - back
        total += work.likeness[n]
        largest = max(largest, work.likeness[n])
        index.weight_sums[n], index.largest[n] = total, largest
    index.weight_sums[length], index.largest[length] = 0.0, 0.0


@inlined
def _look_at_list(
    state: TopkState,
    work: TopkScratch,
    index: SkypeArrays,
    number: int,
    n: int,
    outer: float,
    stamp: int,
    touched: int,
) -> int:
    """Go through the groups of one posting list, for the n-th term (Algorithm 1, lines 10 to 28).

    `number` is that of the list, `outer` the distance of its cell from the message. Subscriptions
    that are met for the first time, by `stamp`, are appended to `index.touched`, which has
    `touched` of them; `index.sums` adds up their similarity, and is -1 where one is pruned. Gives
    how many are touched.
    """
    # Where the list is, and what the message can still add from this term on.
    row = number * ROW
    count = wide(index.lists[row + COUNT])
    size, at = wide(1) << index.lists[row + SIZE], wide(index.lists[row + OFFSET])
    near = 1.0 - outer / state.measures[2]
    weight_sum, largest = index.weight_sums[n], index.largest[n]
    options, weight = index.options, wide(0) + work.likeness[n]
    group, skipping = -1, False
    for m in range(count):
        place = sub_place(index, size, at, m)
        other = wide(index.entry_i[place + size])
        # Skip a group, or the rest of one, whose bound falls short (group pruning, early
        # termination).
        first = other != group
        if first:
            group, skipping = other, False
        if skipping:
            continue
        k_star = index.entry_f[at + K_STAR * size + m]
        if options[GROUPS if first else EARLY] and (
            index.entry_f[at + LARGEST_AFTER * size + m] * weight_sum
            < k_star - index.entry_f[at + ALPHA_AFTER * size + m] * near - _TOLERANCE
        ):
            skipping = True
            continue
        state.scalars[VISITED] += 1
        sub = wide(index.entry_i[place])
        met = index.stamps[sub] == stamp
        if met and index.sums[sub] < 0.0:
            continue
        # Individual pruning: by the location-aware prefix, refined by the largest weight.
        inside = index.entry_f[at + INNER_DISTANCE * size + m] if options[INNER] else 0.0
        nearest = near - inside / state.measures[2] if outer > 0.0 else 1.0
        least = k_star - index.entry_f[at + ALPHA_STAR * size + m] * nearest
        rest = index.entry_f[at + WEIGHT_SUM * size + m]
        if options[PREFIX] and (largest if options[REFINED] else 1.0) * rest < least - _TOLERANCE:
            continue
        # Accumulate the similarity.
        own = index.entry_f[at + WEIGHT * size + m]
        if not met:
            index.stamps[sub], index.sums[sub] = stamp, 0.0
            index.touched[touched] = sub
            touched += 1
        index.sums[sub] += own * weight
        # Prune by the terms that are still unseen (theorem 2).
        if options[UNSEEN] and (not met or options[AS_PRINTED]):
            unseen = min(
                (rest - own) * index.largest[n + 1],
                index.weight_sums[n + 1] * index.entry_f[at + LARGEST_NEXT * size + m],
            )
            if index.sums[sub] + unseen < least - _TOLERANCE:
                index.sums[sub] = -1.0
    return touched


@inlined
def _igpt(
    state: TopkState,
    work: TopkScratch,
    index: SkypeArrays,
    x: float,
    y: float,
    length: int,
    stamp: int,
) -> int:
    touched = 0
    if index.options[TERM_FIRST]:
        for n in range(length):
            number = wide(index.term_heads[work.terms[n]])
            while number >= 0:
                cell = wide(index.lists[number * ROW + CELL])
                outer = outside(index, cell, x, y)
                if not _is_far(state, index, cell, outer):
                    touched = _look_at_list(state, work, index, number, n, outer, stamp, touched)
                number = wide(index.lists[number * ROW + NEXT_OF_TERM])
        return touched
    for leaf in range(index.options[LEAF_COUNT]):
        cell = wide(index.leaves[leaf])
        outer = outside(index, cell, x, y)
        if _is_far(state, index, cell, outer):
            index.options[SKIPPED_CELLS] += index.cell_heads[cell] >= 0
            continue
        for n in range(length):
            number = find_list(index, cell, wide(work.terms[n]))
            if number >= 0 and index.lists[number * ROW + COUNT] > 0:
                touched = _look_at_list(state, work, index, number, n, outer, stamp, touched)
    return touched


@inlined
def _is_far(state: TopkState, index: SkypeArrays, cell: int, outer: float) -> bool:
    """Lemma 6: whether a cell is too far away for all of its subscriptions."""
    near = 1.0 - outer / state.measures[2]
    least = index.cells[cell * CELL_FIELDS + LAMBDA]
    return bool(index.options[CELLS] and least > near + _TOLERANCE)


@inlined
def _ciq(
    state: TopkState,
    work: TopkScratch,
    index: SkypeArrays,
    x: float,
    y: float,
    length: int,
    stamp: int,
) -> int:
    """Merge the lists of each cell on the way down to the message, by subscription.

    Subscriptions whose similarity reaches the least that their lists ask for go to the front of
    `index.touched`, and to `index.stamps` and `index.sums`. Gives how many there are.
    """
    west, south, size_of_space = state.measures[0], state.measures[1], state.measures[2]
    touched = 0
    for level in range(1, DEPTH + 1):
        # Find the cell of the message on this level, and open a cursor on the list of each term.
        parts = 1 << level
        across = min(wide((x - west) / size_of_space * parts), parts - 1)
        up = min(wide((y - south) / size_of_space * parts), parts - 1)
        cell = ((1 << (2 * level)) - 1) // 3 + up * parts + across
        lists = 0
        for n in range(length):
            number = find_list(index, cell, wide(work.terms[n]))
            if number >= 0 and index.lists[number * ROW + COUNT] > 0:
                # A cursor: list, place, term and subscription, at the end of what is touched.
                at = len(index.touched) - 4 * (lists + 1)
                size = wide(1) << index.lists[number * ROW + SIZE]
                place = sub_place(index, size, wide(index.lists[number * ROW + OFFSET]), 0)
                index.touched[at], index.touched[at + 1], index.touched[at + 2] = number, 0, n
                index.touched[at + 3] = index.entry_i[place]
                lists += 1
        # Take the lowest subscription that a cursor is at.
        while lists > 0:
            sub = wide(1) << 40
            for n in range(lists):
                sub = min(sub, wide(index.touched[len(index.touched) - 4 * (n + 1) + 3]))
            # Add up its weights, and advance the cursors that are at it; drop those that have
            # ended.
            similarity, least, n = 0.0, 0.0, 0
            while n < lists:
                at = len(index.touched) - 4 * (n + 1)
                if index.touched[at + 3] != sub:
                    n += 1
                    continue
                number, m = wide(index.touched[at]), wide(index.touched[at + 1])
                size = wide(1) << index.lists[number * ROW + SIZE]
                start = wide(index.lists[number * ROW + OFFSET])
                likeness = work.likeness[wide(index.touched[at + 2])]
                similarity += index.entry_f[start + WEIGHT * size + m] * likeness
                least = index.entry_f[start + K_STAR * size + m]
                state.scalars[VISITED] += 1
                m += 1
                if m == index.lists[number * ROW + COUNT]:
                    last = len(index.touched) - 4 * lists
                    for field in range(4):
                        index.touched[at + field] = index.touched[last + field]
                    lists -= 1
                else:
                    index.touched[at + 1] = m
                    index.touched[at + 3] = index.entry_i[sub_place(index, size, start, m)]
                    n += 1
            if similarity >= least - _TOLERANCE:
                index.touched[touched] = sub
                index.stamps[sub], index.sums[sub] = stamp, similarity
                touched += 1
    return touched


@inlined
def _taat(state: TopkState, work: TopkScratch, index: SkypeArrays, length: int, stamp: int) -> int:
    touched = 0
    for n in range(length):
        row = wide(work.terms[n]) * LIST
        count = wide(state.posts[row + LIST_COUNT_OF])
        if count == 0:
            continue
        state.scalars[VISITED] += count
        size = wide(1) << state.posts[row + LIST_SIZE]
        at = wide(state.posts[row + LIST_OFFSET])
        likeness = work.likeness[n] / STEPS
        for m in range(count):
            sub = wide(state.post_i[at + PSUB * size + m])
            if index.stamps[sub] != stamp:
                index.stamps[sub], index.sums[sub] = stamp, 0.0
                index.touched[touched] = sub
                touched += 1
            index.sums[sub] += state.post_s[2 * at + PWEIGHT * size + m] * likeness
    return touched


@inner
def affected_by(
    state: TopkState,
    work: TopkScratch,
    index: SkypeArrays,
    x: float,
    y: float,
    squared: float,
    length: int,
    table: int,
    stamp: int,
) -> int:
    """Find the subscriptions whose thresholds the message at hand reaches, and its scores.

    The message is at (x, y); its terms and weights are in `work`, in a hash of `table` slots, and
    `squared` is the square of its length as a vector. Writes to `work.affected` and `work.scores`,
    and gives how many there are.
    """
    # Collect candidates by the method of the index.
    _begin(work, index, length)
    method = index.options[METHOD]
    if method == TAAT:
        touched = _taat(state, work, index, length, stamp)
    elif method == CIQ:
        touched = _ciq(state, work, index, x, y, length, stamp)
    else:
        touched = _igpt(state, work, index, x, y, length, stamp)
    # Verify them: first by what was summed up, where that is a safe bound.
    affected, diagonal = 0, state.measures[2]
    for n in range(touched):
        sub = wide(index.touched[n])
        row = SUB * sub
        if index.sums[sub] < 0.0:
            continue
        state.scalars[CANDIDATES] += 1
        alpha, theta = state.sub_f[row + ALPHA], state.sub_f[row + THETA]
        distance = planar_distance(state.sub_f[row + X], state.sub_f[row + Y], x, y)
        text = index.sums[sub]
        if method == TAAT:
            if text + alpha * (1.0 - distance / diagonal) < theta - _TOLERANCE:
                continue
        elif index.options[AS_PRINTED] and (
            (1.0 - alpha) * text + alpha * (1.0 - distance / diagonal) < theta - _TOLERANCE
        ):
            continue
        # Then by the exact score.
        dot = 0.0
        for m in range(state.sub_i[2 * row + TERM_COUNT]):
            at = slot_of_term(work, term_of(state, sub, m), table)
            if at >= 0:
                dot += work.key_idfs[at] * work.key_weights[at]
        score = weighed(alpha, dot, state.sub_f[row + SQUARED], squared, distance, diagonal)
        if score >= theta:
            work.affected[affected], work.scores[affected] = sub, score
            affected += 1
    return affected
