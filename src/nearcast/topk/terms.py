"""Terms as small numbers, of messages and top-k queries alike; numbers of unused terms are reused.

Every term of the window needs a number, whether anybody asks for it now or not: the next
subscription may. A term is known by 97 bits of hash (`nearcast.arrays.slots`). When the table is
getting full, terms that neither the window nor a subscription has are swept out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.column import Column
from nearcast.arrays.memory import Memory
from nearcast.arrays.numbers import wide
from nearcast.arrays.slots import (
    FIXED,
    Secret,
    Slots,
    find,
    hash_with,
    move_slots,
    put,
)
from nearcast.arrays.types import Bytes, Int32s, Int64s
from nearcast.text import Analyser
from nearcast.text.columns import buffers, cut_ascii, not_ascii, spliced
from nearcast.topk.core import TopK

_FREE = np.uint64(0xFFFFFFFFFFFFFFFF)
_VALUE = np.uint64(0x7FFFFFFF)
_FRESH = 1 << 16  # as many new terms as a pass over some texts can number


class Bags(NamedTuple):
    """Terms of texts with their counts, in the order of their letters where that matters."""

    starts: Int64s
    terms: Int32s
    counts: Int32s


@kernel
def _sweep(old: Slots, new: Slots, unused: npt.NDArray[np.bool_], free: Int32s) -> int:
    """Enter the terms in use into another table; give how many others there were, and which."""
    count = 0
    for at in range(len(old)):
        if old[at, 1] != _FREE:
            number = wide(old[at, 1] & _VALUE)
            if unused[number]:
                free[count] = number
                count += 1
            else:
                put(new, old[at, 0], old[at, 1], number)
    return count


@inner_counting
def _lower(letter: np.uint8) -> np.uint8:
    return np.uint8(letter + np.uint8(32)) if 65 <= letter <= 90 else letter


@inner_counting
def _comes_before(data: Bytes, spans: Int64s, one: int, other: int) -> bool:
    """Whether a token comes before another in the order of their letters."""
    at, end = spans[one, 0], spans[one, 1]
    there, stop = spans[other, 0], spans[other, 1]
    while at < end and there < stop:
        letter, against = _lower(data[at]), _lower(data[there])
        if letter != against:
            return bool(letter < against)
        at += 1
        there += 1
    return bool(end - at < stop - there)


@inner_counting
def _sort_tokens(
    data: Bytes, hashes: Slots, spans: Int64s, order: Int64s, count: int, by_letters: bool
) -> None:
    for token in range(count):
        order[token] = token
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for n in range(gap, count):
            token, at = order[n], n
            while at >= gap:
                other = order[at - gap]
                if by_letters:
                    first = _comes_before(data, spans, token, other)
                else:
                    first = hashes[token, 0] < hashes[other, 0]
                if not first:
                    break
                order[at] = other
                at -= gap
            order[at] = token
        gap //= 3


@kernel
def _read_texts(
    slots: Slots,
    data: Bytes,
    offsets: Int64s,
    odd: npt.NDArray[np.bool_],
    by_letters: bool,
    secret: Secret,
    start: int,
    starts: Int64s,
    terms: Int32s,
    counts: Int32s,
    numbers: Int32s,
    fresh: Int64s,
    hashes: Slots,
    spans: Int64s,
    order: Int64s,
) -> tuple[int, int]:
    """Find the terms of ASCII texts from text `start` on, with their counts; odd texts are skipped.

    Text t is `data[offsets[t] : offsets[t + 1]]`. `slots` is the hash of known terms. A new term
    gets the next of `numbers`, and is noted in `fresh` by where it starts and stops. The terms of
    text t go to `terms[starts[t] : starts[t + 1]]`, and how often each occurs to `counts`.
    `hashes`, `spans` and `order` are scratch for the tokens of a text. Gives the text in front of
    which the numbers might not last, and how many were given.
    """
    written, added = starts[start], 0
    for text in range(start, len(offsets) - 1):
        starts[text] = written
        at, stop = offsets[text], offsets[text + 1]
        # Stop while there are numbers for as many terms as the text can have.
        if added + (stop - at) // 2 + 1 > len(numbers):
            return text, added
        if odd[text]:
            continue
        # Cut the text into tokens, and sort them, so that equal ones follow each other.
        tokens = cut_ascii(data, at, stop, secret, hashes, spans)
        _sort_tokens(data, hashes, spans, order, tokens, by_letters)
        last = -1
        for n in range(tokens):
            token = order[n]
            # Count a repeated token.
            if (
                last >= 0
                and hashes[token, 0] == hashes[last, 0]
                and hashes[token, 1] == hashes[last, 1]
            ):
                counts[written - 1] += 1
                continue
            last = token
            # Look up the term, and number it if it is new.
            term = find(slots, hashes[token, 0], hashes[token, 1])
            if term < 0:
                term = wide(numbers[added])
                put(slots, hashes[token, 0], hashes[token, 1], term)
                fresh[added, 0], fresh[added, 1] = spans[token, 0], spans[token, 1]
                added += 1
            terms[written], counts[written] = term, 1
            written += 1
    starts[len(offsets) - 1] = written
    return len(offsets) - 1, added


@kernel
def _number(slots: Slots, hashes: Slots, numbers: Int32s, terms: Int32s, new: Int64s) -> int:
    """Number terms by their hashes; `new` lists which of them were new."""
    added = 0
    for n in range(len(hashes)):
        term = find(slots, hashes[n, 0], hashes[n, 1])
        if term < 0:
            term = wide(numbers[added])
            put(slots, hashes[n, 0], hashes[n, 1], term)
            new[added] = n
            added += 1
        terms[n] = term
    return added


class TermNumbers:
    """Gives terms the numbers by which a core knows them, and the core their weights.

    `idf` is None where every term weighs 1; the order of terms then makes no difference to sums.
    """

    def __init__(
        self,
        core: TopK,
        analyser: Analyser,
        idf: Callable[[str], float] | None,
        memory: Memory | None = None,
        described: Mapping[str, int] | None = None,
        secret: Secret = FIXED,
    ) -> None:
        """Number terms for a core; `described` finds those again that are in the memory.

        `secret` is for hashes that only this process needs; see `nearcast.arrays.slots`.
        """
        self._core = core
        self._secret = secret
        self._analyser = analyser
        self._plain = analyser == Analyser()
        self._idf = idf
        self._memory = memory or Memory()
        counts = described or {"slots": 1 << 10, "used": 0, "next": 0, "free": 0}
        self._used, self._next = counts["used"], counts["next"]
        self._free = Column(np.int32, 0, self._memory, "free_terms", counts["free"])
        self._slots: Slots = self._memory.array("term_slots", (counts["slots"], 2), np.uint64)
        if described is None:
            self._slots[:] = _FREE

    def describe(self) -> dict[str, int]:
        """Say what is needed to find them again in their memory."""
        counts = {"used": self._used, "next": self._next, "free": self._free.size}
        return counts | {"slots": len(self._slots)}

    @property
    def nbytes(self) -> int:
        """The memory of the table."""
        return self._slots.nbytes + self._free.nbytes

    @property
    def hashes(self) -> npt.NDArray[np.uint64]:
        """By number, the 64 bits by which a term is known where no dictionary is at hand."""
        used = self._slots[self._slots[:, 1] != _FREE]
        hashes = np.zeros(self._next, np.uint64)
        hashes[(used[:, 1] & _VALUE).astype(np.int64)] = used[:, 0]
        return hashes

    def bags(self, token_lists: Iterable[Iterable[str]]) -> Bags:
        """Number the tokens of texts that went through the analyser."""
        counted = [sorted(Counter(tokens).items()) for tokens in token_lists]
        starts = np.zeros(len(counted) + 1, np.int64)
        np.cumsum([len(bag) for bag in counted], out=starts[1:])
        flat = [term for bag in counted for term, _ in bag]
        counts = np.array([count for bag in counted for _, count in bag], np.int32)
        return Bags(starts, self._numbers_of(flat), counts)

    def read(self, texts: pa.StringArray) -> Bags:
        """Analyse texts and number their terms."""
        data, offsets = buffers(texts)
        odd = not_ascii(data, offsets) if self._plain else np.ones(len(texts), np.bool_)
        if odd.all():
            return self.bags(self._analyser.tokens(text) for text in texts.to_pylist())
        fast = self._read_ascii(data, offsets, odd)
        if not odd.any():
            return fast
        slow_texts = texts.filter(pa.array(odd)).to_pylist()
        slow = self.bags(self._analyser.tokens(text) for text in slow_texts)
        starts, terms = spliced(fast.starts, fast.terms, odd, slow.starts, slow.terms)
        _, counts = spliced(fast.starts, fast.counts, odd, slow.starts, slow.counts)
        return Bags(starts, terms, counts)

    def sweep(self) -> None:
        """Free the numbers of terms that nothing has, if the table is about to grow.

        Only while everything that was numbered has reached the core. A table that is then still
        too full for many more grows, so that the next sweep is far away.
        """
        if 8 * self._used <= 3 * len(self._slots):
            return
        free = np.empty(self._used, np.int32)
        self._core.ensure_terms(self._next)
        unused = self._core.unused_terms
        count = _sweep(self._take_out(len(self._slots)), self._slots, unused, free)
        self._used -= count
        self._free.extend(free[:count])
        if 4 * self._used > len(self._slots):
            self._enlarge()

    def _take_out(self, size: int) -> Slots:
        """Give the table as it is, and have an empty one of `size` slots in its place."""
        old = self._slots.copy() if self._memory.keeps else self._slots
        self._slots = self._memory.array("term_slots", (size, 2), np.uint64)
        self._slots[:] = _FREE
        return old

    def _enlarge(self) -> None:
        move_slots(self._take_out(2 * len(self._slots)), self._slots)

    def _reserve(self, count: int) -> Int32s:
        """Make room for `count` new terms, and give the numbers they would get."""
        while 2 * (self._used + count) > len(self._slots):
            self._enlarge()
        fresh = max(0, count - self._free.size)
        numbers = np.arange(self._next, self._next + fresh, dtype=np.int32)
        return np.concatenate((self._free.array[::-1][:count], numbers))

    def _take(self, numbers: Int32s, added: int) -> Int32s:
        """Note that the first of the numbers were given to new terms."""
        reused = min(added, self._free.size)
        self._free.shorten(self._free.size - reused)
        self._next += added - reused
        self._used += added
        self._core.ensure_terms(self._next)
        return numbers[:added]

    def _numbers_of(self, terms: list[str]) -> Int32s:
        words = [term.encode() for term in terms]
        offsets = np.zeros(len(words) + 1, np.int64)
        np.cumsum([len(word) for word in words], out=offsets[1:])
        hashes = np.empty((len(words), 2), np.uint64)
        hash_with(self._secret, np.frombuffer(b"".join(words), np.uint8), offsets, hashes)
        found, new = np.empty(len(words), np.int32), np.empty(len(words), np.int64)
        reserved = self._reserve(len(words))
        added = _number(self._slots, hashes, reserved, found, new)
        numbers = self._take(reserved, added)
        if self._idf is not None and added:
            weights = np.array([self._idf(terms[n]) for n in new[:added].tolist()])
            self._core.weigh(numbers, weights)
        elif added:
            self._core.weigh(numbers, np.ones(added))
        return found

    def _read_ascii(self, data: Bytes, offsets: Int64s, odd: npt.NDArray[np.bool_]) -> Bags:
        room = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
        starts = np.zeros(len(offsets), np.int64)
        terms, counts = np.empty(room, np.int32), np.empty(room, np.int32)
        longest = int(np.diff(offsets).max()) // 2 + 1
        fresh = np.empty((min(max(_FRESH, longest), room), 2), np.int64)
        hashes, spans = np.empty((longest, 2), np.uint64), np.empty((longest, 2), np.int64)
        order, done = np.empty(longest, np.int64), 0
        while done < len(offsets) - 1:
            reserved = self._reserve(len(fresh))
            done, added = _read_texts(
                self._slots, data, offsets, odd, self._idf is not None, self._secret, done, starts,
                terms, counts, reserved, fresh, hashes, spans, order,
            )  # fmt: skip
            numbers = self._take(reserved, added)
            if self._idf is not None:
                raw = data.data
                spelled = (str(raw[a:b], "ascii").lower() for a, b in fresh[:added].tolist())
                self._core.weigh(numbers, np.array([self._idf(term) for term in spelled]))
        return Bags(starts, terms[: starts[-1]], counts[: starts[-1]])
