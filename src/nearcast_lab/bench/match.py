"""`nearcast bench match`: how fast each index matches, on the same data, in one process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from nearcast.index import IndexChoice, Table, match
from nearcast_lab.bench.agreement import check_agreement, check_sample
from nearcast_lab.bench.matching import (
    Contestant,
    add_to_table,
    beside_a_fresh_one,
    calibrate,
    delete_some,
    insert_more,
    known_terms,
    rounds,
    single_calls,
    slices_of,
)
from nearcast_lab.progress import Progress
from nearcast_lab.workloads.arrays import ArrayWorkload, Subscriptions

_GROWTH = 0.2
_WARM = 400


class MatchReport(TypedDict):
    """What was measured of one index on one population.

    Times are CPU, but for `messages_per_s`: what all threads together matched in a second. Bytes
    are those of the index and of the table that all indexes share. Insertion and deletion are
    those of the index alone, in microseconds a row. The slowdown compares matching after a fifth
    more was inserted row by row with matching after a build of the same.
    """

    index: str
    workload: str
    subscriptions: int
    threads: int
    messages: int
    messages_per_cpu_s: float
    messages_per_s: float
    matches_per_message: float
    candidates_per_message: float
    build_cpu_s: float
    bytes_per_subscription: float
    index_bytes_per_subscription: float
    p50_us: float
    p99_us: float
    insert_us: float
    insert_single_p50_us: float
    delete_us: float
    slowdown_after_inserts: float
    checked: bool


class MatchSetup(NamedTuple):
    """What to measure, and how thoroughly."""

    workload: str
    messages: int
    choices: Sequence[IndexChoice]
    threads: Sequence[int] = (1,)
    check: bool = False
    rounds: int = 3
    budget_s: float = 20.0
    """CPU seconds that a round of one index may take; a slower one gets fewer messages."""


def measure_match(
    plan: MatchSetup, workload: ArrayWorkload, populations: Sequence[int], progress: Progress
) -> list[MatchReport]:
    """Measure all chosen indexes on populations of each size."""
    progress("making subscriptions and messages")
    all_subscriptions = workload.subscriptions(0, _grown(max(populations)))
    warm_up(plan, workload, all_subscriptions, progress)
    reports = []
    for population in populations:
        end = _grown(population)
        subscriptions = Subscriptions(
            all_subscriptions.boxes[:end],
            all_subscriptions.starts[: end + 1],
            all_subscriptions.terms[: all_subscriptions.starts[end]],
        )
        reports += _measure(plan, workload, subscriptions, population, progress)
    return reports


def _grown(population: int) -> int:
    return population + max(1, int(population * _GROWTH))


def table_for(workload: ArrayWorkload) -> Table:
    """Make an empty table that knows how frequent terms are."""
    table = Table()
    count = len(workload.frequency)
    table.ensure_terms(count)
    table.frequency[:count] = workload.frequency
    return table


def warm_up(
    plan: MatchSetup, workload: ArrayWorkload, subscriptions: Subscriptions, progress: Progress
) -> None:
    """Let everything be compiled before anything is timed."""
    count = min(_WARM, len(subscriptions) - 1)
    messages = workload.messages(0, 8)
    for choice in plan.choices:
        progress(f"compiling {choice.label}")
        table = table_for(workload)
        add_to_table(table, subscriptions, 0, count)
        index = choice.make(table)
        index.build()
        index.insert(add_to_table(table, subscriptions, count, count + 1))
        match(index, messages)
        gone = np.arange(count // 2, dtype=np.int32)
        index.delete(gone)
        table.remove(gone)
        match(index, messages)
        index.delete(np.arange(count // 2, count, dtype=np.int32))


def _measure(
    plan: MatchSetup,
    workload: ArrayWorkload,
    subscriptions: Subscriptions,
    population: int,
    progress: Progress,
) -> list[MatchReport]:
    table = table_for(workload)
    add_to_table(table, subscriptions, 0, population)
    batch = workload.messages(0, plan.messages)
    batch = known_terms(batch, subscriptions, len(table.frequency))
    slices = slices_of(batch)
    contestants, builds, sizes = [], [], []
    for choice in plan.choices:
        progress(f"{population:,} subscriptions: building {choice.label}")
        contestant = Contestant(choice, table)
        builds.append(contestant.build())
        sizes.append(float(contestant.index.stats()["bytes"]))
        contestants.append(contestant)
    table_bytes = table.nbytes
    progress(f"{population:,} subscriptions: matching")
    calibrate(contestants, slices, plan.budget_s)
    by_threads = {
        threads: rounds(contestants, slices, threads, plan.rounds) for threads in plan.threads
    }
    if plan.check:
        found = [tally for measured in by_threads.values() for _, tally in measured]
        labels = [choice.label for choice in plan.choices] * len(by_threads)
        check_agreement(labels, found)
        check_sample(contestants, batch, subscriptions, np.arange(population))
    singles = [single_calls(one.index, batch, plan.budget_s / 10) for one in contestants]
    progress(f"{population:,} subscriptions: inserting, deleting")
    inserted = insert_more(contestants, table, subscriptions, singles=500)
    slower, rebuilt = [], []
    for contestant in contestants:
        grown, fresh = beside_a_fresh_one(contestant, slices, plan.rounds)
        slower.append(grown)
        rebuilt.append(fresh)
    # A third of all, so that an index that deletes lazily has to clean up as well.
    gone = np.random.default_rng(1).permutation(len(table))[: len(table) // 3].astype(np.int32)
    deleted = delete_some(contestants, table, gone)
    if plan.check:
        progress(f"{population:,} subscriptions: checking")
        labels = [choice.label for choice in plan.choices]
        check_agreement(labels * 2, [tally for _, tally in (*slower, *rebuilt)])
        check_agreement(labels, [tally for _, tally in rounds(contestants, slices, 1, 1)])
        check_sample(contestants, batch, subscriptions, table.live_rows())
    return [
        MatchReport(
            index=choice.label,
            workload=plan.workload,
            subscriptions=population,
            threads=threads,
            messages=measured[at][1].messages,
            messages_per_cpu_s=measured[at][1].messages / measured[at][0],
            messages_per_s=measured[at][1].messages / measured[at][1].wall_s,
            matches_per_message=measured[at][1].matches / measured[at][1].messages,
            candidates_per_message=measured[at][1].candidates / measured[at][1].messages,
            build_cpu_s=builds[at],
            bytes_per_subscription=(sizes[at] + table_bytes) / population,
            index_bytes_per_subscription=sizes[at] / population,
            p50_us=float(np.percentile(singles[at], 50)),
            p99_us=float(np.percentile(singles[at], 99)),
            insert_us=inserted[at][0],
            insert_single_p50_us=inserted[at][1],
            delete_us=deleted[at],
            slowdown_after_inserts=slower[at][0] / rebuilt[at][0],
            checked=plan.check,
        )
        for threads, measured in by_threads.items()
        for at, choice in enumerate(plan.choices)
    ]
