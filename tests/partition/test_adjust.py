"""Adjusted plans: every pair is still found, by one worker, after whatever was done to the plan."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from any_plans import TERMS, World, listed, matching, owner_of, plans, worlds
from made_samples import GRID, made_sample
from nearcast.errors import InvalidValue
from nearcast.partition import keys
from nearcast.partition.adjust.change import Shifts, mixed, shifted, split
from nearcast.partition.adjust.local import adjust, one_shift, worker_loads
from nearcast.partition.adjust.migration import carried_bytes, held_bytes, transfers
from nearcast.partition.adjust.pieces import pieces_of
from nearcast.partition.adjust.rebalance import Rebalancer
from nearcast.partition.adjust.recent import ROW_BYTES, RecentWork, recent_of
from nearcast.partition.adjust.replan import propose
from nearcast.partition.adjust.versions import differing, towards
from nearcast.partition.auto import auto
from nearcast.partition.grid import Grid, cells_of
from nearcast.partition.load import WorkCosts, balance_of
from nearcast.partition.owners import owners_of
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_rows
from nearcast.partition.sample import Sample, messages_of, rows_of, sample_of, take_rows
from nearcast.partition.simulate import Simulator, population_of
from nearcast.partition.space import space_kd
from nearcast.partition.wanted import WantedKeys
from nearcast_lab.designs.eras import Era, Eras
from nearcast_lab.designs.paper_adjusting import adjust_as_published

GRID_PLANS = plans(("grid",))


def found_by(eras: Eras, world: World, filtered: bool) -> Counter[tuple[int, int]]:
    """The pairs that all workers answer for together; subscriptions are numbered by `owners`."""
    rows, messages = world
    numbers = rows.owners
    placed = eras.place(rows, numbers)
    held = set(listed(placed.held))
    wanted = []
    for number, era in enumerate(eras.eras):
        mine = np.flatnonzero(eras.era_of(numbers) == number)
        table = WantedKeys(era.plan.grid)
        table.add_rows(rows.boxes[mine], placed.keys[mine])
        wanted.append(table.slots if filtered else None)
    sent = set(listed(eras.route(wanted, messages)))
    pairs = matching(world)
    found: Counter[tuple[int, int]] = Counter()
    for worker in range(eras.workers):
        both = [(m, r) for m, r in pairs if (m, worker) in sent and (r, worker) in held]
        message, row = (np.array(part, np.int32) for part in ([p[n] for p in both] for n in (0, 1)))
        owned = eras.owned(worker, messages.boxes, rows, placed, numbers, message, row)
        found.update(pair for pair, own in zip(both, owned.tolist(), strict=True) if own)
    return found


class AnyAdjustments(RuleBasedStateMachine):
    """Plans are shifted, split, evened out, replaced and retired, in any order."""

    @initialize(world=worlds(), plan=GRID_PLANS, seed=st.integers(0, 999))
    def start(self, world: World, plan: Plan, seed: int) -> None:
        self.world = world
        self.eras = Eras.of(plan)
        self.draws = np.random.default_rng(seed)

    @property
    def plan(self) -> Plan:
        return self.eras.newest

    def recent(self) -> RecentWork:
        return recent_of(self.plan, *self.world, operations=5.0)

    def follow(self, after: Plan) -> None:
        """Go on with a plan; what is carried and forgotten leads from the one to the other."""
        before, rows = self.plan, self.world.rows
        assert after.number > before.number
        held = {row: set[int]() for row in range(rows.size)}
        for row, worker in listed(routed(before, self.world)):
            held[row].add(worker)
        moving = transfers(before, after, rows)
        for row, source, destination in zip(*moving[:3], strict=True):
            assert int(source) in held[int(row)]
            assert int(destination) not in held[int(row)]
        for row, _, destination in zip(*moving[:3], strict=True):
            held[int(row)].add(int(destination))
        for row, worker in zip(*moving[3:], strict=True):
            held[int(row)].remove(int(worker))
        expected = sorted((row, worker) for row, each in held.items() for worker in each)
        assert sorted(listed(routed(after, self.world))) == expected
        self.eras = self.eras.adjusted(after)

    @rule(count=st.integers(1, 6))
    def shift(self, count: int) -> None:
        """Any pieces go anywhere."""
        workers = self.plan.workers
        cell = self.draws.permutation(self.plan.grid.cells)[:count].astype(np.int32)
        source, destination = self.draws.integers(0, workers, (2, len(cell)), np.int32)
        before, after = self.plan, shifted(self.plan, Shifts(cell, source, destination))
        everywhere = np.repeat(np.arange(before.grid.cells, dtype=np.int32), len(TERMS))
        terms = np.tile(TERMS, before.grid.cells)
        had, has = (owners_of(plan, everywhere, terms) for plan in (before, after))
        moves = dict(zip(cell.tolist(), zip(source, destination, strict=True), strict=True))
        for at, old, new in zip(everywhere.tolist(), had.tolist(), has.tolist(), strict=True):
            one, other = moves.get(at, (-1, -1))
            assert new == (other if old == one else old)
        self.follow(after)

    @rule(count=st.integers(1, 4))
    def split_a_cell(self, count: int) -> None:
        """Some terms of a cell go to one worker, and no others."""
        cell = int(self.draws.integers(0, self.plan.grid.cells))
        worker = int(self.draws.integers(0, self.plan.workers))
        terms = self.draws.permutation(TERMS)[:count]
        before, after = self.plan, split(self.plan, cell, terms, worker)
        for term in TERMS.tolist():
            mine = worker if term in terms.tolist() else owner_of(before, cell, term)
            assert owner_of(after, cell, term) == mine
        self.follow(after)

    @rule(ours=st.booleans(), at_once=st.sampled_from([1, 3, 999]))
    def even_out(self, ours: bool, at_once: int) -> None:
        """A local adjustment, whole or some cells at a time."""
        recent = self.recent()
        done = adjust(self.plan, recent) if ours else adjust_as_published(self.plan, recent, most=2)
        if done is None:
            return
        assert done.number == self.plan.number + 1
        while len(cells := differing(self.plan, done)):
            self.follow(towards(self.plan, done, cells[:at_once], self.plan.number + 1))
            assert len(differing(self.plan, done)) == max(len(cells) - at_once, 0)
        assert (routed(self.plan, self.world)[1] == routed(done, self.world)[1]).all()

    @precondition(lambda self: len(self.eras.eras) < 3)
    @rule(plan=GRID_PLANS, since=st.integers(0, 6))
    def begin(self, plan: Plan, since: int) -> None:
        """Another plan, for any number of workers, takes over for later subscriptions."""
        since = max(since, self.eras.eras[-1].since + 1)
        self.eras = self.eras.begun(plan.changed(number=self.plan.number + 1), since)

    @rule()
    def retire(self) -> None:
        """What is left of old plans is carried to the newest."""
        rows = self.world.rows
        before = set(listed(self.eras.place(rows, rows.owners).held))
        for mine, moving in self.eras.leaving(rows, rows.owners):
            before |= set(zip(mine[moving.row].tolist(), moving.destination.tolist(), strict=True))
            gone = zip(mine[moving.forget_row].tolist(), moving.forget_worker.tolist(), strict=True)
            before -= set(gone)
        self.eras = self.eras.retired()
        assert set(listed(self.eras.place(rows, rows.owners).held)) == before
        assert self.eras.old_share(rows.owners) == 0.0

    @invariant()
    def every_pair_is_found_once(self) -> None:
        if hasattr(self, "eras"):
            for filtered in (True, False):
                assert found_by(self.eras, self.world, filtered) == Counter(matching(self.world))


AnyAdjustments.TestCase.settings = settings(max_examples=40, stateful_step_count=8, deadline=None)
TestAnyAdjustments = AnyAdjustments.TestCase


def routed(plan: Plan, world: World) -> tuple[np.ndarray, np.ndarray]:
    rows = world.rows
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms)
    return route_rows(plan, rows.boxes, chosen)


@given(GRID_PLANS, worlds(), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_pieces_are_what_each_worker_has_of_a_cell(plan: Plan, world: World, seed: int) -> None:
    """Rows, bytes, messages and load of every piece, and what a move costs, counted one by one."""
    rows, _ = world
    sizes = np.random.default_rng(seed).integers(1, 50, rows.size)
    recent = recent_of(plan, rows, world.messages, operations=3.0, sizes=sizes)
    pieces = pieces_of(plan, recent)
    for piece in range(pieces.number):
        cell, worker = int(pieces.cell[piece]), int(pieces.worker[piece])
        mine = [
            row
            for row in range(rows.size)
            if cell in cells_met(plan.grid, rows.boxes[row])
            and owner_of(plan, cell, int(recent.keys[row])) == worker
        ]
        listed_rows = pieces.piece_rows[pieces.piece_starts[piece] : pieces.piece_starts[piece + 1]]
        assert sorted(listed_rows.tolist()) == mine
        assert pieces.size[piece] == sizes[mine].sum()
        hits = [
            at
            for at in np.flatnonzero(recent.hit_cell == cell)
            if owner_of(plan, cell, int(recent.hit_key[at])) == worker
        ]
        messages = len({int(recent.hit_message[at]) for at in hits})
        assert pieces.messages[piece] == messages
        expected = recent.hit_cost[hits].sum() + recent.message_ns * messages
        assert pieces.load[piece] == pytest.approx(expected)
    assert pieces.by_definition.tolist() == (pieces.messages * pieces.rows).tolist()


def cells_met(grid: Grid, box: np.ndarray) -> set[int]:
    return set(cells_of(grid, box[None, :])[1].tolist())


def drifted(seed: int) -> tuple[Plan, Sample]:
    """A plan that was even, and a world in which the crowd has gone to the other corner."""
    before = made_sample(seed, rows=1500, messages=2500)
    plan = space_kd(before, 4, GRID)
    draw = np.random.default_rng(seed)

    def turned(boxes: np.ndarray) -> np.ndarray:
        far = draw.random(len(boxes)) < 0.3
        flipped = np.hstack((32.0 - boxes[:, 2:3], 16.0 - boxes[:, 3:4], 32.0 - boxes[:, :1],
                             16.0 - boxes[:, 1:2]))  # fmt: skip
        return np.ascontiguousarray(np.where(far[:, None], flipped, boxes))

    rows = before.rows._replace(boxes=turned(before.rows.boxes))
    messages = before.messages._replace(boxes=turned(before.messages.boxes))
    return plan, sample_of(rows, messages, operations=before.operations)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ours_is_even_again_and_carries_little(seed: int) -> None:
    """After a drift the heaviest worker is near the mean, for a part of what the paper carries."""
    plan, sample = drifted(seed)
    recent = recent_of(plan, sample.rows, sample.messages, float(sample.operations))
    before = balance_of(worker_loads(plan, pieces_of(plan, recent), recent))
    ours = adjust(plan, recent)
    paper = adjust_as_published(plan, recent, most=4)
    assert ours is not None
    assert paper is not None
    after = balance_of(worker_loads(ours, pieces_of(ours, recent), recent))
    assert before > 1.25
    assert after < 1.06
    sizes = np.full(sample.rows.size, 64)
    mine, theirs = (carried_bytes(plan, each, sample.rows, sizes) for each in (ours, paper))
    assert 0 < mine < theirs
    assert mine < 0.3 * held_bytes(plan, sample.rows, sizes)
    # On messages that were not looked at the bound is higher too.
    population = population_of(sample.rows, sample.held_out, sample.operations / 5)
    bound = [Simulator(population).run(each).report["messages_per_s"] for each in (plan, ours)]
    assert bound[1] > bound[0]
    assert adjust(ours, recent, limit=after + 0.01) is None


def test_bytes_can_be_limited() -> None:
    """With a budget no more is carried, and what is moved still helps."""
    plan, sample = drifted(1)
    recent = recent_of(plan, sample.rows, sample.messages)
    free = adjust(plan, recent)
    assert free is not None
    sizes = ROW_BYTES + 8 * np.diff(sample.rows.starts)
    budget = carried_bytes(plan, free, sample.rows, sizes) / 4
    some = adjust(plan, recent, most_bytes=budget)
    assert some is not None
    assert carried_bytes(plan, some, sample.rows, sizes) <= budget
    balances = [
        balance_of(worker_loads(each, pieces_of(each, recent), recent))
        for each in (free, some, plan)
    ]
    assert balances[0] < balances[1] < balances[2]


def test_an_adjustment_can_be_taken_some_cells_at_a_time() -> None:
    """Every version has three cells more as they are to be, and the last routes all rows alike."""
    plan, sample = drifted(1)
    target = adjust(plan, recent_of(plan, sample.rows, sample.messages))
    assert target is not None
    now, left = plan, differing(plan, target)
    assert len(left) > 6
    while len(left):
        now = towards(now, target, left[:3], now.number + 1)
        assert differing(now, target).tolist() == left[3:].tolist()
        left = left[3:]
    rows = sample.rows
    chosen = keys.choose(plan.arrays, rows.starts, rows.terms)
    found, expected = (route_rows(each, rows.boxes, chosen) for each in (now, target))
    assert all(np.array_equal(*both) for both in zip(found, expected, strict=True))


def hot_cell(terms: int) -> tuple[Plan, RecentWork]:
    """All messages come to one cell, which one of two workers has."""
    grid = Grid(0.0, 0.0, 4.0, 4.0, 4, 4)
    plan = Plan("any", 2, "grid", grid, np.repeat(np.array([0, 1], np.int32), 8))
    draw = np.random.default_rng(5)
    places = 0.2 + draw.random((400, 2)) * 0.6
    rows = rows_of(np.tile([0.1, 0.1, 0.9, 0.9], (200, 1)), np.arange(201), np.arange(200) % terms)
    messages = messages_of(np.hstack((places, places)), np.arange(401), np.arange(400) % terms)
    return plan, recent_of(plan, rows, messages)


def test_a_cell_too_hot_to_be_moved_is_split_by_text() -> None:
    """Moving it would only make the other worker the heaviest; half of its terms can go."""
    plan, recent = hot_cell(terms=8)
    pieces = pieces_of(plan, recent)
    rebalancer = Rebalancer(pieces, recent, 2)
    assert not len(rebalancer.run().piece)
    done = adjust(plan, recent)
    assert done is not None
    assert done.split_cells.tolist() == [True, *[False] * 15]
    assert balance_of(worker_loads(done, pieces_of(done, recent), recent)) < 1.05
    assert adjust(done, recent, limit=1.05) is None  # and it stays there


def test_one_hot_term_in_one_cell_is_left_alone() -> None:
    """Nothing smaller than a term in a cell can be moved; nothing goes to and fro."""
    plan, recent = hot_cell(terms=1)
    assert adjust(plan, recent) is None


def test_cells_split_by_text_are_merged_where_that_spares_work() -> None:
    """Two workers that handle the same messages for a cell: the heavier gives its part away."""
    grid = Grid(0.0, 0.0, 4.0, 1.0, 4, 1)
    whole = Plan("any", 2, "grid", grid, np.array([0, 0, 0, 1], np.int32))
    draw = np.random.default_rng(7)
    count = 300
    places = np.hstack((draw.random((count, 1)) * 4, draw.random((count, 1))))
    places[:40, 0] = 0.5
    corners = np.repeat([[0.0, 0.0, 0.9, 0.9], [1.1, 0.0, 3.0, 0.9]], 20, axis=0)
    pairs = np.tile([0, 1], count)
    rows = rows_of(corners, np.arange(41), np.tile([0, 1], 20))
    messages = messages_of(np.hstack((places, places)), np.arange(count + 1) * 2, pairs)
    plan = split(whole, 0, rows.terms[1:2], 1)
    assert plan.split_cells[0]
    done = adjust(plan, recent_of(plan, rows, messages))
    assert done is not None
    assert not done.split_cells[0]
    assert not done.maps


def test_rows_of_the_whole_world_burden_no_worker() -> None:
    """A row in every cell of a fine grid is held by all; it changes neither prices nor moves."""
    grid = Grid(0.0, 0.0, 32.0, 16.0, 256, 128)
    _, sample = drifted(1)
    fine = space_kd(made_sample(1, rows=1500, messages=2500), 4, grid)
    everywhere = sample.rows._replace(boxes=sample.rows.boxes.copy())
    everywhere.boxes[:20] = (0.0, 0.0, 32.0, 16.0)
    recent = recent_of(fine, everywhere, sample.messages)
    assert len(recent.boxes) == sample.rows.size - 20
    done = adjust(fine, recent)
    assert done is not None
    loads = worker_loads(done, pieces_of(done, recent), recent)
    assert balance_of(loads) < balance_of(worker_loads(fine, pieces_of(fine, recent), recent))


def test_a_hot_cell_is_not_smoothed_away() -> None:
    """Where neighbours share nothing of its load, moving them would even out nothing."""
    draw = np.random.default_rng(2)
    grid = Grid(0.0, 0.0, 16.0, 8.0, 16, 8)
    plan = Plan("halves", 2, "grid", grid, np.tile(np.repeat([0, 1], 8), 8).astype(np.int32))
    low = draw.uniform((3.0, 3.0), (5.9, 5.9), (900, 2))
    rows = rows_of(np.hstack((low, low + 0.1)), np.arange(901), draw.integers(0, 30, 900))
    points = np.where(
        draw.random((3000, 1)) < 0.9,
        draw.uniform(4.0, 5.0, (3000, 2)),
        draw.uniform(3.0, 6.0, (3000, 2)),
    )
    terms = draw.integers(0, 30, 3000)
    recent = recent_of(plan, rows, messages_of(np.hstack((points, points)), np.arange(3001), terms))
    done = adjust(plan, recent)
    assert done is not None
    assert balance_of(worker_loads(plan, pieces_of(plan, recent), recent)) == 2.0
    assert balance_of(worker_loads(done, pieces_of(done, recent), recent)) < 1.15
    assert done.split_cells[4 * 16 + 4]


def test_what_was_counted_is_scaled_to_the_messages_at_hand() -> None:
    """Workers had ten times as many messages as are known, and as much to do for each."""
    plan, sample = drifted(2)
    recent = recent_of(plan, sample.rows, sample.messages)
    worker = owners_of(plan, recent.hit_cell, recent.hit_key)
    pairs = np.unique(recent.hit_message.astype(np.int64) * plan.workers + worker)
    counts = np.bincount(pairs % plan.workers, minlength=plan.workers)
    handled = np.asarray(10.0 * counts, np.float64)
    busy = 50.0 * worker_loads(plan, pieces_of(plan, recent), recent) * (1.1, 1.0, 0.95, 1.0)
    weighed = recent.reweighed(plan, busy, handled)
    loads = worker_loads(plan, pieces_of(plan, weighed), weighed)
    assert loads == pytest.approx(busy / 10.0, rel=0.01)
    dearer = recent_of(
        plan, sample.rows, sample.messages, costs=WorkCosts(1.0, 1.0, 1.0, 5.0), updates=80
    )
    cheaper = recent_of(plan, sample.rows, sample.messages, costs=WorkCosts(1.0, 1.0, 1.0, 5.0))
    assert (dearer.hit_cost - cheaper.hit_cost).sum() == pytest.approx(5.0 * 80)


def test_measured_work_counts_more_than_estimates() -> None:
    """When a worker is known to take longer than thought, its cells weigh more."""
    plan, sample = drifted(2)
    recent = recent_of(plan, sample.rows, sample.messages)
    before = worker_loads(plan, pieces_of(plan, recent), recent)
    busy = before * (1.1, 1.0, 0.95, 1.0) / 3
    weighed = recent.reweighed(plan, busy)
    loads = worker_loads(plan, pieces_of(plan, weighed), weighed)
    assert loads / loads.sum() == pytest.approx(busy / busy.sum(), rel=0.01)
    with pytest.raises(InvalidValue, match="busy_ns: 1 given; expected one for each of 4 workers"):
        recent.reweighed(plan, busy[:1])


def test_a_new_plan_is_proposed_if_it_gains_enough() -> None:
    """By the held-out messages; another number of workers is a decision, not a question."""
    plan, sample = drifted(3)
    better = propose(plan, sample, partitioner=space_kd)
    assert better.plan.number == plan.number + 1
    assert better.gain > 0.1
    assert better.worthwhile
    again = propose(better.plan, sample, partitioner=space_kd)
    assert again.gain == pytest.approx(0.0)
    assert not again.worthwhile
    assert propose(better.plan, sample, workers=2, partitioner=auto).worthwhile


def test_versions_only_go_on() -> None:
    """Parts of two plans go together if they differ in cells and maps only; eras only go on."""
    plan = space_kd(made_sample(1), 2, GRID)
    after = shifted(plan, one_shift(3, int(plan.cell_worker[3]), 1 - int(plan.cell_worker[3])))
    with pytest.raises(InvalidValue, match="differs in its cells and maps only"):
        mixed(plan, space_kd(made_sample(2), 3, GRID), np.array([1], np.int32))
    with pytest.raises(InvalidValue, match="number: 1 given; expected a number above 2"):
        Eras.of(after).begun(plan, 5)
    with pytest.raises(InvalidValue, match="since"):
        Eras([Era(plan, 3)])
    with pytest.raises(InvalidValue, match="wanted: 0 given; expected a table for each of 1 eras"):
        Eras.of(plan).route([], made_sample(1).messages)


def test_transfers_are_for_the_rows_that_stand() -> None:
    """Of rows that are gone nothing is carried."""
    plan = space_kd(made_sample(1), 3, GRID)
    after = space_kd(made_sample(9), 3, GRID).changed(number=2)
    rows = made_sample(1).rows
    moving = transfers(plan, after, rows)
    assert len(moving.row)
    none = transfers(plan, after, take_rows(rows, np.empty(0, np.int64)))
    assert not len(none.row)
    assert not len(none.forget_row)
