"""Columns of texts: their bytes, and the hashes of their terms.

Where no dictionary is at hand, as between machines, a term is known by 64 bits of hash; two of ten
million terms share them with odds of 3 in a million. With a secret (`nearcast.arrays.slots`) nobody
who does not know it can raise these odds: any term that is sent shares the hash of one of N others
with odds of N in 2^64.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast._jit import inlined, inner, kernel
from nearcast.arrays.slots import (
    FIRST_FACTOR,
    FIRST_SEED,
    FIXED,
    SECOND_FACTOR,
    SECOND_SEED,
    Secret,
    Slots,
    add_word,
    begin_hash,
    end_hash,
    hash_with,
    mixed,
)
from nearcast.arrays.strings import buffers as buffers  # of columns of texts too
from nearcast.arrays.types import Bytes, Int64s
from nearcast.text.analyser import DEFAULT, Analyser

Hashes = npt.NDArray[np.uint64]

# For RE2. A plain word has one of these letters, each of which is a term for every analyser without
# stop words. One with Han, Hiragana, Katakana or Hangul is not plain: it may mean a phrase.
_BLANKS = (
    r"\t-\r\x1c- \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
)
_LETTERS = (
    r"0-9A-Za-z\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{2af}"  # Latin
    r"\x{388}-\x{38a}\x{38e}-\x{3a1}\x{3a3}-\x{3e1}"  # Greek
    r"\x{400}-\x{481}\x{48a}-\x{52f}"  # Cyrillic
    r"\x{531}-\x{556}\x{561}-\x{586}\x{5d0}-\x{5ea}\x{620}-\x{64a}\x{671}-\x{6d3}"  # to Arabic
    r"\x{904}-\x{939}\x{e01}-\x{e30}\x{10d0}-\x{10fa}\x{1e00}-\x{1eff}"  # to Vietnamese
)
_MAYBE_SYNTAX = (
    r'[()"*:]|AND|OR|NOT'
    rf"|(?:^|[{_BLANKS}])[-!]"  # a sign before a word
    rf"|(?:^|[{_BLANKS}])[^{_BLANKS}{_LETTERS}]+(?:[{_BLANKS}]|$)"  # perhaps no term
    rf"|^[{_BLANKS}]*$"
    r"|[^\x00-\x{10ff}\x{1e00}-\x{20ff}\x{1f300}-\x{1faff}]"  # perhaps a phrase
)
_FEW = 48  # tokens of a text that are quicker compared with each other than sorted


class HashedTexts(NamedTuple):
    """Terms of texts, each once a text: of text i `hashes[starts[i] : starts[i + 1]]`."""

    starts: Int64s
    hashes: Hashes


def may_have_syntax(queries: pa.StringArray) -> npt.NDArray[np.bool_]:
    """Which queries, none of them null, may be more, or less, than plain words with a term each."""
    found: npt.NDArray[np.bool_] = pc.match_substring_regex(queries, _MAYBE_SYNTAX).to_numpy(
        zero_copy_only=False
    )
    return found


@kernel
def not_ascii(data: Bytes, offsets: Int64s) -> npt.NDArray[np.bool_]:
    """Whether each string has a byte beyond ASCII."""
    odd = np.zeros(len(offsets) - 1, np.bool_)
    for text in range(len(odd)):
        high = np.uint8(0)
        for at in range(offsets[text], offsets[text + 1]):
            high |= data[at]
        odd[text] = high >= 128
    return odd


def hash_texts(
    texts: pa.StringArray, analyser: Analyser = DEFAULT, secret: Secret = FIXED
) -> HashedTexts:
    """Turn a column of texts without nulls into the hashes of their terms."""
    data, offsets = buffers(texts)
    plain = analyser == DEFAULT
    odd = not_ascii(data, offsets) if plain else np.ones(len(texts), np.bool_)
    if odd.all():
        return _hash_slowly(texts, analyser, secret)
    room = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
    starts, hashes = np.zeros(len(offsets), np.int64), np.empty(room, np.uint64)
    longest = int(np.diff(offsets).max()) // 2 + 1
    tokens, spans = np.empty((longest, 2), np.uint64), np.empty((longest, 2), np.int64)
    _hash_ascii(data, offsets, odd, secret, tokens, spans, starts, hashes)
    fast = HashedTexts(starts, hashes[: starts[-1]])
    if not odd.any():
        return fast
    slow = _hash_slowly(texts.filter(pa.array(odd)), analyser, secret)
    return HashedTexts(*spliced(fast.starts, fast.hashes, odd, slow.starts, slow.hashes))


@inlined
def cut_ascii(data: Bytes, at: int, stop: int, secret: Secret, hashes: Slots, spans: Int64s) -> int:
    """Cut an ASCII text into tokens, and give how many there are.

    `hashes` gets both hashes of each, made with the secret if there is one (see
    `nearcast.arrays.slots`), `spans` where it starts and where it stops.
    """
    tokens, has_secret = 0, len(secret) > 0
    while at < stop:
        begin = at
        first, second = FIRST_SEED, SECOND_SEED
        if has_secret:
            # As `hash_bytes` does, while looking for the end.
            a, b, c, d = begin_hash(secret)
            word, filled = np.uint64(0), np.uint64(0)
            while at < stop:
                letter = data[at]
                if not (97 <= letter | 32 <= 122 or 48 <= letter <= 57):
                    break
                word |= np.uint64(letter | 32) << filled  # digits have this bit too
                filled += np.uint64(8)
                if filled == 64:
                    a, b, c, d = add_word(a, b, c, d, word)
                    word, filled = np.uint64(0), np.uint64(0)
                at += 1
            if at > begin:
                first, second = end_hash(a, b, c, d, word, at - begin)
        else:
            while at < stop:
                letter = data[at]
                if not (97 <= letter | 32 <= 122 or 48 <= letter <= 57):
                    break
                first = (first ^ np.uint64(letter | 32)) * FIRST_FACTOR
                second = (second + np.uint64(letter | 32)) * SECOND_FACTOR
                at += 1
            first, second = mixed(first), mixed(second)
        if at > begin:
            hashes[tokens, 0], hashes[tokens, 1] = first, second
            spans[tokens, 0], spans[tokens, 1] = begin, at
            tokens += 1
        at += 1
    return tokens


@kernel
def _hash_ascii(
    data: Bytes, offsets: Int64s, odd: npt.NDArray[np.bool_], secret: Secret, tokens: Slots,
    spans: Int64s, starts: Int64s, hashes: Hashes,
) -> None:  # fmt: skip
    """Hash the terms of texts; `tokens` and `spans` have room for those of the longest."""
    written = 0
    for text in range(len(offsets) - 1):
        starts[text] = begin = written
        if odd[text]:
            continue
        count = cut_ascii(data, offsets[text], offsets[text + 1], secret, tokens, spans)
        for token in range(count):
            hashes[written] = tokens[token, 0]
            written += 1
        written = _once_each(hashes, begin, written)
    starts[len(offsets) - 1] = written


@inner
def _sort(values: Hashes, begin: int, end: int) -> None:
    """Sort a part of an array; numba's own sort takes longer to compile than all else here."""
    gap = 1
    while gap < (end - begin) // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for n in range(begin + gap, end):
            value, at = values[n], n
            while at >= begin + gap and values[at - gap] > value:
                values[at] = values[at - gap]
                at -= gap
            values[at] = value
        gap //= 3


@inner
def _once_each(hashes: Hashes, begin: int, end: int) -> int:
    """Remove duplicates from a part of an array, and return where the rest ends."""
    if end - begin > _FEW:
        _sort(hashes, begin, end)
        kept = begin + 1
        for at in range(begin + 1, end):
            if hashes[at] != hashes[kept - 1]:
                hashes[kept] = hashes[at]
                kept += 1
        return kept
    kept = begin
    for at in range(begin, end):
        value, again = hashes[at], False
        for other in range(begin, kept):
            again |= hashes[other] == value
        if not again:
            hashes[kept] = value
            kept += 1
    return kept


def _hash_slowly(texts: pa.StringArray, analyser: Analyser, secret: Secret) -> HashedTexts:
    terms = [sorted(analyser.terms(text)) for text in texts.to_pylist()]
    starts = np.zeros(len(terms) + 1, np.int64)
    np.cumsum([len(some) for some in terms], out=starts[1:])
    return HashedTexts(starts, hash_terms([term for some in terms for term in some], secret))


def hash_terms(terms: list[str], secret: Secret = FIXED) -> Hashes:
    """The hashes of terms that the analyser gave."""
    words = [term.encode() for term in terms]
    offsets = np.zeros(len(words) + 1, np.int64)
    np.cumsum([len(word) for word in words], out=offsets[1:])
    hashes = np.empty((len(words), 2), np.uint64)
    hash_with(secret, np.frombuffer(b"".join(words), np.uint8), offsets, hashes)
    return hashes[:, 0].copy()


def spliced(
    starts: Int64s,
    values: npt.NDArray[Any],
    odd: npt.NDArray[np.bool_],
    slow_starts: Int64s,
    slow_values: npt.NDArray[Any],
) -> tuple[Int64s, npt.NDArray[Any]]:
    """Insert the terms of texts that the analyser read in the places of those texts."""
    lengths = np.diff(starts)
    kept = np.repeat(~odd, lengths)
    lengths[odd] = np.diff(slow_starts)
    all_starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=all_starts[1:])
    both = np.empty(all_starts[-1], values.dtype)
    from_slow = np.repeat(odd, lengths)
    both[from_slow] = slow_values
    both[~from_slow] = values[kept]
    return all_starts, both
