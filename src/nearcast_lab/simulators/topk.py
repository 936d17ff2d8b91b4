"""What a spread would make of a population and of messages, without a cluster.

Subscriptions are placed and messages are routed as the pipeline does it. What each worker looks at
is counted with the real core at real thresholds (`topk.shares`): a worker posts a subscription
under those terms of its prefix that are its own, so every posting is at one worker. For
messages that are steep it has lists of their own, of all terms: that of the first term answers.

Finders on Spark post a copy under all its terms, because their filter takes the terms of both in an
order of its own; so a copy is read at each worker that holds it and gets the message. That is
counted too (`finders_visited`, `finders_messages_per_s`), with the same costs.

The bound is the messages a second that the heaviest worker allows, when handling a message, reading
a posting and scoring a candidate cost what they were measured to cost. Buffers, expiry and
re-evaluation are the same for all mechanisms and not in it.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np

from nearcast.arrays.lists import picked
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.load import balance_of, rate_of
from nearcast.partition.tables import Terms
from nearcast.partition.topk.placing import (
    Pairs,
    TopkQueries,
    ordered,
    place,
    prefix_lengths,
    route_messages,
)
from nearcast.partition.topk.spread import Spread
from nearcast.topk.shares import SharedCore, Shares


class TopkCosts(NamedTuple):
    """Nanoseconds of CPU that a unit of each kind of work takes a worker."""

    message_ns: float
    posting_ns: float
    candidate_ns: float


class SimulatedMessages(NamedTuple):
    """Messages with their terms as hashes and as numbers of the core."""

    points: Floats
    starts: Int64s
    terms: Terms
    numbers: Int32s
    counts: Int32s
    steepness: Floats

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.points)

    def of(self, which: Int64s) -> SimulatedMessages:
        """Some of them."""
        starts, places = picked(self.starts, which)
        return SimulatedMessages(
            self.points[which], starts, self.terms[places], self.numbers[places],
            self.counts[places], self.steepness[which],
        )  # fmt: skip


class TopkPopulation(NamedTuple):
    """Subscriptions in a core, in order, with its thresholds; and messages that no plan has seen.

    `queries` are in the order of prefixes. That is the order of the core, highest number first,
    if of two terms the heavier one has the higher number.
    """

    core: SharedCore
    queries: TopkQueries
    numbers: Int32s  # of the terms of the subscriptions in the core
    messages: SimulatedMessages
    known: int  # subscriptions, the first ones, that spreads are made from


class TopkSimulationReport(TypedDict):
    """The figures of a simulated spread.

    - `replication`: workers that hold a subscription, on average, of those the spread was made
      from; `replication_later`: of the others;
    - `prefix_terms`, `query_terms`: terms that one is posted under, of all it has;
    - `workers_per_message`, `workers_per_message_p99`: how many workers a message goes to;
    - `sent`: the same by the number of workers;
    - `steep`: the share of messages that go to all workers because they are steep;
    - `balance_subscriptions`, `balance_load`: the heaviest worker in means of all, by what it holds
      and by what it has to do;
    - `visited`, `candidates`: postings read and scored for a message, by all workers together;
    - `total_us`: the load of all workers for a message;
    - `messages_per_s`: the bound that the heaviest worker sets;
    - `finders_visited`, `finders_candidates`, `finders_messages_per_s`: the same if each worker
      posts a copy under all its terms, as finders on Spark do.
    """

    mechanism: str
    workers: int
    levels: tuple[int, int]
    replication: float
    replication_later: float
    prefix_terms: float
    query_terms: float
    workers_per_message: float
    workers_per_message_p99: float
    sent: float
    steep: float
    balance_subscriptions: float
    balance_load: float
    visited: float
    candidates: float
    total_us: float
    messages_per_s: float
    finders_visited: float
    finders_candidates: float
    finders_messages_per_s: float


class SpreadSimulation(NamedTuple):
    """The work of every worker over all messages, and the report about it."""

    report: TopkSimulationReport
    messages: Int64s
    visited: Int64s
    candidates: Int64s

    def ns(self, costs: TopkCosts) -> Floats:
        """Nanoseconds of each worker."""
        return np.asarray(
            costs.message_ns * self.messages
            + costs.posting_ns * self.visited
            + costs.candidate_ns * self.candidates
        )


def simulate(spread: Spread, population: TopkPopulation, costs: TopkCosts) -> SpreadSimulation:
    """Place a population, route its messages, and count the work of each worker."""
    queries, messages, workers = population.queries, population.messages, spread.workers
    postings = place(spread, queries)
    holders = np.full(len(queries.terms), -1, np.int32)
    holders[postings.places] = postings.workers
    holders_of, held_by = postings.holders
    held = np.bincount(held_by, minlength=workers)
    early = int((holders_of < population.known).sum())
    numbers, sent = route_messages(spread, messages.starts, messages.terms, messages.steepness)
    each = np.bincount(numbers, minlength=messages.size)
    received = np.bincount(sent, minlength=workers)
    steep = spread.is_steep(messages.steepness)
    visited, candidates = _work(population, holders, workers, np.flatnonzero(~steep))
    if steep.any():
        first = np.repeat(holders[queries.starts[:-1]], np.diff(queries.starts))
        for counted, more in zip(
            (visited, candidates),
            _work(population, first, workers, np.flatnonzero(steep)),
            strict=True,
        ):
            counted += more
    count, many = max(queries.size, 1), max(messages.size, 1)
    report = TopkSimulationReport(
        mechanism=spread.mechanism,
        workers=workers,
        levels=spread.levels,
        replication=early / max(population.known, 1),
        replication_later=(len(held_by) - early) / max(queries.size - population.known, 1),
        prefix_terms=float(prefix_lengths(spread, queries).sum()) / count,
        query_terms=len(queries.terms) / count,
        workers_per_message=float(each.mean()) if len(each) else 0.0,
        workers_per_message_p99=float(np.percentile(each, 99)) if len(each) else 0.0,
        sent=float(each.mean()) / workers if len(each) else 0.0,
        steep=float(steep.mean()) if len(steep) else 0.0,
        balance_subscriptions=balance_of(held.astype(np.float64)),
        balance_load=1.0,
        visited=float(visited.sum()) / many,
        candidates=float(candidates.sum()) / many,
        total_us=0.0,
        messages_per_s=0.0,
        finders_visited=0.0,
        finders_candidates=0.0,
        finders_messages_per_s=0.0,
    )
    simulation = SpreadSimulation(report, received, visited, candidates)
    ns = simulation.ns(costs)
    report["balance_load"] = balance_of(ns)
    report["total_us"] = float(ns.sum()) / many / 1e3
    report["messages_per_s"] = rate_of(messages.size, ns)
    everywhere = Shares(visited, candidates)
    if spread.by_text:
        everywhere = _posted_everywhere(population, postings.holders, (numbers, sent), workers)
    found = SpreadSimulation(report, received, *everywhere)
    report["finders_visited"] = float(everywhere.visited.sum()) / many
    report["finders_candidates"] = float(everywhere.candidates.sum()) / many
    report["finders_messages_per_s"] = rate_of(messages.size, found.ns(costs))
    return simulation


def _posted_everywhere(
    population: TopkPopulation, holders: Pairs, routes: Pairs, workers: int
) -> Shares:
    """What each worker does if it posts what it holds under all terms."""
    queries = population.queries
    shares = Shares(np.zeros(workers, np.int64), np.zeros(workers, np.int64))
    for worker in range(workers):
        held = np.full(queries.size, -1, np.int32)
        held[holders[0][holders[1] == worker]] = 0
        postings = np.repeat(held, np.diff(queries.starts))
        which = np.unique(routes[0][routes[1] == worker]).astype(np.int64)
        if len(which):
            visited, candidates = _work(population, postings, 1, which)
            shares.visited[worker], shares.candidates[worker] = visited[0], candidates[0]
    return shares


def _work(population: TopkPopulation, holders: Int32s, workers: int, which: Int64s) -> Shares:
    """What each worker does for some of the messages, if it holds these postings."""
    some = population.messages.of(which)
    return population.core.shares(
        population.queries.starts, population.numbers, holders, workers,
        (some.points, some.starts, some.numbers, some.counts),
    )  # fmt: skip


def population_of(
    core: SharedCore,
    queries: TopkQueries,
    numbers: Int32s,
    spread: Spread,
    messages: SimulatedMessages,
    known: int | None = None,
) -> TopkPopulation:
    """Put subscriptions in the order of prefixes, with the numbers of their terms.

    Spreads are made from the first `known` of them, or all.
    """
    by_hash = np.argsort(queries.terms, kind="stable")
    in_order = ordered(spread, queries)
    places = np.searchsorted(queries.terms[by_hash], in_order.terms)
    first = queries.size if known is None else known
    return TopkPopulation(core, in_order, numbers[by_hash[places]], messages, first)


def break_even_cost(
    one: SpreadSimulation, other: SpreadSimulation, costs: TopkCosts
) -> float | None:
    """How many nanoseconds more a message must cost a worker for `one` to be as fast as `other`.

    What a message costs beside matching, to be sent and received, is not known here; the one
    that sends less gains by it. 0 if `one` is as fast as it is, None if it never is.
    """
    mine, its = one.ns(costs), other.ns(costs)
    if mine.max() <= its.max():
        return 0.0
    if one.messages.max() >= other.messages.max():
        return None
    low, high = 0.0, 1.0
    while (mine + high * one.messages).max() > (its + high * other.messages).max():
        low, high = high, 2 * high
        if high > 1e12:
            return None
    for _ in range(60):
        middle = (low + high) / 2
        if (mine + middle * one.messages).max() > (its + middle * other.messages).max():
            low = middle
        else:
            high = middle
    return high
