"""Two embedded engines in two processes, each with half of the subscriptions of a workload."""

from __future__ import annotations

import time
import zlib
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any, NamedTuple, Self

import pyarrow as pa

from nearcast_lab.bench.topk_engine import filled_engine, published, subscribed
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import TopkArrays


class UpdateDigest(NamedTuple):
    """How many updates there were, and a sum that differs between different sets."""

    rows: int
    sum: int


def outcome_of(updates: pa.Table) -> UpdateDigest:
    """Sum updates up, in whatever order they are, with all bits of their scores."""
    lines = zip(
        *(updates[name].to_pylist() for name in ("op", "subscription", "message", "score")),
        strict=True,
    )
    total = sum(zlib.crc32(repr(line).encode()) for line in lines)
    return UpdateDigest(len(updates), total)


class _HalfEngine:
    """One of the engines, in a process of its own."""

    def __init__(self, half: int, subscriptions: int, window: int, seed: int) -> None:
        self._workload = workload = TopkArrays(seed, TopkOptions())
        self._engine = filled_engine(workload, window)
        start, stop = (subscriptions * part // 2 for part in (half, half + 1))
        list(subscribed(self._engine, workload, start, stop))
        self._ready: tuple[int, pa.Table] | None = None

    def prepare(self, first: int, end: int) -> None:
        self._ready = first, published(self._workload, first, end)

    def publish(self) -> tuple[float, float, UpdateDigest]:
        """Publish what was prepared; give the seconds, the CPU and the updates."""
        assert self._ready is not None  # noqa: S101 - as `HalvedEngines` calls it
        began, cpu = time.perf_counter(), time.process_time()
        updates = self._engine.publish_table(self._ready[1])
        seconds, used = time.perf_counter() - began, time.process_time() - cpu
        return seconds, used, outcome_of(updates)


_half: _HalfEngine | None = None


def _load(*given: Any) -> None:
    global _half
    _half = _HalfEngine(*given)


def _call(name: str, *given: Any) -> Any:
    return getattr(_half, name)(*given)


class HalvedEngines:
    """Both engines."""

    def __init__(self, subscriptions: int, window: int, seed: int) -> None:
        self._given = subscriptions, window, seed
        self._stack = ExitStack()
        context = get_context("spawn")
        self._pools = [
            self._stack.enter_context(ProcessPoolExecutor(1, mp_context=context)) for _ in range(2)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._stack.close()

    def load(self) -> None:
        """Fill both windows, and subscribe."""
        _all([p.submit(_load, half, *self._given) for half, p in enumerate(self._pools)])

    def publish(self, first: int, end: int) -> tuple[float, float, UpdateDigest]:
        """Publish messages to both at once; give the seconds of the slower one, CPU and updates."""
        _all([pool.submit(_call, "prepare", first, end) for pool in self._pools])
        found = _all([pool.submit(_call, "publish") for pool in self._pools])
        rows, sums = zip(*(outcome for _, _, outcome in found), strict=True)
        seconds, cpu, _ = zip(*found, strict=True)
        return max(seconds), sum(cpu), UpdateDigest(sum(rows), sum(sums))


def _all(calls: list[Future[Any]]) -> list[Any]:
    return [call.result() for call in calls]
