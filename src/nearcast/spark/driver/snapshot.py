"""Reads the plan and the subscriptions of a pipeline from outside, running or not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int32s
from nearcast.engine.settings import Settings
from nearcast.errors import SourceError
from nearcast.partition.plan import Plan
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.operations import END, begun_in, of_kind, unranked
from nearcast.spark.registrar import Registrar

_TIMES = 5  # a running pipeline may remove what is being read


class PipelineSnapshot(NamedTuple):
    """The plan of the last committed step, and the boolean subscriptions after it."""

    step: int
    plan: Plan
    begun: pa.Table


def standing(state: PipelineState) -> PipelineSnapshot:
    """Read the state of a pipeline without blocking it."""
    for _ in range(_TIMES - 1):
        try:
            return _read(state)
        except SourceError:
            continue
    return _read(state)


def _read(state: PipelineState) -> PipelineSnapshot:
    commits = state.commits()
    if not commits:
        raise SourceError(f"{state.path}: no batch was committed here; run the stream first")
    last = state.commit(commits[-1])
    registrar = Registrar(Settings())
    alive = np.zeros(0, np.bool_)
    for log in map(unranked, _logs(state, last.step)):
        registrar.remember(log)
        begun, ended = (table["owner"].to_numpy() for table in (begun_in(log), of_kind(log, END)))
        more = int(begun.max(initial=-1)) + 1 - len(alive)
        alive = np.concatenate([alive, np.zeros(max(more, 0), np.bool_)])
        alive[begun] = True
        alive[ended] = False
    live: Int32s = np.flatnonzero(alive).astype(np.int32)
    return PipelineSnapshot(last.step, state.plan(last.plan), registrar.definitions(live))


def _logs(state: PipelineState, last: int) -> list[pa.Table]:
    """The latest base and the logs since."""
    base = max((step for step in state.definitions() if step <= last), default=0)
    since = range(base + 1, last + 1)
    found = [state.read_definitions(base)] if base else []
    found += [state.read_log(number, state.commit(number).log) for number in since]
    if any(each is None for each in found):
        raise SourceError(
            f"{state.path}: a log of it cannot be read; start the stream to repair it"
        )
    return [each for each in found if each is not None]
