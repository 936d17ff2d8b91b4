"""Contestants in turns, and what each takes in CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")


def in_turns(contestants: Sequence[T], rounds: int) -> Iterator[tuple[int, T]]:
    """Give each contestant once a round, with the number of the round.

    Every round begins with another one, so that a busy moment of the machine meets all alike.
    """
    for turn in range(rounds):
        first = turn % max(1, len(contestants))
        for one in (*contestants[first:], *contestants[:first]):
            yield turn, one


def cpu_of(work: Callable[P, T], *given: P.args, **named: P.kwargs) -> tuple[T, float]:
    """Do work once; give its outcome, and the seconds of CPU that all threads took."""
    started = process_time()
    found = work(*given, **named)
    return found, process_time() - started


def least_cpu_of(
    times: int, work: Callable[P, T], *given: P.args, **named: P.kwargs
) -> tuple[T, float]:
    """Do work several times; give its last outcome, and the least seconds of CPU."""
    runs = [cpu_of(work, *given, **named) for _ in range(times)]
    return runs[-1][0], min(seconds for _, seconds in runs)
