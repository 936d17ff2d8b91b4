"""Compare ranges that are found by the directory of their property with those found by its name.

    python benchmarks/ranges.py [--subscriptions 100000] [--rounds 4]

Both engines of a pair have the same subscriptions and get the same messages in turns, in one
process; their updates must be equal. CPU time counts, the best of all rounds but the first. The
engine that finds by name is made by leaving out what `nearcast.engine.ranges` finds in queries.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast import Engine
from nearcast.engine import loading
from nearcast.engine.range_kernels import RangeKeys
from nearcast.text.bulk import BulkQueries
from nearcast_lab.workloads.interests import InterestsWorkload

KINDS = ("between", "below", "rarely", "between, in circles", "below, in circles", "mixture")
_SEED = 1
_ALONE, _IN_CIRCLES = 4_000_000, 1900  # rows that a batch looks at, and messages

_read_ranges = loading.read_ranges


def main() -> None:
    """Measure each kind of population, and print what both cost."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    given = parser.parse_args()
    print("load of the machine:", *Path("/proc/loadavg").read_text().split()[:3])
    made = InterestsWorkload(_SEED)
    for kind in given.kinds:
        compare(made, kind, given.subscriptions, max(2, given.rounds))


def compare(made: InterestsWorkload, kind: str, count: int, rounds: int) -> None:
    """Measure one population, found in both ways."""
    table = population(made, kind, count)
    engines = {"name": loaded(table, by_name), "directory": loaded(table, _read_ranges)}
    batch = _IN_CIRCLES if "circles" in kind or kind == "mixture" else max(4, _ALONE // count)
    if kind == "below":
        batch = max(4, batch // 20)  # most of them match
    best, looked = dict.fromkeys(engines, float("inf")), dict.fromkeys(engines, 0.0)
    for turn in range(rounds):
        messages = made.messages(batch, f"b{turn}-").table(properties=True)
        updates = {}
        for name, engine in list(engines.items())[:: 1 if turn % 2 else -1]:
            subscriptions: Any = engine._core
            before = subscriptions.boolean.looked_at
            start = process_time()
            updates[name] = engine.publish_table(messages)
            if turn:
                best[name] = min(best[name], (process_time() - start) / batch * 1e6)
            looked[name] = (subscriptions.boolean.looked_at - before) / batch
        if not updates["name"].equals(updates["directory"]):
            raise SystemExit(f"{kind}: the updates differ")
    matches = len(updates["name"]) / batch
    for name, spent in best.items():
        print(
            f"{kind:20}  by {name:10} {spent:10,.1f} us a message, {looked[name]:11,.1f} rows "
            f"looked at, {matches:9,.1f} matches",
            flush=True,
        )


def population(made: InterestsWorkload, kind: str, count: int) -> pa.Table:
    """Ranges of prices, anywhere or in circles; messages have prices from 1 to 999."""
    rng = np.random.default_rng(_SEED)
    lows = rng.integers(1, 1000, count)
    highs = lows + np.maximum(1, lows * rng.uniform(0.0, 0.1, count)).astype(int)
    between = [f"price:[{a} TO {b}]" for a, b in zip(lows.tolist(), highs.tolist(), strict=True)]
    below = [f"price:<{low}" for low in lows.tolist()]
    queries: list[str | None] = list(between if kind.startswith("between") else below)
    if kind == "rarely":
        queries = [f"price:<{low / 50:.2f}" for low in lows.tolist()]
    elif kind == "mixture":
        queries = [(None, below[n], between[n])[n % 3] for n in range(count)]
    regions: list[str] | list[None] = [None] * count
    if "circles" in kind or kind == "mixture":
        regions = made.circle_regions(count, 500.0, 20_000.0)
    columns = {
        "id": pa.array([f"s{number}" for number in range(count)]),
        "query": pa.array(queries, pa.string()),
        "region": pa.array(regions, pa.string()),
    }
    return pa.table(columns)


def loaded(table: pa.Table, read_ranges: Callable[[BulkQueries], RangeKeys]) -> Engine:
    """An engine with these subscriptions, which reads ranges in some way."""
    loading.read_ranges = read_ranges
    engine = Engine(index="rarest-term")
    engine.subscribe_table(table)
    loading.read_ranges = _read_ranges
    return engine


def by_name(read: BulkQueries) -> RangeKeys:
    """Find no alternative by its ranges."""
    found = _read_ranges(read)
    found.used[:] = False
    found.spans[:] = 0
    return found


if __name__ == "__main__":
    main()
