"""What a stream costs the whole engine: texts in, updates with names out, both as Arrow tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypedDict

import pyarrow as pa

from nearcast.engine import Engine
from nearcast.geo import Box
from nearcast_lab.timing import cpu_of
from nearcast_lab.workloads.topk_arrays import QueryArrays, TopkArrays

ENGINE = "engine"
_CHUNK = 20_000
_INITIAL = 50_000


class EngineRun(TypedDict):
    """CPU of all threads, reading texts and naming updates included; every term weighs 1."""

    method: str
    subscriptions: int
    window: int
    messages: int
    messages_per_cpu_s: float
    us_per_message: float
    updates_per_message: float
    initial_us_per_subscription: float


def published(workload: TopkArrays, first: int, end: int) -> pa.Table:
    """Messages as an engine takes them, by number."""
    posts = workload.messages(first, end)
    columns = {
        "id": [f"m{number}" for number in range(first, end)],
        "text": workload.texts(first, end),
        "point": pa.FixedSizeListArray.from_arrays(posts.points.ravel(), 2),
        "at": posts.at,
    }
    return pa.table(columns)


def wanted(workload: TopkArrays, first: int, end: int) -> pa.Table:
    """Subscriptions as an engine takes them, by number."""
    queries: QueryArrays = workload.subscriptions(first, end)
    tops = pa.StructArray.from_arrays(
        [pa.array(queries.ks), pa.array(queries.alphas)], ["k", "alpha"]
    )
    columns = {
        "id": [f"s{number}" for number in range(first, end)],
        "query": workload.queries(queries),
        "point": pa.FixedSizeListArray.from_arrays(queries.points.ravel(), 2),
        "top": tops,
    }
    return pa.table(columns)


def filled_engine(workload: TopkArrays, window: int) -> Engine:
    """Make an engine in memory whose window is full."""
    engine = Engine(window_count=window, space=Box(*workload.space), retain_updates=1)
    for first in range(0, window, _CHUNK):
        engine.publish_table(published(workload, first, min(first + _CHUNK, window)))
    return engine


def subscribed(
    engine: Engine, workload: TopkArrays, first: int, end: int
) -> Iterator[tuple[int, float]]:
    """Subscribe those numbered `first` up to `end`; give, part by part, how far, and its CPU."""
    for start in range(first, end, _INITIAL):
        stop = min(start + _INITIAL, end)
        yield stop, cpu_of(engine.subscribe_table, wanted(workload, start, stop))[1]


def measure_engine(
    workload: TopkArrays,
    subscriptions: int,
    window: int,
    messages: int,
    progress: Callable[[str], None],
) -> EngineRun:
    """Run a whole stream through an engine in memory, from a full window on."""
    progress(f"{ENGINE}: filling the window")
    engine = filled_engine(workload, window)
    initial = 0.0
    for done, seconds in subscribed(engine, workload, 0, subscriptions):
        initial += seconds
        progress(f"{ENGINE}: {done:,} of {subscriptions:,} subscriptions evaluated")
    spent, updates = 0.0, 0
    for first in range(0, messages, _CHUNK):
        end = min(first + _CHUNK, messages)
        table = published(workload, window + first, window + end)
        found, seconds = cpu_of(engine.publish_table, table)
        spent, updates = spent + seconds, updates + len(found)
        progress(f"{ENGINE}: {end:,} of {messages:,} messages")
    return {
        "method": ENGINE,
        "subscriptions": subscriptions,
        "window": window,
        "messages": messages,
        "messages_per_cpu_s": messages / spent,
        "us_per_message": spent / messages * 1e6,
        "updates_per_message": updates / messages,
        "initial_us_per_subscription": initial / subscriptions * 1e6,
    }
