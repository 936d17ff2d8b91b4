"""What matching a message costs a worker here, in CPU time of one core, on the core at hand.

Three costs are separated by leaving things out: with thresholds that nothing reaches, no candidate
is scored; with no subscriptions, no posting is read. A worker finds the terms of a message, hashes
of 64 bits, in a table first; that is part of handling it. Of repeated measurements the shortest
counts: others may be using the machine.
"""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time_ns

import numpy as np

from nearcast.partition.tables import count_table
from nearcast.topk.shares import SharedCore
from nearcast_lab.simulators.calibrate import find_terms
from nearcast_lab.simulators.topk import SimulatedMessages, TopkCosts

_ROUNDS = 5
_LEAST_NS = 0.01
_NEVER = 2.0  # a threshold above every score


def calibrate(core: SharedCore, empty: SharedCore, messages: SimulatedMessages) -> TopkCosts:
    """Measure with a core of many subscriptions, and one without any that knows the same terms.

    The core has its thresholds again afterwards.
    """
    known, first = np.unique(messages.terms, return_index=True)
    keys, values = count_table(known, messages.numbers[first].astype(np.int64) + 1)

    def handle() -> None:
        find_terms(keys, values, messages.starts, messages.terms, 0, messages.size)
        _probe(empty, messages)

    message_ns = _shortest(handle)
    empty_ns = _shortest(lambda: _probe(empty, messages))
    real = _shortest(lambda: _probe(core, messages))
    before = core.counters
    _probe(core, messages)
    after = core.counters
    visited, candidates = (max(after[n] - before[n], 1) for n in ("visited", "candidates"))
    thetas = core.thetas
    core.set_thetas(np.full(len(thetas), _NEVER))
    unreached = _shortest(lambda: _probe(core, messages))
    core.set_thetas(thetas)
    return TopkCosts(
        message_ns=max(message_ns / messages.size, _LEAST_NS),
        posting_ns=max((unreached - empty_ns) / visited, _LEAST_NS),
        candidate_ns=max((real - unreached) / candidates, _LEAST_NS),
    )


def _probe(core: SharedCore, messages: SimulatedMessages) -> None:
    core.probe(messages.points, messages.starts, messages.numbers, messages.counts)


def _shortest(work: Callable[[], None]) -> float:
    work()  # compiled by this
    taken = []
    for _ in range(_ROUNDS):
        started = thread_time_ns()
        work()
        taken.append(thread_time_ns() - started)
    return float(min(taken))
