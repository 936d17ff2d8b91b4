"""Numbers for the terms of subscriptions, and their look-up in the texts of messages.

Only terms of subscriptions, and of messages while they are active, get a number, so an unused
term of an instant message costs only a look-up. There are two ways to look up terms: a
dictionary for texts that went through the analyser, and for plain ASCII texts a kernel that reads
the bytes of a whole Arrow column. The kernel identifies a term by 97 bits of hash instead of its
letters (`nearcast.arrays.slots`). The hash has a secret, drawn when the numbers are made and saved
with them, so that nobody can find two terms that share it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.slots import (
    Secret,
    Slots,
    empty_slots,
    find_all,
    hash_with,
    move_slots,
    put_all,
    secret_words,
)
from nearcast.arrays.types import Bytes, Int32s, Int64s
from nearcast.engine.key_filter import KeyFilters, KnownKeys
from nearcast.engine.prefix_memo import PrefixMemo, PrefixMemory
from nearcast.engine.term_kernels import number_spans, read_texts, remove_terms
from nearcast.index.table import EXCLUDES, NO_OWNER, Rows, Table
from nearcast.text import Analyser
from nearcast.text.columns import buffers, not_ascii, spliced

_FRESH_TERMS = 1 << 16  # the most new terms that one pass over some texts can number
_WORTH_SWEEPING = 1 << 12  # as many new terms of subscriptions at least lie between two sweeps


class TextBatch(NamedTuple):
    """The term ids of some texts: those of text i are `terms[starts[i] : starts[i + 1]]`."""

    starts: Int64s
    terms: Int32s


class TermLookup(NamedTuple):
    """What a kernel needs to find terms and keys, and to write each once a message."""

    slots: Slots
    secret: Secret
    seen: Int64s  # by number: the message that had it last
    plain: bool  # whether the terms of ASCII texts are their letters and digits
    filters: KeyFilters
    memo: PrefixMemo


class KeptTerms(NamedTuple):
    """Terms by number: their letters (None where only hashes are known), hashes, and the secret."""

    numbers: Int32s
    letters: list[str | None]
    hashes: Slots
    secret: Secret


class TermIds:
    """Numbers terms from 0, in the order in which subscriptions or active messages first use them.

    A term of subscriptions is in a dictionary. One that only active messages have is known by its
    hash alone, and its number is used again when they have ended. `sweep` frees the numbers of
    terms whose subscriptions have ended, whenever as many terms have come as there were before.
    """

    def __init__(self, table: Table, analyser: Analyser) -> None:
        self._table = table
        self._analyser = analyser
        self._plain = analyser == Analyser()
        self._secret = secret_words()
        self._ids: dict[str, int] = {}  # those of subscriptions, as far as their letters are known
        self._late: list[str] = []  # those in it that the slots do not know yet
        self._keys = KnownKeys()  # which of these are keys of prefixes and phrases
        self._count = 0  # one more than the highest number
        self._free: list[int] = []
        self._lent = 0  # numbers that are not in the dictionary
        self._slots = empty_slots(1 << 10)
        self._seen: Int64s = np.full(16, -1, np.int64)
        self._hashes: Slots = np.zeros((16, 2), np.uint64)  # by number
        self._kept: npt.NDArray[np.bool_] = np.zeros(16, np.bool_)  # by number: of subscriptions
        self._held: npt.NDArray[np.bool_] = np.zeros(16, np.bool_)  # by number: of messages
        self._new, self._swept = 0, 0  # terms of subscriptions: since the last sweep, and after it
        self._mark = 0
        self._lookup: TermLookup | None = None
        self._prefixed = PrefixMemory()

    def __len__(self) -> int:
        return self._count - len(self._free)

    def kept(self) -> KeptTerms:
        """The terms of subscriptions, to be saved with them; those of active messages are not."""
        self._sweep()
        numbers = np.flatnonzero(self._kept).astype(np.int32)
        letters = {number: term for term, number in self._ids.items()}
        spelled = [letters.get(number) for number in numbers.tolist()]
        return KeptTerms(numbers, spelled, self._hashes[numbers], self._secret)

    def take_over(self, kept: KeptTerms) -> None:
        """Load terms that another instance saved, with the same numbers; this one must be empty."""
        numbers, letters, hashes, self._secret = kept
        given = zip(letters, numbers.tolist(), strict=True)
        self._ids = {term: number for term, number in given if term is not None}
        self._keys.note(self._ids)
        self._count = int(numbers.max(initial=-1)) + 1
        self._lent = len(numbers) - len(self._ids)
        self._enter(hashes, numbers)
        self._kept[numbers] = True
        self._swept = len(numbers)
        self._free = np.flatnonzero(~self._kept[: self._count]).tolist()
        frequency = self._table.frequency
        others = np.ones(len(frequency), np.bool_)
        others[numbers] = False
        frequency[others] = 0

    def intern(self, terms: Iterable[str]) -> list[int]:
        """The numbers of the terms of a subscription; terms without one get a new number."""
        ids = self._ids
        wanted = list(terms)
        if self._lent and any(term not in ids for term in wanted):
            self._adopt([term for term in dict.fromkeys(wanted) if term not in ids])
        for term in wanted:
            if term not in ids:
                ids[term] = self._free.pop() if self._free else self._count
                self._count = max(self._count, ids[term] + 1)
                self._late.append(term)
                self._new += 1
        return [ids[term] for term in wanted]

    def _adopt(self, terms: list[str]) -> None:
        """Add terms to the dictionary that only active messages had so far."""
        for term, number in zip(terms, self._find(terms).tolist(), strict=True):
            if number >= 0:
                self._ids[term] = number
                self._kept[number] = True
                self._lent -= 1
                self._new += 1

    def known(self, terms: Iterable[str]) -> Int32s:
        """The numbers of those terms that have one."""
        get = self._ids.get
        if not self._lent:
            return np.array([id for term in terms if (id := get(term)) is not None], np.int32)
        wanted = list(terms)
        found = [id for term in wanted if (id := get(term)) is not None]
        rest = self._find([term for term in wanted if term not in self._ids])
        return np.concatenate([np.array(found, np.int32), rest[rest >= 0]])

    def numbers_of(self, terms: list[str]) -> Int32s:
        """The number of each of some terms, -1 for one that has none."""
        return self._find(terms)

    @property
    def analyser(self) -> Analyser:
        """What makes terms of texts."""
        return self._analyser

    def lookup(self, prefixes: Int64s) -> TermLookup:
        """What a kernel needs to find terms, and keys of prefixes of some lengths.

        It is the same object for as long as the arrays in it are.
        """
        self.settle()
        found, filters = self._lookup, self._keys.filters(self._ids, self._secret)
        memo = self._prefixed.memo(self._keys.version, prefixes, len(self._seen))
        if (
            found is None
            or found.filters is not filters
            or found.memo is not memo
            or found.slots is not self._slots
            or found.seen is not self._seen
        ):
            found = TermLookup(self._slots, self._secret, self._seen, self._plain, filters, memo)
            self._lookup = found
        return found

    def next_mark(self, messages: int) -> int:
        """A number for the first of some messages, by which `seen` tells them from others."""
        mark, self._mark = self._mark, self._mark + messages
        return mark

    def hashed(self, strings: list[str]) -> Slots:
        """The hashes of strings, as kernels make them of bytes."""
        return self._hashed(strings)

    def lend(self, terms: Iterable[str]) -> Int32s:
        """The numbers of the terms of an active message, lent until `take_back`."""
        self.settle()
        wanted = list(terms)
        numbers = np.array([self._ids.get(term, -1) for term in wanted], np.int32)
        missing = np.flatnonzero(numbers < 0)
        if len(missing):
            hashes = self._hashed([wanted[at] for at in missing.tolist()])
            found = np.empty(len(missing), np.int32)
            find_all(self._slots, hashes, found)
            new = found < 0
            count = int(new.sum())
            found[new] = self._next(count)
            self._use(count)
            self._enter(hashes[new], found[new])
            self._lent += count
            numbers[missing] = found
        self._held[numbers] = True
        return numbers

    def take_back(self, numbers: Int32s) -> None:
        """Free the numbers of terms that no active message and no subscription has any more."""
        self._held[numbers] = False
        gone = numbers[~self._kept[numbers]]
        self._lent -= len(gone)
        self._give_back(gone)

    def _give_back(self, gone: Int32s) -> None:
        if len(gone):
            remove_terms(self._slots, self._hashes, gone)
            self._table.frequency[gone] = 0
            self._prefixed.forget(gone)
            self._free += gone.tolist()

    def sweep(self) -> None:
        """Free the terms of subscriptions that have ended, if there may be many.

        Only while every term that was interned is in the table.
        """
        if self._new >= max(_WORTH_SWEEPING, self._swept):
            self._sweep()

    def _sweep(self) -> None:
        self.settle()
        unused = self._kept.copy()
        unused[_terms_in(self._table.rows)] = False
        letters = len(self._ids)
        self._ids = {term: number for term, number in self._ids.items() if not unused[number]}
        self._kept &= ~unused
        # Those without letters were counted as lent before; of the others some are from now on.
        gone = np.flatnonzero(unused & ~self._held).astype(np.int32)
        self._lent += letters - len(self._ids) - len(gone)
        self._give_back(gone)
        self._keys.version += 1
        self._new, self._swept = 0, int(np.count_nonzero(self._kept))

    def _next(self, count: int) -> Int32s:
        """The numbers that new terms will get: free ones first."""
        again = self._free[: -count - 1 : -1] if count else []
        fresh = np.arange(self._count, self._count + count - len(again), dtype=np.int32)
        return np.concatenate([np.array(again, np.int32), fresh])

    def _use(self, count: int) -> None:
        """Mark the first `count` of these numbers as used."""
        again = min(count, len(self._free))
        del self._free[len(self._free) - again :]
        self._count += count - again

    def _find(self, terms: list[str]) -> Int32s:
        self.settle()
        numbers = np.empty(len(terms), np.int32)
        find_all(self._slots, self._hashed(terms), numbers)
        return numbers

    def _enter(self, hashes: Slots, numbers: Int32s) -> None:
        """Insert new terms into the slots."""
        self._reserve(self._count)
        put_all(self._slots, hashes, numbers)
        self._hashes[numbers] = hashes

    def settle(self) -> None:
        """Insert new terms of the dictionary into the slots, with room for their frequencies."""
        if self._late:
            late, self._late = self._late, []
            numbers = np.array([self._ids[term] for term in late], np.int32)
            self._enter(self._hashed(late), numbers)
            self._kept[numbers] = True
            self._keys.note(late)

    def _reserve(self, count: int) -> None:
        """Make room for `count` terms in all."""
        self._table.ensure_terms(count)
        if count > len(self._seen):
            room, old = max(count, 2 * len(self._seen)), len(self._seen)
            seen, self._seen = self._seen, np.full(room, -1, np.int64)
            self._seen[:old] = seen
            self._hashes = np.concatenate([self._hashes, np.zeros((room - old, 2), np.uint64)])
            self._kept = np.concatenate([self._kept, np.zeros(room - old, np.bool_)])
            self._held = np.concatenate([self._held, np.zeros(room - old, np.bool_)])
        while 2 * count > len(self._slots):
            larger = empty_slots(4 * len(self._slots))
            move_slots(self._slots, larger)
            self._slots = larger

    def _hashed(self, terms: list[str]) -> Slots:
        """Hash terms as the kernel that reads columns does."""
        encoded = [term.encode(errors="surrogatepass") for term in terms]
        offsets = np.zeros(len(encoded) + 1, np.int64)
        np.cumsum([len(term) for term in encoded], out=offsets[1:])
        hashes = np.empty((len(encoded), 2), np.uint64)
        hash_with(self._secret, np.frombuffer(b"".join(encoded), np.uint8), offsets, hashes)
        return hashes

    def read(self, texts: pa.StringArray, *, intern: bool = False, lend: bool = False) -> TextBatch:
        """Turn texts into the numbers of their terms, each once a text.

        With `intern` every term gets a number, as of subscriptions; with `lend` as of messages
        that are to be active. Otherwise those without one are left out.
        """
        self.settle()
        data, offsets = buffers(texts)
        odd = not_ascii(data, offsets) if self._plain else np.ones(len(texts), np.bool_)
        if odd.all():
            return self._read_slowly(texts, intern, lend)
        batch = self._read_ascii(data, offsets, odd, intern, lend)
        if not odd.any():
            return batch
        slow = self._read_slowly(texts.filter(pa.array(odd)), intern, lend)
        starts, terms = spliced(batch.starts, batch.terms, odd, slow.starts, slow.terms)
        return TextBatch(starts, terms)

    def _read_ascii(
        self, data: Bytes, offsets: Int64s, odd: npt.NDArray[np.bool_], intern: bool, lend: bool
    ) -> TextBatch:
        room = int(offsets[-1] - offsets[0]) // 2 + len(offsets)
        starts, terms = np.zeros(len(offsets), np.int64), np.empty(room, np.int32)
        longest = int(np.diff(offsets).max()) // 2 + 1
        some = max(longest, min(_FRESH_TERMS, room)) if intern or lend else 0
        fresh = np.empty((some, 2), np.int64)
        hashes, spans = np.empty((longest, 2), np.uint64), np.empty((longest, 2), np.int64)
        done = 0
        while done < len(offsets) - 1:
            numbers = self._next(len(fresh))
            self._reserve(self._count + len(fresh))
            done, added = read_texts(
                self._slots, data, offsets, odd, self._secret, self._seen, self._mark, done, starts,
                terms, fresh, numbers, self._hashes, hashes, spans,
            )  # fmt: skip
            self._use(added)
            if intern:
                self._new += added
                raw = data.data
                given = zip(fresh[:added].tolist(), numbers[:added].tolist(), strict=True)
                for (a, b), number in given:
                    self._ids[str(raw[a:b], "ascii").lower()] = number
            else:
                self._lent += added
        self._mark += len(offsets)
        terms = terms[: starts[-1]]
        if intern:
            # Some may have been lent before: they stay, with their hash alone.
            self._kept[terms] = True
        elif lend:
            self._held[terms] = True
        return TextBatch(starts, terms)

    def intern_spans(self, data: Bytes, spans: Int64s, lower: bool) -> Int32s:
        """Number terms of subscriptions by their letters, `data[spans[i, 0] : spans[i, 1]]`.

        With `lower` capital letters, all of them ASCII, count as small ones.
        """
        self.settle()
        terms = np.empty(len(spans), np.int32)
        fresh = np.empty(min(_FRESH_TERMS, len(spans)), np.int64)
        done, raw = 0, data.data
        while done < len(spans):
            numbers = self._next(len(fresh))
            self._reserve(self._count + len(fresh))
            done, added = number_spans(
                self._slots, data, spans, lower, self._secret, done, terms, fresh, numbers,
                self._hashes,
            )  # fmt: skip
            self._use(added)
            self._new += added
            letters = spans[fresh[:added]].tolist()
            if lower:
                new = [str(raw[a:b], "ascii").lower() for a, b in letters]
            else:
                new = [str(raw[a:b], "ascii") for a, b in letters]
            self._ids.update(zip(new, numbers[:added].tolist(), strict=True))
            if not lower:
                self._keys.note(new)
        self._kept[terms] = True
        return terms

    def _read_slowly(self, texts: pa.StringArray, intern: bool, lend: bool) -> TextBatch:
        found: list[list[int]] = []
        for text in texts.to_pylist():
            terms = sorted(self._analyser.terms(text))
            if lend:
                found.append(self.lend(terms).tolist())
            else:
                found.append(self.intern(terms) if intern else self.known(terms).tolist())
        self.settle()
        starts = np.zeros(len(found) + 1, np.int64)
        np.cumsum([len(ids) for ids in found], out=starts[1:])
        return TextBatch(starts, np.array([id for ids in found for id in ids], np.int32))


def _terms_in(rows: Rows) -> Int32s:
    """The terms of all rows in use, required and excluded."""
    live = np.flatnonzero(rows.owner != NO_OWNER)
    first, required = rows.first[live], rows.required[live]
    after = (first + required)[rows.flags[live] & EXCLUDES != 0]
    starts = np.concatenate([first, after + 1]).astype(np.int64)
    lengths = np.concatenate([required, rows.terms[after]]).astype(np.int64)
    before = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum())) + np.repeat(starts - before, lengths)
    found: Int32s = rows.terms[places]
    return found
