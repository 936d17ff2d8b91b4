"""The order of messages by their scores: the higher first, and of equal ones the newer."""

from __future__ import annotations

from nearcast._jit import inlined, inner
from nearcast.arrays.types import Floats, Int32s


@inlined
def before(score: float, number: int, other_score: float, other: int) -> bool:
    """Whether a message ranks before another."""
    return score > other_score or (score == other_score and number > other)


@inner
def keep_best(scores: Floats, numbers: Int32s, start: int, count: int, wanted: int) -> None:
    """Bring the best `wanted` of `count` messages to the front, the worst of them last."""
    low, high, place = start, start + count - 1, start + wanted - 1
    while low < high:
        middle = (low + high) // 2
        score, number = scores[middle], numbers[middle]
        i, j = low, high
        while i <= j:
            while before(scores[i], numbers[i], score, number):
                i += 1
            while before(score, number, scores[j], numbers[j]):
                j -= 1
            if i <= j:
                scores[i], scores[j] = scores[j], scores[i]
                numbers[i], numbers[j] = numbers[j], numbers[i]
                i += 1
                j -= 1
        if place <= j:
            high = j
        elif place >= i:
            low = i
        else:
            return
