"""The simulator counts what workers would do: compared with one that is slow and obvious."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from any_plans import owner_of
from made_samples import GRID, made_sample
from nearcast.index import Batch, Table
from nearcast.index.rarest_term import RarestTerm
from nearcast.partition import keys
from nearcast.partition.auto import auto
from nearcast.partition.estimate import estimate_loads
from nearcast.partition.grid import cells_of
from nearcast.partition.load import WorkCosts, WorkerLoads, balance_of, rate_of
from nearcast.partition.plan import Plan
from nearcast.partition.prepare import prepare
from nearcast.partition.registry import PARTITIONERS
from nearcast.partition.sample import Sample, SampleMessages, SampleRows
from nearcast.partition.simulate import Simulator, population_of
from nearcast_lab.simulators.calibrate import calibrate

COSTS = WorkCosts(1.0, 100.0, 1000.0)


def terms_of(given: SampleRows | SampleMessages, number: int) -> list[int]:
    listed: list[int] = given.terms[given.starts[number] : given.starts[number + 1]].tolist()
    return listed


def cells(plan: Plan, boxes: object, number: int) -> list[int]:
    box = np.asarray(boxes)[number : number + 1]
    listed: list[int] = cells_of(plan.grid, box)[1].tolist()
    return listed


def naively(plan: Plan, sample: Sample, wanted: bool) -> tuple[list[set[int]], list[set[int]]]:
    """The rows and the held-out messages of each worker, cell by cell and term by term."""
    rows, messages = sample.rows, sample.held_out
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms).tolist()
    held: list[set[int]] = [set() for _ in range(plan.workers)]
    asked: set[tuple[int, int]] = set()
    for row in range(rows.size):
        for cell in cells(plan, rows.boxes, row):
            held[owner_of(plan, cell, chosen[row])].add(row)
            asked.add((cell, chosen[row]))
    sent: list[set[int]] = [set() for _ in range(plan.workers)]
    for message in range(messages.size):
        for cell in cells(plan, messages.boxes, message):
            for term in terms_of(messages, message):
                if not wanted or (cell, term) in asked:
                    sent[owner_of(plan, cell, term)].add(message)
    return held, sent


def looked_at(plan: Plan, sample: Sample, rows: set[int], sent: set[int]) -> int:
    """What an index of these rows alone looks at for these messages."""
    names = sorted({term for row in range(sample.rows.size) for term in terms_of(sample.rows, row)})
    # Of equally rare terms the index takes the one with the larger number, a plan the smaller hash.
    number = {name: at for at, name in enumerate(reversed(names))}
    counts = dict(zip(plan.order_terms.tolist(), plan.order_counts.tolist(), strict=True))
    table = Table()
    table.ensure_terms(len(names))
    for name, at in number.items():
        table.frequency[at] = counts.get(name, 0)
    for row in sorted(rows):
        box = sample.rows.boxes[row : row + 1]
        named = np.array([number[name] for name in terms_of(sample.rows, row)], np.int32)
        table.add_boxes(np.array([row], np.int32), box, np.array([0, len(named)]), named)
    index = RarestTerm(table)
    index.build()
    looked = 0
    for message in sorted(sent):
        known = [number[name] for name in terms_of(sample.held_out, message) if name in number]
        box = sample.held_out.boxes[message : message + 1]
        batch = Batch(np.array([0, len(known)]), np.array(known, np.int32), box)
        looked += index.candidates(batch).candidates
    return looked


@pytest.mark.parametrize("name", ["space-kd", "text-metric", "hybrid", "auto"])
@pytest.mark.parametrize(("wanted", "whole"), [(True, False), (False, False), (True, True)])
@settings(max_examples=3, deadline=None)
@given(seed=st.integers(0, 10_000), workers=st.integers(1, 5))
def test_the_work_of_each_worker_is_counted(
    name: str, wanted: bool, whole: bool, seed: int, workers: int
) -> None:
    """Rows, messages and candidates are those of one index for each worker, fed one by one.

    Who holds subscriptions whole has all rows of each, and takes each in once.
    """
    sample = made_sample(seed, rows=120, messages=150, boxes=True)
    plan = PARTITIONERS[name](sample, workers, GRID)
    population = population_of(sample.rows, sample.held_out, operations=40.0)
    loads, report = Simulator(population, COSTS, whole=whole).run(plan, wanted)
    held, sent = naively(plan, sample, wanted)
    assert loads.messages.tolist() == [len(each) for each in sent]
    owners = sample.rows.owners.tolist()
    taken_in = held
    if whole:
        taken_in = [{owners[row] for row in each} for each in held]
        held = [{row for row, owner in enumerate(owners) if owner in each} for each in taken_in]
    assert loads.operations == pytest.approx(
        [len(each) * 40.0 / len(set(owners)) for each in taken_in]
    )
    assert loads.candidates.tolist() == [
        looked_at(plan, sample, *each) for each in zip(held, sent, strict=True)
    ]
    total = sum(len(each) for each in sent)
    assert report["workers_per_message"] == pytest.approx(total / sample.held_out.size)
    assert report["dropped"] == pytest.approx(1 - len(set().union(*sent)) / sample.held_out.size)
    assert report["replication"] == sum(len(each) for each in held) / sample.rows.size
    ns = loads.candidates + 100.0 * loads.messages + 1000.0 * loads.operations
    assert report["total_ns"] == pytest.approx(ns.sum() / sample.held_out.size)
    assert report["balance"] == pytest.approx(ns.max() / ns.mean())
    assert report["messages_per_s"] == pytest.approx(sample.held_out.size * 1e9 / ns.max())
    assert (report["wanted_bytes"] > 0) == wanted


def matches(sample: Sample) -> int:
    """How many held-out messages are what how many rows ask for."""
    count, rows, messages = 0, sample.rows, sample.held_out
    for message in range(messages.size):
        west, south, east, north = messages.boxes[message]
        said = set(terms_of(messages, message))
        for row in range(rows.size):
            box = rows.boxes[row]
            near = box[0] <= east and box[2] >= west and box[1] <= north and box[3] >= south
            count += bool(near and said.issuperset(terms_of(rows, row)))
    return count


@pytest.mark.parametrize("name", ["space-kd", "text-metric", "hybrid", "auto", "hash"])
@pytest.mark.parametrize("whole", [False, True])
def test_what_is_told_is_counted_once_where_it_costs(name: str, whole: bool) -> None:
    """Whatever workers hold beside their own, each pair is reported by one of them."""
    sample = made_sample(11, rows=400, messages=400, terms=12, boxes=True)
    plan = PARTITIONERS[name](sample, 4, GRID)
    population = population_of(sample.rows, sample.held_out, operations=40.0)
    reporting = Simulator(population, COSTS._replace(update_ns=50.0), whole=whole).run(plan)
    free = Simulator(population, COSTS, whole=whole).run(plan)
    assert np.sum(reporting.loads.updates) == matches(sample) > 50
    assert np.count_nonzero(reporting.loads.updates) > 2
    assert np.sum(free.loads.updates) == 0
    assert reporting.loads.candidates.tolist() == free.loads.candidates.tolist()
    costs = reporting.loads.ns(COSTS._replace(update_ns=50.0)) - free.loads.ns(COSTS)
    assert costs == pytest.approx(50.0 * np.asarray(reporting.loads.updates))


def test_unsplit_and_hashed_rows_are_simulated_too() -> None:
    """By hash everyone sees what is wanted anywhere; shared, everyone holds everything."""
    sample = made_sample(4)
    population = population_of(sample.rows, sample.held_out, 100.0)
    hashed = Simulator(population).run(PARTITIONERS["hash"](sample, 4, GRID))
    shared = Simulator(population).run(PARTITIONERS["shared"](sample, 4, GRID))
    assert hashed.report["replication"] == 1.0
    assert shared.report["replication"] == 4.0
    assert hashed.report["workers_per_message"] == pytest.approx(
        4.0 * shared.report["workers_per_message"]
    )
    assert (
        shared.loads.operations.tolist()
        == [100.0 * sample.rows.size / len(set(sample.rows.owners.tolist()))] * 4
    )
    assert shared.loads.candidates.sum() <= hashed.loads.candidates.sum() * 1.5


def test_one_simulator_serves_plans_with_other_keys_and_grids() -> None:
    """What is kept from one plan to the next never changes an answer."""
    sample, other = made_sample(4), made_sample(5)
    finer = GRID._replace(columns=64)
    plans = [
        PARTITIONERS["space-kd"](sample, 3, GRID),
        PARTITIONERS["text-metric"](other, 3, GRID),
        PARTITIONERS["space-kd"](other, 3, finer),
        PARTITIONERS["hybrid"](sample, 3, GRID),
    ]
    simulator = Simulator(population_of(sample.rows, sample.held_out), COSTS)
    for plan in plans:
        alone = Simulator(simulator.population, COSTS)
        assert simulator.run(plan).report == alone.run(plan).report


def test_the_estimate_is_near_what_is_simulated() -> None:
    """Per worker, the quick estimate of load is within a third of what the index counts."""
    sample = made_sample(6, rows=3000, messages=6000, terms=200)
    plan = auto(sample, 4, GRID)
    prepared = prepare(sample, 4, plan.grid)
    rate = sample.operations * sample.held_out.size / (sample.messages.size + sample.held_out.size)
    simulated = Simulator(population_of(sample.rows, sample.held_out, rate)).run(plan)
    estimated = estimate_loads(plan, prepared.check_traced)
    counted = simulated.loads.ns(WorkCosts(*plan.about["costs_ns"]))
    assert (np.abs(estimated / counted - 1.0) < 1 / 3).all()


def test_figures_by_hand() -> None:
    """Loads are weighted sums; balance is the highest by the mean; the highest sets the bound."""
    loads = WorkerLoads(np.array([10.0, 0.0]), np.array([1.0, 2.0]), np.array([0.5, 0.0]))
    ns = loads.ns(WorkCosts(2.0, 100.0, 1000.0))
    assert ns.tolist() == [620.0, 200.0]
    assert balance_of(ns) == pytest.approx(620 / 410)
    assert rate_of(31, ns) == pytest.approx(5e7)
    assert balance_of(np.zeros(3)) == 1.0
    assert rate_of(5, np.zeros(3)) == float("inf")


def test_costs_can_be_measured() -> None:
    """Whatever this machine is doing, every cost comes out above zero; updates are not measured."""
    costs = calibrate(rows=2000, messages=500)
    assert min(costs.check_ns, costs.message_ns, costs.operation_ns) > 0
