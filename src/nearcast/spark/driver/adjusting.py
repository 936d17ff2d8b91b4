"""The transition from the plan in use to a target plan, a few cells with each step.

The target is a plan in the state, written by a pipeline that balances itself, or by a user. Each
step of the transition is a version of the routing table that takes over with one step of the
pipeline and is committed with it. Every version finds every pair, so the transition can stop at any
point, or get another target.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

import numpy as np

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue, SourceError
from nearcast.pacing import TokenBucket
from nearcast.partition.adjust.versions import differing, may_follow, towards
from nearcast.partition.plan import Plan
from nearcast.spark.driver.state import PipelineState

BYTES_A_MINUTE = 64_000_000
"""Bytes that are carried from worker to worker in a minute, by default."""

_MINUTE_S = 60.0
_CELL_BYTES = 64  # the least that a cell counts for
_PART = 0.5  # of the time of a step that may go into carrying; every version has a cost of its own
_BYTES_A_SECOND = 20e6  # that are routed, sent, and added to shards
_LEAST_AT_ONCE = 256_000.0


class Allowance(TokenBucket):
    """A bucket that fills in a minute, for bytes or anything else."""

    def __init__(self, a_minute: float, clock: Callable[[], float] = time.monotonic) -> None:
        if not a_minute > 0:
            raise InvalidValue("adjust_bytes", a_minute, "a number of bytes above 0")
        super().__init__(a_minute / _MINUTE_S, clock, _MINUTE_S)

    def affordable(self, sizes: Int32s, at_once: float = np.inf) -> int:
        """How many of these, in their order, may be carried now and are within `at_once`.

        At least one, whatever its size, if enough is left for it or the whole budget of a minute
        is left: so an item larger than the budget of a minute is carried too.
        """
        left = self.left
        count = int(np.searchsorted(np.cumsum(sizes), min(left, at_once), side="right"))
        if count or not len(sizes):
            return count
        return int(sizes[0] <= left or left >= self.most)


class Pace:
    """How many bytes to carry with one step: as many as take half the time of a usual step."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began: float | None = None
        self._usual_s: float | None = None

    @property
    def bytes(self) -> float:
        """Bytes to carry with the next step."""
        return max(_PART * (self._usual_s or 0.0) * _BYTES_A_SECOND, _LEAST_AT_ONCE)

    def begin(self) -> None:
        """Note that a step begins."""
        self._began = self._clock()

    def end(self, carried: bool) -> None:
        """Note that it has ended; a step that carried something is not a usual one."""
        began, self._began = self._began, None
        if began is None or carried:
            return
        took = self._clock() - began
        self._usual_s = took if self._usual_s is None else 0.8 * self._usual_s + 0.2 * took


class PlanTransition:
    """Takes a pipeline to its target plan, version by version."""

    def __init__(self, state: PipelineState, allowance: Allowance | None = None) -> None:
        self._state = state
        self.allowance = allowance or Allowance(BYTES_A_MINUTE)

    def target(self, plan: Plan) -> Plan | None:
        """The target plan, if it differs from the plan in use and can follow it."""
        try:
            target = self._state.target()
        except SourceError as error:
            self._give_up(str(error))
            return None
        if target is None:
            return None
        if not may_follow(plan, target):
            self._give_up("the plan that was to be reached does not go with the one in use now")
            return None
        if target.workers == plan.workers and not len(differing(plan, target)):
            self._state.forget_target()
            return None
        return target

    def _give_up(self, reason: str) -> None:
        logging.getLogger("nearcast.spark").warning("%s; it is forgotten", reason)
        self._state.forget_target()

    def next_version(
        self, plan: Plan, cell_bytes: Int64s | None, messages: Floats, at_once: float = np.inf
    ) -> Plan | None:
        """The version that takes over with the next step; None if nothing changes.

        `messages` are recent counts by cell, `cell_bytes` what is held for each; about `at_once`
        bytes are carried with one step.
        """
        target = self.target(plan)
        if target is None:
            return None
        cells = differing(plan, target)
        if cell_bytes is not None:  # the cells with the most load for their bytes first
            sizes = np.maximum(cell_bytes[cells], _CELL_BYTES)
            order = np.argsort(-messages[cells] / sizes, kind="stable")
            cells = cells[order][: self.allowance.affordable(sizes[order], at_once)]
            if not len(cells) and target.workers <= plan.workers:
                return None
        return towards(plan, target, cells, max(self._state.plans()) + 1)
