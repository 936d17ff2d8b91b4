"""`nearcast bench engine`: a deal service from end to end, in one process.

Its subscriptions are loaded with `subscribe_table`, messages are published as a table and one by
one, and the updates of some messages are compared with those that plain code finds.
"""

from __future__ import annotations

import gc
from collections import Counter
from time import perf_counter
from typing import Any, TypedDict

import msgspec
import numpy as np
import pyarrow as pa

from nearcast import Engine
from nearcast.arrays.memory import give_back
from nearcast.engine.indexed import Indexed
from nearcast.text import DEFAULT, Content, parse_query
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.bench.processes import resident_mib
from nearcast_lab.progress import Progress
from nearcast_lab.timing import cpu_of
from nearcast_lab.workloads import deals

_WARM = 3000  # subscriptions and messages that load or compile kernels first
_SINGLE = 2000
_CHECKED = 60


class EngineReport(TypedDict):
    """What was measured; rates are a second of CPU of all threads.

    Priced messages have a category and a price as properties.
    Bytes are what the resident set has grown by, and what the engine accounts for itself.
    """

    subscriptions: int
    load_cpu_s: float
    subscriptions_per_cpu_s: float
    resident_bytes_per_subscription: float
    accounted_bytes_per_subscription: float
    messages: int
    publish_cpu_s: float
    messages_per_cpu_s: float
    priced_messages_per_cpu_s: float
    updates: int
    publish_p50_us: float
    publish_p99_us: float
    priced_publish_p50_us: float
    checked_messages: int
    checked_updates: int


def measure_engine(
    subscriptions: int, messages: int, seed: int, progress: Progress
) -> EngineReport:
    """Load, publish and check."""
    progress("loading kernels")
    _warm_up(seed + 1)
    progress(f"making {subscriptions:,} subscriptions and {messages:,} messages")
    made = deals.subscriptions(subscriptions, seed)
    tables, all_offers = deals.tables(made), deals.messages(messages + _WARM, seed)
    offers = all_offers.slice(0, messages)
    all_priced = deals.messages(messages + _WARM, seed + 3, priced=True)
    priced = all_priced.slice(0, messages)
    singles = deals.messages(_SINGLE, seed + 2)
    priced_singles = deals.messages(_SINGLE, seed + 4, priced=True)
    engine = Engine(index="rarest-term")
    before = _resident()
    progress("loading them")
    load_s = sum(cpu_of(engine.subscribe_table, table)[1] for table in tables)
    grown = _resident() - before
    progress("publishing a table")
    # Others first; none is published twice.
    engine.publish_table(all_offers.slice(messages))
    updates, publish_s = cpu_of(engine.publish_table, offers)
    engine.publish_table(all_priced.slice(messages))
    priced_updates, priced_s = cpu_of(engine.publish_table, priced)
    progress("publishing one by one")
    times = _publish_singly(engine, singles)
    priced_times = _publish_singly(engine, priced_singles)
    progress("checking some messages with plain code")
    checked = _check(made, offers, updates) + _check(made, priced, priced_updates)
    return EngineReport(
        subscriptions=subscriptions,
        load_cpu_s=load_s,
        subscriptions_per_cpu_s=subscriptions / load_s,
        resident_bytes_per_subscription=grown / subscriptions,
        accounted_bytes_per_subscription=engine.figures()["bytes"] / subscriptions,
        messages=messages,
        publish_cpu_s=publish_s,
        messages_per_cpu_s=messages / publish_s,
        priced_messages_per_cpu_s=messages / priced_s,
        updates=len(updates) + len(priced_updates),
        publish_p50_us=float(np.percentile(times, 50)) * 1e6,
        publish_p99_us=float(np.percentile(times, 99)) * 1e6,
        priced_publish_p50_us=float(np.percentile(priced_times, 50)) * 1e6,
        checked_messages=2 * min(_CHECKED, messages),
        checked_updates=checked,
    )


def _warm_up(seed: int) -> None:
    """Use everything that is measured once."""
    engine = Engine(index="rarest-term")
    for table in deals.tables(deals.subscriptions(_WARM, seed)):
        engine.subscribe_table(table)
    engine.publish_table(deals.messages(_WARM, seed))
    engine.publish_table(deals.messages(_WARM, seed, priced=True))
    if isinstance(engine._core, Indexed):
        engine._core.boolean.single.prepare()
    _publish_singly(engine, deals.messages(10, seed))


def _publish_singly(engine: Engine, offers: pa.Table) -> list[float]:
    times = []
    for offer in offers.to_pylist():
        id, text, point = f"one-{offer['id']}", offer["text"], tuple(offer["point"])
        properties = _properties(offer)
        started = perf_counter()
        engine.publish(id, text, point, properties=properties)
        times.append(perf_counter() - started)
    return times


def _properties(offer: dict[str, Any]) -> dict[str, Any] | None:
    written = offer.get("properties")
    return None if written is None else msgspec.json.decode(written)


def _resident() -> float:
    """Bytes of the resident set, once what is not used any more was given back."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    give_back()
    return resident_mib() * 2**20


def _check(made: deals.DealSubscriptions, offers: pa.Table, updates: pa.Table) -> int:
    """Compare the updates of some messages with plain code; count them."""
    found = Counter(updates["event"].to_pylist())
    most = [event for event, _ in found.most_common(_CHECKED // 2)]
    some = most + [event for event in range(_CHECKED - len(most)) if event not in most]
    given = zip(updates["event"].to_pylist(), updates["subscription"].to_pylist(), strict=True)
    wanted: dict[int, set[str]] = {event: set() for event in some if event < len(offers)}
    for event, id in given:
        if event in wanted:
            wanted[event].add(id)
    count = 0
    for event, ids in wanted.items():
        offer = offers.slice(event, 1).to_pylist()[0]
        expected = _reached(made, offer)
        if ids != expected:
            raise DisagreementError(
                f"message {offer['id']}: {len(ids)} updates, and {len(expected)} by plain code"
            )
        count += len(ids)
    return count


def _reached(made: deals.DealSubscriptions, offer: dict[str, Any]) -> set[str]:
    """The subscriptions that a message reaches, found without an index."""
    tokens, point = DEFAULT.tokens(offer["text"]), offer["point"]
    terms, content = frozenset(tokens), Content(tokens, _properties(offer))
    reach = 2.0 * made.radii / 111_000.0
    off = np.abs(made.centers - np.array(point))
    near = (off[:, 1] <= reach) & (off[:, 0] * np.cos(np.radians(point[1])) <= 1.2 * reach)
    return {
        made.ids[row]
        for row in np.flatnonzero(near).tolist()
        if parse_query(made.queries[row]).matches(terms, content)
        and made.region(row).contains(*point)
    }
