"""What a plan would make of a population and of messages, without a cluster.

Rows and messages are routed as the dispatcher routes them. What each worker looks at is counted by
the worker's own index: one index `rarest-term` holds the rows of all workers, whose terms are kept
apart by worker, so its runs are those that each worker would have. A *candidate* is a row that
the index looks at, as `Index.candidates` counts them: all rows of a short run, and whole leaves of
sixteen of a longer one.

For kind "shared" every worker holds everything; one copy of the rows is simulated.

A subscription of several rows (an `OR`) is one that PS2Stream's workers hold row by row, as its
mergers drop what two of them found. Workers that do without mergers must hold it *whole*: each
knows all rows, and so which of two workers reports a pair. Then they look at rows of other workers
too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, TypedDict

import numpy as np

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.index import Batch, Table
from nearcast.index.rarest_term import RarestTerm
from nearcast.partition import keys as key_choice
from nearcast.partition.load import MEASURED, WorkCosts, WorkerLoads, balance_of, rate_of
from nearcast.partition.owners import owns
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_messages, route_rows
from nearcast.partition.sample import SampleMessages, SampleRows
from nearcast.partition.tables import Terms, places_in
from nearcast.partition.wanted import WantedKeys
from nearcast.partition.wanted_kernels import Words


class SimulationReport(TypedDict):
    """The figures of a simulated plan.

    - `total_ns`: the load of all workers for one message, in nanoseconds;
    - `candidate_share`: how much of that load are candidates;
    - `balance`: the load of the heaviest worker in means of all;
    - `replication`: rows held for each row;
    - `workers_per_message`, `dropped`: how many workers a message goes to, and the share of
      messages that go to none;
    - `plan_bytes`, `wanted_bytes`: the tables of a dispatcher;
    - `messages_per_s`: the bound that the heaviest worker sets.
    """

    scheme: str
    workers: int
    wanted: bool
    total_ns: float
    candidate_share: float
    balance: float
    replication: float
    workers_per_message: float
    dropped: float
    plan_bytes: int
    wanted_bytes: int
    messages_per_s: float


class PlanSimulation(NamedTuple):
    """The work of every worker, and the report about it."""

    loads: WorkerLoads
    report: SimulationReport


class SimulatedPopulation(NamedTuple):
    """Rows and messages with their terms numbered alike: made once, simulated often.

    A larger number is a smaller hash, so that of equally rare terms the index takes the one that
    plans take as well.
    """

    rows: SampleRows
    messages: SampleMessages
    operations: float  # made and ended subscriptions while the messages arrive
    hashes: Terms
    row_terms: Int32s
    message_terms: Int32s  # -1 for a term that no row has


def population_of(
    rows: SampleRows, messages: SampleMessages, operations: float = 0.0
) -> SimulatedPopulation:
    """Number the terms of rows, and find them again in messages."""
    sorted_hashes, number = np.unique(rows.terms, return_inverse=True)
    last = len(sorted_hashes) - 1
    place, known = places_in(sorted_hashes, messages.terms)
    return SimulatedPopulation(
        rows,
        messages,
        operations,
        sorted_hashes[::-1].copy(),
        (last - number.reshape(-1)).astype(np.int32),
        np.where(known, last - place, -1).astype(np.int32),
    )


class Simulator:
    """Simulates several plans; what plans with the same keys and grid have in common, once."""

    def __init__(
        self, population: SimulatedPopulation, costs: WorkCosts = MEASURED, *, whole: bool = False
    ) -> None:
        """Take what to simulate with; `whole` says that workers hold subscriptions whole."""
        self.population = population
        self._costs = costs
        self._whole = whole
        self._subscriptions = max(len(np.unique(population.rows.owners)), 1)
        self._keys: tuple[Terms, Int64s, Terms] | None = None
        self._filter: WantedKeys | None = None

    def run(self, plan: Plan, wanted: bool = True) -> PlanSimulation:
        """Simulate one plan."""
        return self.run_parts(plan, [self.population.messages.size], wanted)[0]

    def run_parts(
        self, plan: Plan, ends: Sequence[int], wanted: bool = True
    ) -> list[PlanSimulation]:
        """Simulate one plan, with the messages in parts that end before each of `ends`."""
        population = self.population
        rows = population.rows
        keys = self._keys_of(plan)
        slots = self._wanted(plan, keys).slots if wanted else None
        routed = route_messages(plan, slots, *population.messages)
        copies = 1 if plan.kind == "shared" else plan.workers
        if plan.kind == "shared":
            held = np.arange(rows.size, dtype=np.int32), np.zeros(rows.size, np.int32)
        else:
            held = route_rows(plan, rows.boxes, keys, rows.owners)
        holders = held[1]  # by what workers take in: rows, or subscriptions
        if self._whole and plan.kind != "shared":
            held, holders = made_whole(held, rows.owners, plan.workers)
        index = _Index(plan, population, keys, held, copies)
        edges = np.searchsorted(routed[0], [0, *ends])
        found = []
        for part, messages in zip(pairwise(edges), pairwise([0, *ends]), strict=True):
            sent = routed[0][slice(*part)], routed[1][slice(*part)]
            size = messages[1] - messages[0]
            found.append(self._told(plan, wanted, slots, (held[1], holders), index, sent, size))
        return found

    def _told(
        self,
        plan: Plan,
        wanted: bool,
        slots: Words | None,
        held: tuple[Int32s, Int32s],
        index: _Index,
        routed: tuple[Int32s, Int32s],
        messages: int,
    ) -> PlanSimulation:
        """Count the work for some messages, and report it."""
        population, costs = self.population, self._costs
        rows = population.rows.size
        candidates, updates = index.counts(routed, costs.update_ns > 0)
        counts = np.bincount(routed[1], minlength=plan.workers)
        rows_held, taken_in = (
            np.bincount(each, minlength=plan.workers).astype(np.float64) for each in held
        )
        if plan.kind == "shared":
            rows_held = taken_in = np.full(plan.workers, float(rows))
        came = population.operations * messages / max(population.messages.size, 1)
        operations = taken_in * came / self._subscriptions
        loads = WorkerLoads(candidates, counts.astype(np.float64), operations, updates)
        ns = loads.ns(costs)
        sent = max(messages, 1)
        return PlanSimulation(
            loads,
            SimulationReport(
                scheme=plan.scheme,
                workers=plan.workers,
                wanted=wanted,
                total_ns=float(ns.sum()) / sent,
                candidate_share=float(costs.check_ns * candidates.sum() / max(ns.sum(), 1e-9)),
                balance=balance_of(ns),
                replication=float(rows_held.sum()) / max(rows, 1),
                workers_per_message=len(routed[0]) / sent,
                dropped=1.0 - len(np.unique(routed[0])) / sent,
                plan_bytes=len(plan.to_bytes()),
                wanted_bytes=int(slots.nbytes) if slots is not None else 0,
                messages_per_s=rate_of(messages, ns),
            ),
        )

    def _keys_of(self, plan: Plan) -> Terms:
        """The keys of the rows by a plan."""
        known = self._keys
        if (
            known is None
            or not np.array_equal(known[0], plan.order_terms)
            or not np.array_equal(known[1], plan.order_counts)
        ):
            rows = self.population.rows
            keys = key_choice.choose(plan.arrays, rows.starts, rows.terms)
            self._keys, self._filter = (plan.order_terms, plan.order_counts, keys), None
            return keys
        return known[2]

    def _wanted(self, plan: Plan, keys: Terms) -> WantedKeys:
        """What is wanted where, in the cells of a plan."""
        if self._filter is None or self._filter.grid != plan.grid:
            self._filter = WantedKeys(plan.grid)
            self._filter.add_rows(self.population.rows.boxes, keys)
        return self._filter


class _Index:
    """The index of all workers in one, with the terms of each worker numbered apart."""

    def __init__(
        self,
        plan: Plan,
        population: SimulatedPopulation,
        keys: Terms,
        held: tuple[Int32s, Int32s],
        copies: int,
    ) -> None:
        rows = population.rows
        self._plan = plan
        frequency = _frequencies(plan, population.hashes)
        self._population = population
        self._numbers = np.full((copies, len(population.hashes)), -1, np.int32)
        order = np.argsort(held[1], kind="stable")
        row, worker = held[0][order], held[1][order]
        starts, own_terms, owner_terms = _rename(
            row, worker, rows.starts, population.row_terms, self._numbers
        )
        table = Table()
        table.ensure_terms(len(owner_terms))
        table.frequency[: len(owner_terms)] = frequency[owner_terms]
        _check_size(len(row))
        self._boxes, self._keys = rows.boxes[row], keys[row]
        table.add_boxes(np.arange(len(row), dtype=np.int32), self._boxes, starts, own_terms)
        self._index = RarestTerm(table)
        self._index.build()

    def counts(self, routed: tuple[Int32s, Int32s], updates: bool) -> tuple[Floats, Floats | float]:
        """Count the rows that each worker looks at for the messages it is sent.

        With `updates`, also the pairs that it answers for.
        """
        messages = self._population.messages
        order = np.argsort(routed[1], kind="stable")
        message, worker = routed[0][order], routed[1][order]
        workers = self._plan.workers
        edges = np.searchsorted(worker, np.arange(workers + 1))
        looked, answered = np.zeros(workers), np.zeros(workers)
        for at in range(workers):
            mine = message[edges[at] : edges[at + 1]]
            batch_starts, batch_terms = _batch_terms(
                mine,
                messages.starts,
                self._population.message_terms,
                self._numbers[min(at, len(self._numbers) - 1)],
            )
            batch = Batch(batch_starts, batch_terms, messages.boxes[mine])
            found = self._index.candidates(batch)
            looked[at] = found.candidates
            if updates:
                pairs = found.messages, found.rows
                owned = owns(self._plan, at, batch.boxes, self._boxes, self._keys, *pairs)
                answered[at] = owned.sum()
        return looked, answered if updates else 0.0


def made_whole(
    held: tuple[Int32s, Int32s], owners: Int32s, workers: int
) -> tuple[tuple[Int32s, Int32s], Int32s]:
    """Give each worker all rows of the subscriptions it has a row of; and the worker of each."""
    pairs = np.unique(owners[held[0]].astype(np.int64) * workers + held[1])
    order = np.argsort(owners, kind="stable").astype(np.int32)
    first, end = (
        np.searchsorted(owners[order], pairs // workers, side) for side in ("left", "right")
    )
    counts = end - first
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    holders = (pairs % workers).astype(np.int32)
    return (order[np.repeat(first, counts) + within], np.repeat(holders, counts)), holders


def _check_size(pairs: int) -> None:
    if pairs >= 1 << 30:
        raise InvalidValue("rows held by all workers", pairs, "fewer than 2^30; simulate fewer")


def _frequencies(plan: Plan, hashes: Terms) -> Int64s:
    """In how many messages each term occurs, by the plan."""
    place, known = places_in(plan.order_terms, hashes)
    counts = np.zeros(len(hashes), np.int64)
    counts[known] = plan.order_counts[place[known]]
    return counts


@kernel
def _rename(
    row: Int32s, worker: Int32s, starts: Int64s, terms: Int32s, numbers: Int32s
) -> tuple[Int64s, Int32s, Int32s]:
    """Number the terms of each worker's rows, in the order of the terms; give the rows' new terms.

    `numbers` has the new number of each worker and term; the last answer is the old term of
    each new number.
    """
    total = 0
    for at in range(len(row)):
        for place in range(starts[row[at]], starts[row[at] + 1]):
            numbers[worker[at], terms[place]] = 0
            total += 1
    count = 0
    for w in range(numbers.shape[0]):
        for term in range(numbers.shape[1]):
            if numbers[w, term] == 0:
                numbers[w, term] = count
                count += 1
    old = np.empty(count, np.int32)
    for w in range(numbers.shape[0]):
        for term in range(numbers.shape[1]):
            if numbers[w, term] >= 0:
                old[numbers[w, term]] = term
    new_starts, new_terms = np.empty(len(row) + 1, np.int64), np.empty(total, np.int32)
    filled = 0
    for at in range(len(row)):
        new_starts[at] = filled
        for place in range(starts[row[at]], starts[row[at] + 1]):
            new_terms[filled] = numbers[worker[at], terms[place]]
            filled += 1
    new_starts[len(row)] = filled
    return new_starts, new_terms, old


@kernel
def _batch_terms(
    messages: Int32s, starts: Int64s, terms: Int32s, numbers: Int32s
) -> tuple[Int64s, Int32s]:
    """Give the terms of messages as one worker numbers them, without those it does not have."""
    count = 0
    for message in messages:
        count += starts[message + 1] - starts[message]
    new_starts, new_terms = np.empty(len(messages) + 1, np.int64), np.empty(count, np.int32)
    filled = 0
    for at in range(len(messages)):
        new_starts[at] = filled
        for place in range(starts[messages[at]], starts[messages[at] + 1]):
            term = terms[place]
            if term >= 0 and numbers[term] >= 0:
                new_terms[filled] = numbers[term]
                filled += 1
    new_starts[len(messages)] = filled
    return new_starts, new_terms[:filled]
