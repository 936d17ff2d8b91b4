"""Kernels that look up terms in the bytes of texts, and number those that are new."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.slots import Secret, Slots, ask_for, find, hash_bytes, put, remove
from nearcast.arrays.types import Bytes, Int32s, Int64s
from nearcast.text.columns import cut_ascii


@kernel
def remove_terms(slots: Slots, hashes: Slots, numbers: Int32s) -> None:
    """Remove terms by number; `hashes` has those of all numbers."""
    for number in numbers:
        remove(slots, hashes[number, 0], hashes[number, 1])


@kernel
def read_texts(
    slots: Slots,
    data: Bytes,
    offsets: Int64s,
    odd: npt.NDArray[np.bool_],
    secret: Secret,
    seen: Int64s,
    mark: int,
    start: int,
    starts: Int64s,
    terms: Int32s,
    fresh: Int64s,
    numbers: Int32s,
    known_by: Slots,
    hashes: Slots,
    spans: Int64s,
) -> tuple[int, int]:
    """Find the terms of ASCII texts from text `start` on, each term once a text.

    Input: text i is `data[offsets[i] : offsets[i + 1]]`; `odd[i]` says that it is not ASCII, and
    is skipped. `slots` maps the two hashes of a term to its number.
    Output: the terms of text i are `terms[starts[i] : starts[i + 1]]`. `seen` has for each term
    `mark` plus the last text that had it.
    A token without a number is left out if `fresh` is empty. Otherwise it gets the next of
    `numbers`; row j of `fresh` (n, 2) is where new term j starts and stops in `data`, and
    `known_by` has the hashes of each new term by its number.
    `hashes` and `spans` are scratch space for the tokens of any one text.

    Returns the first text that was not read because `fresh` might overflow (the number of texts
    if all were read), and how many numbers were used.
    """
    written, added = starts[start], 0
    for text in range(start, len(offsets) - 1):
        starts[text] = written
        at, stop = offsets[text], offsets[text + 1]
        # A text of n bytes has at most n // 2 + 1 tokens: stop before the new terms overflow.
        if len(fresh) > 0 and added + (stop - at) // 2 + 1 > len(fresh):
            return text, added
        if odd[text]:
            continue
        # Cut the whole text first, so that the look-ups, which wait for memory, overlap.
        tokens = cut_ascii(data, at, stop, secret, hashes, spans)
        for token in range(tokens):
            ask_for(slots, hashes[token, 0])
        for token in range(tokens):
            # Look the token up, and number it if it is new.
            first, second = hashes[token, 0], hashes[token, 1]
            term = find(slots, first, second)
            if term < 0 and len(fresh) > 0:
                term = int(numbers[added])
                put(slots, first, second, term)
                known_by[term, 0], known_by[term, 1] = first, second
                fresh[added, 0], fresh[added, 1] = spans[token, 0], spans[token, 1]
                added += 1
            # Write each term once a text.
            if term >= 0 and seen[term] != mark + text:
                seen[term] = mark + text
                terms[written] = term
                written += 1
    starts[len(offsets) - 1] = written
    return len(offsets) - 1, added


@kernel
def number_spans(
    slots: Slots,
    data: Bytes,
    spans: Int64s,
    lower: bool,
    secret: Secret,
    start: int,
    terms: Int32s,
    fresh: Int64s,
    numbers: Int32s,
    known_by: Slots,
) -> tuple[int, int]:
    """Find the numbers of terms by their letters, from term `start` on; new ones get one.

    Term i is `data[spans[i, 0] : spans[i, 1]]`, in small letters if `lower`, and gets `terms[i]`.
    New term j has the place `fresh[j]` among them and the number `numbers[j]`; `known_by` has the
    hashes by number. Returns the first term that was not read because all numbers are used, and
    how many were used.
    """
    added = 0
    for place in range(start, len(spans)):
        if added == len(fresh):
            return place, added
        first, second = hash_bytes(secret, data, spans[place, 0], spans[place, 1], lower)
        term = find(slots, first, second)
        if term < 0:
            term = int(numbers[added])
            put(slots, first, second, term)
            known_by[term, 0], known_by[term, 1] = first, second
            fresh[added] = place
            added += 1
        terms[place] = term
    return len(spans), added
