"""Simulated workers do what real cores with their shares would do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nearcast.geo import Box
from nearcast.partition.sample import hashed
from nearcast.partition.topk.mechanisms import MECHANISMS, TopkSample, hashing, prefix
from nearcast.partition.topk.placing import (
    TopkQueries,
    first_queries,
    place,
    route_messages,
    steepness_of,
)
from nearcast.topk.shares import SharedCore
from nearcast.topk.window import Window
from nearcast_lab.simulators.calibrate_topk import calibrate
from nearcast_lab.simulators.topk import (
    SimulatedMessages,
    SpreadSimulation,
    TopkCosts,
    TopkPopulation,
    TopkSimulationReport,
    break_even_cost,
    population_of,
    simulate,
)
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import TopkArrays

COSTS = TopkCosts(100.0, 1.0, 10.0)
SUBSCRIPTIONS, WINDOW = 400, 300


@pytest.fixture(scope="module")
def data() -> TopkArrays:
    return TopkArrays(3, TopkOptions(vocabulary=400, cities=3, k=4, space="-10,-10,10,10"))


def core_of(data: TopkArrays, window: int) -> SharedCore:
    core = SharedCore(Window(window), data.west, data.south, data.diagonal)
    core.ensure_terms(len(data.idf))
    core.weigh(np.arange(len(data.idf), dtype=np.int32), data.idf)
    return core


class World:
    def __init__(self, data: TopkArrays) -> None:
        core = core_of(data, WINDOW)
        seen = data.messages(0, WINDOW)
        core.publish(*seen)
        made = data.subscriptions(0, SUBSCRIPTIONS)
        core.subscribe(*made)
        queries = TopkQueries(
            hashed(np.arange(SUBSCRIPTIONS)), made.points, made.alphas, made.starts,
            hashed(made.terms), data.idf[made.terms], core.thetas,
        )  # fmt: skip
        self.made, self.core = made, core
        steepness = steepness_of(seen.starts, seen.counts, data.idf[seen.terms])
        self.sample = TopkSample(queries, seen.points, seen.starts, hashed(seen.terms), steepness)
        posts = data.messages(1000, 1080)
        self.messages = SimulatedMessages(
            posts.points, posts.starts, hashed(posts.terms), posts.terms, posts.counts,
            steepness_of(posts.starts, posts.counts, data.idf[posts.terms]),
        )  # fmt: skip
        order = hashing(self.sample, 1)
        self.population: TopkPopulation = population_of(
            core, queries, made.terms, order, self.messages
        )

    def counted(self, core: SharedCore) -> tuple[int, int]:
        """Postings that a core reads and scores for the messages."""
        before = core.counters
        core.probe(*self.messages[:2], self.messages.numbers, self.messages.counts)
        after = core.counters
        return after["visited"] - before["visited"], after["candidates"] - before["candidates"]


@pytest.fixture(scope="module")
def world(data: TopkArrays) -> World:
    return World(data)


def test_the_numbers_of_ordered_terms_fit_their_hashes(world: World) -> None:
    population = world.population
    assert (hashed(population.numbers) == population.queries.terms).all()
    for s in range(SUBSCRIPTIONS):
        mine = population.numbers[population.queries.starts[s] : population.queries.starts[s + 1]]
        assert (np.diff(mine) < 0).all()  # rare and heavy first, as the core has them


@pytest.mark.parametrize("all_steep", [False, True])
def test_a_simulated_worker_does_what_a_core_with_its_share_does(
    data: TopkArrays, world: World, all_steep: bool
) -> None:
    """Those whose first term is its own are its share if all messages are steep."""
    spread = hashing(world.sample, 3)
    if all_steep:
        spread = replace(prefix(world.sample, 3), steepest=1e-9)
    simulation = simulate(spread, world.population, COSTS)
    queries = world.population.queries
    subs, workers = place(spread, queries, np.ones(queries.size, np.int32)).holders
    assert simulation.report["steep"] == all_steep
    assert (simulation.messages == len(world.messages.points)).all()
    made = world.made
    for worker in range(3):
        mine = np.sort(subs[workers == worker])
        lengths = np.diff(made.starts)[mine]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        terms = np.concatenate([made.terms[made.starts[s] : made.starts[s + 1]] for s in mine])
        core = core_of(data, 1)
        core.subscribe(made.points[mine], made.alphas[mine], made.ks[mine], starts, terms)
        core.set_thetas(world.core.thetas[mine])
        assert world.counted(core) == (
            simulation.visited[worker],
            simulation.candidates[worker],
        )


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_no_posting_is_read_twice(name: str, world: World) -> None:
    """Copies under different terms are at different workers; prefixes leave postings out."""
    space = Box(-10.0, -10.0, 10.0, 10.0)
    simulation = simulate(MECHANISMS[name](world.sample, 6, space), world.population, COSTS)
    visited, candidates = world.counted(world.core)
    report = simulation.report
    if name in ("hashing", "location", "keyword"):
        assert (simulation.visited.sum(), simulation.candidates.sum()) == (visited, candidates)
    else:
        assert 0 < simulation.visited.sum() < visited
        assert 0 < simulation.candidates.sum() <= candidates
        assert report["prefix_terms"] < report["query_terms"]
    assert 1 <= report["replication"] <= report["prefix_terms"]
    assert report["workers_per_message"] <= report["workers_per_message_p99"] <= 6
    assert report["sent"] == pytest.approx(report["workers_per_message"] / 6)
    assert report["balance_load"] >= 1
    ns = simulation.ns(COSTS)
    assert report["messages_per_s"] == pytest.approx(80e9 / ns.max())
    assert report["total_us"] == pytest.approx(ns.sum() / 80e3)


@pytest.mark.parametrize("name", list(MECHANISMS))
def test_finders_that_post_all_terms_do_what_cores_with_their_copies_do(
    data: TopkArrays, name: str, world: World
) -> None:
    """Copies are read wherever they are held and the message comes."""
    spread = MECHANISMS[name](world.sample, 4, Box(-10.0, -10.0, 10.0, 10.0))
    report = simulate(spread, world.population, COSTS).report
    subs, workers = place(spread, world.population.queries).holders
    messages = world.messages
    numbers, sent = route_messages(spread, messages.starts, messages.terms, messages.steepness)
    made, found = world.made, np.zeros(2)
    for worker in range(4):
        mine = np.unique(subs[workers == worker])
        lengths = np.diff(made.starts)[mine]
        starts = np.concatenate(([0], np.cumsum(lengths)))
        terms = np.concatenate([made.terms[made.starts[s] : made.starts[s + 1]] for s in mine])
        core = core_of(data, 1)
        core.subscribe(made.points[mine], made.alphas[mine], made.ks[mine], starts, terms)
        core.set_thetas(world.core.thetas[mine])
        some = messages.of(np.unique(numbers[sent == worker]).astype(np.int64))
        before = core.counters
        core.probe(some.points, some.starts, some.numbers, some.counts)
        after = core.counters
        found += [after[counter] - before[counter] for counter in ("visited", "candidates")]
    counted = report["finders_visited"], report["finders_candidates"]
    assert counted == pytest.approx(tuple(found / messages.size))
    assert counted[0] >= report["visited"]


def test_copies_of_those_who_came_later_are_told_apart(world: World) -> None:
    """What a spread was made from is together; others are by chance."""
    known = 300
    sample = world.sample._replace(queries=first_queries(world.sample.queries, known))
    spread = prefix(sample, 6)
    found = simulate(spread, world.population._replace(known=known), COSTS).report
    subs, _ = place(spread, world.population.queries).holders
    held = np.bincount(subs, minlength=SUBSCRIPTIONS)
    assert found["replication"] == pytest.approx(held[:known].mean())
    assert found["replication_later"] == pytest.approx(held[known:].mean())
    assert found["replication"] < found["replication_later"]


def test_a_prefix_leaves_out_nobody_who_is_affected(world: World) -> None:
    """A subscription that a message affects is a candidate at the worker that answers for both."""
    spread = prefix(world.sample, 5)
    simulation = simulate(spread, world.population, COSTS)
    found, _ = world.core.probe(*world.messages[:2], world.messages.numbers, world.messages.counts)
    assert 0 < found <= simulation.candidates.sum()


def test_costs_are_measured_and_thresholds_stay(data: TopkArrays, world: World) -> None:
    thetas, counted = world.core.thetas, world.counted(world.core)
    costs = calibrate(world.core, core_of(data, 1), world.messages)
    assert min(costs) > 0
    assert (world.core.thetas == thetas).all()
    assert world.counted(world.core) == counted


def made_up(messages: list[int], visited: list[int]) -> SpreadSimulation:
    report: TopkSimulationReport = {}  # type: ignore[typeddict-item]  # not looked at
    return SpreadSimulation(
        report, np.array(messages), np.array(visited), np.zeros(len(visited), int)
    )


def test_who_sends_less_is_as_fast_once_messages_are_dear_enough() -> None:
    costs = TopkCosts(0.0, 1.0, 0.0)
    all_of_them, some = made_up([100, 100], [1000, 1000]), made_up([60, 20], [3000, 500])
    assert break_even_cost(some, all_of_them, costs) == pytest.approx(2000 / 40)
    assert break_even_cost(all_of_them, some, costs) == 0
    assert break_even_cost(made_up([100, 20], [3000, 0]), all_of_them, costs) is None
