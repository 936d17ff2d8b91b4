"""Single messages at points, which one call of a kernel matches unless something is special."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from nearcast._jit import read_only
from nearcast._kernel_files import at_hand
from nearcast.arrays.by_address import addresses_of
from nearcast.arrays.types import Bytes, Int32s, Int64s
from nearcast.engine.matching import ArrivedMessage
from nearcast.engine.operands import AskedKeys
from nearcast.engine.plain import PART
from nearcast.engine.single_kernels import NOT_DONE, OWN, match_single
from nearcast.engine.terms import TermLookup
from nearcast.index.rarest_term import RarestTerm, RarestTermArrays
from nearcast.index.table import RESIDUAL, SHARED, Rows
from nearcast.index.verify import Bitmap, bitmap_for

if TYPE_CHECKING:
    from nearcast.engine.subscriptions import IndexedSubscriptions

_LONGEST = 1 << 11  # bytes of a text
_MOST_TOKENS = _LONGEST // 2 + 1
_ROOM = 1 << 12  # nodes and leaves to visit, and rows to find
_MOST_KEYS = 1 << 10  # of properties
_BESIDE = 8  # bytes that a key has beside its letters, at most
_WORTH_LOADING, _WORTH_COMPILING = 1 << 8, 1 << 16
"""After how many messages it pays to load the kernel, or to compile what it needs."""


class SingleMatcher:
    """Finds the subscriptions that one message at a point reaches, by the default index.

    A kernel gets the addresses of all arrays of index, table and terms. With every message they
    are compared with those that are in use, and written anew when one was replaced.
    """

    is_loaded: ClassVar[bool] = False
    """Whether this process has the kernel."""

    def __init__(self) -> None:
        self._seen = 0
        self._ready = False
        self._rows: Rows | None = None
        self._state: RarestTermArrays | None = None
        self._lookup: TermLookup | None = None
        self._asked: AskedKeys | None = None
        self._frequency: Int64s | None = None
        self._where: Int64s = np.zeros((0, 2), np.int64)
        self._text: Bytes = np.zeros(_LONGEST, np.uint8)
        self._letters = self._text.data
        self._terms: Int32s = np.zeros(0, np.int32)
        self._bitmap: Bitmap = np.zeros(0, np.uint64)
        self._keys = np.empty(_MOST_KEYS, np.int32)
        self._found, self._owners = np.empty(_ROOM, np.int32), np.empty(_ROOM, np.int32)
        self._own: list[npt.NDArray[Any]] = [
            read_only(self._text), np.zeros(2, np.int64), np.ones(1, np.bool_),
            np.zeros(2, np.int64), self._terms, np.empty((_MOST_TOKENS, 2), np.uint64),
            np.empty((_MOST_TOKENS, 2), np.int64), np.empty(_MOST_TOKENS, np.int32),
            np.empty(_LONGEST + _BESIDE, np.uint8), np.empty(0, np.uint8), np.zeros(2, np.int64),
            np.empty((0, 2), np.int64), np.empty(0, np.int8), np.empty((0, 2), np.int64),
            np.empty(0), np.zeros(2, np.int64), np.empty(0, np.int32), np.empty(0),
            np.zeros((1, 4)), self._bitmap, np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int32),
            self._found, self._owners, self._keys,
        ]  # fmt: skip

    def prepare(self) -> None:
        """Use the kernel from now on, whether it has to be compiled or not."""
        self._ready = True

    def _count(self) -> None:
        """Count a message: after enough of them the kernel is worth loading."""
        self._seen += 1
        if self._seen == _WORTH_LOADING:
            self._ready = SingleMatcher.is_loaded or at_hand(PART)
        elif self._seen == _WORTH_COMPILING:
            self._ready = True

    def wanting(self, population: IndexedSubscriptions, arrived: ArrivedMessage) -> list[str]:
        """The ids of the subscriptions that a message reaches."""
        found = self._at_once(population, arrived) or self._step_by_step(population, arrived)
        rows, owners, flags = found
        if not len(rows):
            return []
        if flags & RESIDUAL:
            asking = (population.table.rows.flags[rows] & RESIDUAL) != 0
            numbers = population.table.residuals_of(rows[asking])
            kept = ~asking
            kept[asking] = population.operands.decided_for(arrived.content, numbers)
            owners = owners[kept]
        ids, some = population.owners.ids, owners.tolist()
        return [ids[owner] for owner in (set(some) if flags & SHARED else some)]

    def _step_by_step(
        self, population: IndexedSubscriptions, arrived: ArrivedMessage
    ) -> tuple[Int32s, Int32s, int]:
        """The rows that match a message, their owners, and the flags that any of them has."""
        index, table, point = population.index, population.table, arrived.message.point
        assert isinstance(index, RarestTerm) and point is not None  # noqa: S101, PT018 - the caller has looked
        known = population.operands.known(population.terms, arrived)
        if not len(known):
            return known, known, 0
        table.frequency[known] += 1
        found, looked_at = index.match_point(known, *point)
        population.looked_at += looked_at
        flags = int(np.bitwise_or.reduce(table.rows.flags[found], initial=0))
        return found, table.rows.owner[found], flags

    def _at_once(
        self, population: IndexedSubscriptions, arrived: ArrivedMessage
    ) -> tuple[Int32s, Int32s, int] | None:
        """The same by one call of a kernel; None, without any effect, if that is not possible."""
        message = arrived.message
        text, point = message.text, message.point
        if not self._ready:
            self._count()
            return None
        if len(text) > _LONGEST or not text.isascii() or point is None:
            return None
        terms, keys = population.terms, 0
        if message.properties is not None and not population.operands.asks_no_properties:
            numbers = population.operands.known_of_properties(terms, message.properties)
            keys = len(numbers)
            if keys > _MOST_KEYS:
                return None
            self._keys[:keys] = numbers
        asked = population.operands.asked_keys(terms)
        lookup = terms.lookup(asked.prefixes)
        if not lookup.plain:
            return None
        self._follow(population, lookup, asked)
        self._letters[: len(text)] = text.encode()
        count, looked_at, flags = match_single(
            self._where, len(text), *point, terms.next_mark(1), asked.known, asked.everyone, keys
        )
        SingleMatcher.is_loaded = True
        if count == NOT_DONE:
            return None
        population.looked_at += looked_at
        return self._found[:count], self._owners[:count], flags

    def _follow(
        self, population: IndexedSubscriptions, lookup: TermLookup, asked: AskedKeys
    ) -> None:
        """Write the addresses again if an array was replaced."""
        index, table = population.index, population.table
        assert isinstance(index, RarestTerm)  # noqa: S101 - the caller has looked
        state, rows, frequency = index.arrays, table.rows, table.frequency
        if (
            state is self._state
            and rows is self._rows
            and frequency is self._frequency
            and asked is self._asked
            and lookup is self._lookup
        ):
            return
        self._state, self._rows, self._frequency = state, rows, frequency
        self._asked, self._lookup = asked, lookup
        most = 2 + _MOST_TOKENS * (1 + len(asked.prefixes) + len(asked.phrases)) + _MOST_KEYS
        if most > len(self._terms):
            self._terms = self._own[4] = np.empty(most, np.int32)
        known = max(len(frequency), len(state.runs) // 2)
        if 64 * (len(self._bitmap) - 1) < known:
            self._bitmap = self._own[19] = bitmap_for(known)
            self._bitmap[-1] = ~np.uint64(0)
        arrays: list[npt.NDArray[Any]] = [
            *state, *rows, lookup.slots, lookup.secret, lookup.seen, *lookup.filters, *lookup.memo,
            frequency,
            asked.prefixes, asked.phrases, asked.names,
        ]  # fmt: skip
        assert len(arrays) == OWN  # noqa: S101 - the kernel counts on it
        self._where = addresses_of([*arrays, *self._own])
