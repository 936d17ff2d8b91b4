"""Terms as small numbers: the ones that subscriptions use, found again in the texts of messages.

Only terms of subscriptions get a number, so a term of a message that nobody asked for costs a
look-up and is gone. Two ways lead to the numbers: a dictionary for texts that went through the
analyser, and for plain ASCII texts a kernel that reads the bytes of a whole Arrow column. The
kernel knows a term by 97 bits of hash instead of its letters (`nearcast._slots`).
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast._jit import kernel
from nearcast._slots import (
    FIRST_FACTOR,
    FIRST_SEED,
    SECOND_FACTOR,
    SECOND_SEED,
    Bytes,
    Slots,
    empty_slots,
    find,
    hash_strings,
    mixed,
    move_slots,
    put,
)
from nearcast.index.table import Int32s, Int64s, Table
from nearcast.text import Analyser
from nearcast.text.columns import buffers, not_ascii, spliced

_FRESH_TERMS = 1 << 16  # as many new terms as a pass over some texts can number


@kernel
def _put_terms(slots: Slots, hashes: Slots, base: int) -> None:
    """Enter terms by their hashes; the i-th gets the number base + i."""
    for number in range(len(hashes)):
        put(slots, hashes[number, 0], hashes[number, 1], base + number)


@kernel
def _read_texts(
    slots: Slots,
    data: Bytes,
    offsets: Int64s,
    odd: npt.NDArray[np.bool_],
    seen: Int64s,
    mark: int,
    start: int,
    starts: Int64s,
    terms: Int32s,
    fresh: Int64s,
    base: int,
    hashes: Slots,
    spans: Int64s,
) -> tuple[int, int]:
    """Find the terms of ASCII texts from text `start` on, each once a text; odd ones are skipped.

    `seen` remembers by term the last text that had it. A token without a number is left out or,
    while `fresh` (n, 2) has room, gets the next number from `base` on and is noted there by where
    it starts and stops. Gives the text in front of which that room ended, and the numbers given.

    A text is first cut into tokens and then looked up, so that the look-ups, which wait for
    memory, overlap. `hashes` and `spans` have room for the tokens of any one text.
    """
    written, added = starts[start], 0
    for text in range(start, len(offsets) - 1):
        starts[text] = written
        at, stop = offsets[text], offsets[text + 1]
        if len(fresh) > 0 and added + (stop - at) // 2 + 1 > len(fresh):
            return text, added
        if odd[text]:
            continue
        tokens = 0
        while at < stop:
            first, second = FIRST_SEED, SECOND_SEED
            begin = at
            while at < stop:
                letter = data[at]
                if 65 <= letter <= 90:
                    letter += np.uint8(32)
                elif not (97 <= letter <= 122 or 48 <= letter <= 57):
                    break
                first = (first ^ np.uint64(letter)) * FIRST_FACTOR
                second = (second + np.uint64(letter)) * SECOND_FACTOR
                at += 1
            if at > begin:
                hashes[tokens, 0], hashes[tokens, 1] = mixed(first), mixed(second)
                spans[tokens, 0], spans[tokens, 1] = begin, at
                tokens += 1
            at += 1
        for token in range(tokens):
            first, second = hashes[token, 0], hashes[token, 1]
            term = find(slots, first, second)
            if term < 0 and len(fresh) > 0:
                term = base + added
                put(slots, first, second, term)
                fresh[added, 0], fresh[added, 1] = spans[token, 0], spans[token, 1]
                added += 1
            if term >= 0 and seen[term] != mark + text:
                seen[term] = mark + text
                terms[written] = term
                written += 1
    starts[len(offsets) - 1] = written
    return len(offsets) - 1, added


class TextBatch(NamedTuple):
    """The term ids of some texts: those of text i are `terms[starts[i] : starts[i + 1]]`."""

    starts: Int64s
    terms: Int32s


class TermIds:
    """Numbers terms from 0, in the order in which subscriptions first use them."""

    def __init__(self, table: Table, analyser: Analyser) -> None:
        self._table = table
        self._analyser = analyser
        self._plain = analyser == Analyser()
        self._ids: dict[str, int] = {}
        self._entered = 0  # how many of them the slots know
        self._slots = empty_slots(1 << 10)
        self._seen: Int64s = np.full(16, -1, np.int64)
        self._mark = 0

    def __len__(self) -> int:
        return len(self._ids)

    def in_order(self) -> Iterable[str]:
        """All terms, in the order of their numbers."""
        return self._ids

    def intern(self, terms: Iterable[str]) -> list[int]:
        """The numbers of terms, new ones where there are none yet."""
        ids = self._ids
        return [ids.setdefault(term, len(ids)) for term in terms]

    def known(self, terms: Iterable[str]) -> Int32s:
        """The numbers of those terms that have one."""
        get = self._ids.get
        return np.array([id for term in terms if (id := get(term)) is not None], np.int32)

    def settle(self) -> None:
        """Take note of the terms that are new: their frequencies, and their slots."""
        count = len(self._ids)
        if count == self._entered:
            return
        self._reserve(count)
        late = islice(reversed(self._ids), count - self._entered)
        fresh = [term.encode() for term in reversed(list(late))]
        offsets = np.zeros(len(fresh) + 1, np.int64)
        np.cumsum([len(term) for term in fresh], out=offsets[1:])
        hashes = np.empty((len(fresh), 2), np.uint64)
        hash_strings(np.frombuffer(b"".join(fresh), np.uint8), offsets, hashes)
        _put_terms(self._slots, hashes, self._entered)
        self._entered = count

    def _reserve(self, count: int) -> None:
        """Make room for so many terms in all."""
        self._table.ensure_terms(count)
        if count > len(self._seen):
            grown = np.full(max(count, 2 * len(self._seen)), -1, np.int64)
            grown[: len(self._seen)] = self._seen
            self._seen = grown
        while 2 * count > len(self._slots):
            larger = empty_slots(4 * len(self._slots))
            move_slots(self._slots, larger)
            self._slots = larger

    def read(self, texts: pa.StringArray, *, intern: bool = False) -> TextBatch:
        """Turn texts into the numbers of their terms, each once a text.

        With `intern` every term gets a number; otherwise those without one are left out.
        """
        self.settle()
        data, offsets = buffers(texts)
        odd = not_ascii(data, offsets) if self._plain else np.ones(len(texts), np.bool_)
        if odd.all():
            return self._read_slowly(texts, intern)
        batch = self._read_ascii(data, offsets, odd, intern)
        if not odd.any():
            return batch
        slow = self._read_slowly(texts.filter(pa.array(odd)), intern)
        starts, terms = spliced(batch.starts, batch.terms, odd, slow.starts, slow.terms)
        return TextBatch(starts, terms)

    def _read_ascii(
        self, data: Bytes, offsets: Int64s, odd: npt.NDArray[np.bool_], intern: bool
    ) -> TextBatch:
        room = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
        starts, terms = np.zeros(len(offsets), np.int64), np.empty(room, np.int32)
        longest = int(np.diff(offsets).max()) // 2 + 1
        fresh = np.empty((max(_FRESH_TERMS, longest) if intern else 0, 2), np.int64)
        hashes, spans = np.empty((longest, 2), np.uint64), np.empty((longest, 2), np.int64)
        done, base = 0, len(self._ids)
        while done < len(offsets) - 1:
            self._reserve(base + len(fresh))
            done, added = _read_texts(
                self._slots, data, offsets, odd, self._seen, self._mark, done, starts, terms,
                fresh, base, hashes, spans,
            )  # fmt: skip
            raw = data.data
            for number, (a, b) in enumerate(fresh[:added].tolist(), base):
                self._ids[str(raw[a:b], "ascii").lower()] = number
            base = self._entered = base + added
        self._mark += len(offsets)
        return TextBatch(starts, terms[: starts[-1]])

    def _read_slowly(self, texts: pa.StringArray, intern: bool) -> TextBatch:
        found: list[list[int]] = []
        for text in texts.to_pylist():
            terms = sorted(self._analyser.terms(text))
            found.append(self.intern(terms) if intern else self.known(terms).tolist())
        self.settle()
        starts = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(ids) for ids in found], out=starts[1:])
        return TextBatch(starts, np.array([id for ids in found for id in ids], np.int32))
