"""Residual predicates of conjuncts: what their keys do not say exactly.

Comparisons of numbers are kept as columns, two of them at most for a predicate, so that a kernel
decides them for many messages at once. Everything else is decided in plain code. Predicates are
read when a message asks for them, many at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.comparisons import (
    COMPARISONS,
    HIGH_CLOSED,
    LEFT,
    LOW_CLOSED,
    NEGATED,
    Comparisons,
)
from nearcast.text import Content, Equals, Operand, Within

_IN_PLAIN_CODE, _UNREAD = -1, LEFT
_FEW = 8  # predicates that are not worth a kernel
_MOST_KEPT = 1 << 15  # predicates in plain code that are not read again
_FALSE, _TRUE, _ASK = range(3)
_MOST_EXACT = 2**53  # whole numbers up to here are doubles

Verdicts = npt.NDArray[np.int8]


class Residual(NamedTuple):
    """What a message must satisfy, and must not, beside keys."""

    having: tuple[Operand, ...]
    lacking: tuple[Operand, ...]

    def holds(self, content: Content) -> bool:
        """Whether a message satisfies it."""
        return all(one.holds(content) for one in self.having) and not any(
            one.holds(content) for one in self.lacking
        )


class MessageNumbers(NamedTuple):
    """The properties of messages that are numbers: of message i from `starts[i]` on."""

    starts: Int64s
    names: Int32s
    values: Floats
    known: npt.NDArray[np.bool_]  # by message: whether these are all that it has


@kernel
def _decide(
    messages: Int32s, numbers: Int32s, counts: npt.NDArray[np.int8], names: Int32s, lows: Floats,
    highs: Floats, hows: npt.NDArray[np.uint8], starts: Int64s, of: Int32s, values: Floats,
    known: npt.NDArray[np.bool_], verdicts: Verdicts,
) -> int:  # fmt: skip
    """Decide whether message `messages[i]` satisfies predicate `numbers[i]`, if that is possible.

    Gives how many have to be decided in plain code.
    """
    asked = 0
    for pair in range(len(messages)):
        message, number = messages[pair], numbers[pair]
        count = counts[number]
        if count == _IN_PLAIN_CODE or not known[message]:
            verdicts[pair] = _ASK
            asked += 1
            continue
        holds = True
        for at in range(COMPARISONS * number, COMPARISONS * number + count):
            name, how, found = names[at], hows[at], False
            for value_at in range(starts[message], starts[message + 1]):
                if of[value_at] == name:
                    value = values[value_at]
                    above = value >= lows[at] if how & LOW_CLOSED else value > lows[at]
                    below = value <= highs[at] if how & HIGH_CLOSED else value < highs[at]
                    found |= above and below
            holds &= found != ((how & NEGATED) != 0)
        verdicts[pair] = _TRUE if holds else _FALSE
    return asked


class Conditions:
    """The residual predicates of all subscriptions, by number.

    `residual_of` gives a predicate, `comparisons_of` many of them as columns, and `number_of` the
    number of a property's name.
    """

    def __init__(
        self,
        residual_of: Callable[[int], Residual],
        comparisons_of: Callable[[Int32s], Comparisons],
        number_of: Callable[[str], int],
    ) -> None:
        self._residual_of, self._number_of = residual_of, number_of
        self._comparisons_of = comparisons_of
        self._kept: dict[int, Residual] = {}
        self._counts: npt.NDArray[np.int8] = np.zeros(0, np.int8)  # of comparisons, or see above
        self._names: Int32s = np.zeros(0, np.int32)
        self._lows: Floats = np.zeros(0)
        self._highs: Floats = np.zeros(0)
        self._hows: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)

    @property
    def nbytes(self) -> int:
        """Bytes of the columns."""
        columns = (self._counts, self._names, self._lows, self._highs, self._hows)
        return sum(column.nbytes for column in columns)

    def put(self, number: int, residual: Residual) -> None:
        """Read a predicate into the columns, or keep it for plain code."""
        if number >= len(self._counts):
            self._grow(max(16, 2 * number))
        operands = [*residual.having, *residual.lacking]
        compared = [bounds_of(operand) for operand in operands]
        if len(operands) > COMPARISONS or None in compared:
            self._counts[number] = _IN_PLAIN_CODE
            self._keep(number, residual)
            return
        self._counts[number] = len(operands)
        for place, (operand, bounds) in enumerate(zip(operands, compared, strict=True)):
            at = COMPARISONS * number + place
            assert bounds is not None  # noqa: S101 - see above
            assert isinstance(operand, Equals | Within)  # noqa: S101 - they have bounds
            self._lows[at], self._highs[at], how = bounds
            self._hows[at] = how | (NEGATED if place >= len(residual.having) else 0)
            self._names[at] = self._number_of(operand.name)

    def _grow(self, room: int) -> None:
        def longer(array: npt.NDArray[np.generic], size: int) -> npt.NDArray[np.generic]:
            return np.concatenate([array, np.zeros(size - len(array), array.dtype)])

        unread = np.full(room - len(self._counts), _UNREAD, np.int8)
        self._counts = np.concatenate([self._counts, unread])
        for name in ("_names", "_lows", "_highs", "_hows"):
            setattr(self, name, longer(getattr(self, name), room * COMPARISONS))

    def _keep(self, number: int, residual: Residual) -> None:
        if len(self._kept) >= _MOST_KEPT:
            self._kept.clear()
        self._kept[number] = residual

    def drop(self, number: int) -> None:
        """Forget a predicate; another one may get its number."""
        self._kept.pop(number, None)
        if number < len(self._counts):
            self._counts[number] = _UNREAD

    def holds(self, number: int, content: Content) -> bool:
        """Whether a message satisfies a predicate."""
        residual = self._kept.get(number)
        if residual is None:
            residual = self._residual_of(number)
            self._keep(number, residual)
        return residual.holds(content)

    def _read(self, numbers: Int32s) -> None:
        """Read those of some predicates that have not been read."""
        most = int(numbers.max(initial=-1))
        if most >= len(self._counts):
            self._grow(max(16, 2 * most))
        unread = np.unique(numbers[self._counts[numbers] == _UNREAD])
        if len(unread) > _FEW:
            self._take(unread, self._comparisons_of(unread))
            unread = unread[self._counts[unread] == _UNREAD]
        for number in unread.tolist():
            self.put(number, self._residual_of(number))

    def _take(self, numbers: Int32s, read: Comparisons) -> None:
        """Write the predicates that were read at once into the columns."""
        self._counts[numbers] = read.counts
        at = (COMPARISONS * numbers[:, None] + np.arange(COMPARISONS)).ravel()
        self._names[at], self._lows[at] = read.names, read.lows
        self._highs[at], self._hows[at] = read.highs, read.hows

    def decide(
        self,
        messages: Int32s,
        numbers: Int32s,
        values: MessageNumbers,
        content: Callable[[int], Content],
    ) -> npt.NDArray[np.bool_]:
        """Which messages, by their places, satisfy which predicates.

        `content` gives that of a message, for what a kernel cannot decide.
        """
        self._read(numbers)
        verdicts = np.empty(len(messages), np.int8)
        asked = _decide(
            messages, numbers, self._counts, self._names, self._lows, self._highs, self._hows,
            values.starts, values.names, values.values, values.known, verdicts,
        )  # fmt: skip
        if asked:
            for pair in np.flatnonzero(verdicts == _ASK).tolist():
                of = content(int(messages[pair]))
                verdicts[pair] = self.holds(int(numbers[pair]), of)
        holding: npt.NDArray[np.bool_] = verdicts == _TRUE
        return holding


def bounds_of(operand: Operand) -> tuple[float, float, int] | None:
    """What a number is compared with, if doubles say that exactly."""
    if isinstance(operand, Within):
        low = -np.inf if operand.low is None else operand.low
        high = np.inf if operand.high is None else operand.high
        how = (LOW_CLOSED if operand.low_closed else 0) | (
            HIGH_CLOSED if operand.high_closed else 0
        )
        return (float(low), float(high), how) if _fits(low) and _fits(high) else None
    if isinstance(operand, Equals) and operand.number is not None and _fits(operand.number):
        return float(operand.number), float(operand.number), LOW_CLOSED | HIGH_CLOSED
    return None


def _fits(number: float) -> bool:
    return isinstance(number, float) or abs(number) <= _MOST_EXACT
