"""The parts of the paper's system: what each rule does, and that it can do something."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast import Engine, Top
from nearcast.errors import InvalidValue
from nearcast.text import Analyser
from nearcast.topk.skype import Skype, _ranks
from nearcast.topk.skype._layout import ARRIVED, EXPIRED, LAMBDA, PARAMETER
from nearcast.topk.terms import TermNumbers
from nearcast.topk.window import Window
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import TopkArrays

WORLD = TopkArrays(3, TopkOptions(vocabulary=300, cities=5, shift=5.0))
NEAR = TopkArrays(3, TopkOptions(vocabulary=60, cities=5, shift=5.0, min_alpha=0.9, k=3))
steps: Any = _ranks.expected_steps  # plain Python beside what is compiled: `py_func`
depth: Any = _ranks.best_depth


def skype(window: Window, world: TopkArrays = WORLD, **options: Any) -> Skype:
    core = Skype(window, world.west, world.south, world.diagonal, **options)
    core.ensure_terms(len(world.idf))
    core.weigh(np.arange(len(world.idf), dtype=np.int32), world.idf)
    return core


def walked(k: int, n: int, arriving: float) -> float:
    """The expected steps from n to k - 1, reflected at 2n, by solving for all places at once."""
    top = 2 * n - k + 1
    equations, ones = np.zeros((top, top)), np.ones(top)
    for place in range(1, top + 1):
        row = place - 1
        equations[row, row] += 1.0
        equations[row, min(place + 1, top) - 1] -= arriving
        if place > 1:
            equations[row, row - 1] -= 1.0 - arriving
    return float(np.linalg.solve(equations, ones)[n - k])


@pytest.mark.parametrize("arriving", [0.5, 0.45, 0.3, 0.502, 0.55])
def test_the_walk_is_that_of_the_paper_with_any_share_of_arrivals(arriving: float) -> None:
    for k, n in ((1, 1), (3, 5), (20, 31)):
        assert steps.py_func(k, n, arriving) == pytest.approx(walked(k, n, arriving), rel=1e-6)


def test_the_depth_has_the_least_cost_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_ranks, "expected_steps", steps.py_func)

    def cost(k: int, n: int, read: float) -> float:
        spare = n - k + 1
        walk = 2 * spare * n + spare * (spare + 1)
        return n * (k * float(np.log(n / k)) + read / walk)

    for k in (1, 5, 20):
        for read in (10.0, 1000.0, 50_000.0):
            best = min(range(k, 2000), key=lambda n: cost(k, n, read))
            assert depth.py_func(k, read, 0.5) == best
    assert depth.py_func(20, 1000.0, 0.4) > depth.py_func(20, 1000.0, 0.5)
    assert depth.py_func(20, 1000.0, 0.9) == 20


def test_a_new_subscription_is_evaluated_as_deep_as_an_old_one() -> None:
    """What an evaluation costs is known before the first, so early streams are no worse."""
    core = skype(Window(2000))
    core.publish(*WORLD.messages(0, 2000))
    core.subscribe(*WORLD.subscriptions(0, 300))
    done = [core.counters["reevaluated"]]
    for first in range(2000, 10_000, 2000):
        core.publish(*WORLD.messages(first, first + 2000))
        done.append(core.counters["reevaluated"])
    rounds = np.diff(done)
    assert rounds[-1] > 0
    assert rounds[0] <= 4 * rounds[-1]


def test_the_default_cost_gives_the_buffers_of_the_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """A skyband of the n best in random order has k (1 + ln(n / k)) messages: 28 to 35 for k 20."""
    monkeypatch.setattr(_ranks, "expected_steps", steps.py_func)
    cost = float(skype(Window(1))._index.options[PARAMETER])
    assert 28 <= 20 * (1 + np.log(depth.py_func(20, cost, 0.5) / 20)) <= 35


def test_a_cell_has_the_least_spatial_threshold_of_those_in_it_and_can_be_skipped() -> None:
    core = skype(Window(500), NEAR, capacity=20)
    core.publish(*NEAR.messages(0, 500))
    subs = core.subscribe(*NEAR.subscriptions(0, 400))
    core.unsubscribe(subs[::3])
    core.publish(*NEAR.messages(500, 900))
    assert core.skipped_cells > 0
    index, state = core._index, core._state
    rows = state.sub_f.reshape(-1, 8)
    live = np.setdiff1d(subs, subs[::3])
    alphas, thetas = rows[live, 2], np.maximum(rows[live, 4], 0.0)
    wanted = (thetas - (1.0 - alphas)) / alphas
    cells = index.cells.reshape(-1, LAMBDA + 1)
    for cell in np.unique(index.sub_cells[live]):
        assert cell in index.leaves
        inside = index.sub_cells[live] == cell
        assert cells[cell, LAMBDA] == wanted[inside].min()


def test_only_leaves_are_asked() -> None:
    core = skype(Window(10), capacity=5)
    core.subscribe(*WORLD.subscriptions(0, 100))
    index = core._index
    assert len(index.leaves) < len(index.cells) // (LAMBDA + 1)
    assert sorted(index.leaves) == sorted(np.flatnonzero(core._tree.are_leaves))


def test_alpha_groups_have_equally_many_subscriptions() -> None:
    """Most subscriptions care for place: limits of equal width would put all in one group."""
    core = skype(Window(10), groups=4)
    queries = WORLD.subscriptions(0, 1000)
    skewed = queries.alphas**0.1
    for first in range(0, 1000, 250):
        part = slice(first, first + 250)
        starts = queries.starts[first : first + 251]
        terms = queries.terms[starts[0] : starts[-1]]
        core.subscribe(
            queries.points[part], skewed[part], queries.ks[part], starts - starts[0], terms
        )
    sizes = np.bincount(np.searchsorted(core._index.group_edges, skewed, side="right"))
    assert len(sizes) == 4
    assert sizes.min() > 0.8 * sizes.max()


def test_arrivals_are_counted_in_a_window_of_seconds() -> None:
    core = skype(Window(seconds=1.0))
    posts = WORLD.messages(0, 4000)

    def publish(first: int, end: int, at: float) -> None:
        points, times = posts.points[first:end], np.full(end - first, at)
        core.publish(points, times, posts.starts[first : end + 1], posts.terms, posts.counts)

    publish(0, 1000, 0.0)
    core.subscribe(*WORLD.subscriptions(0, 100))
    publish(1000, 3000, 1.0)
    core.subscribe(*WORLD.subscriptions(100, 200))
    options = core._index.options
    assert options[ARRIVED] >= 2 * options[EXPIRED]


def test_a_window_of_seconds_is_evaluated_as_rarely_as_one_of_messages() -> None:
    """That nothing expired while the window filled does not say that it will go on growing."""
    done = []
    for window in (Window(2000), Window(seconds=20.0)):
        core = skype(window)
        core.publish(*WORLD.messages(0, 2000))
        core.subscribe(*WORLD.subscriptions(0, 300))
        core.publish(*WORLD.messages(2000, 6000))
        done.append(core.counters["reevaluated"])
    assert 0 < done[1] <= 2 * done[0]


def test_numbers_of_terms_that_only_subscriptions_have_are_kept() -> None:
    core = Skype(Window(2), 0.0, 0.0, 1.0)
    numbers = TermNumbers(core, Analyser(), None)
    bags = numbers.read(pa.array(["rare"]))
    core.subscribe(np.zeros((1, 2)), np.full(1, 0.5), np.ones(1, np.int32), bags.starts, bags.terms)
    for n in range(3000):
        numbers.sweep()
        bags = numbers.read(pa.array([f"word{n} other{n}"]))
        assert not len(core.publish(np.zeros((1, 2)), np.zeros(1), *bags).events)
    found = core.publish(np.zeros((1, 2)), np.zeros(1), *numbers.read(pa.array(["rare"])))
    assert len(found.events) == 1


def test_counting_from_a_later_message_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, turned = (skype(Window(40)) for _ in range(2))
    for core in (plain, turned):
        core.subscribe(*WORLD.subscriptions(0, 50))
    for first in range(0, 1000, 50):
        posts = WORLD.messages(first, first + 50)
        expected = plain.publish(*posts)
        with monkeypatch.context() as patch:
            patch.setattr("nearcast.topk.core._LAST_NUMBER", 0)
            found = turned.publish(*posts)
        assert [column.tolist() for column in expected] == [column.tolist() for column in found]
    assert turned._base > 500


def test_an_engine_ranks_by_the_whole_system_of_the_paper() -> None:
    engine = Engine(ranking="skype", window_count=3)
    engine.subscribe("s", "jazz", point=(0.0, 0.0), top=Top(k=1, alpha=0.5))
    assert [update.message for update in engine.publish("m", "jazz", (1.0, 1.0))] == ["m"]
    core: Any = engine._core
    assert type(core.ranked._core) is Skype


def test_an_unknown_ranking_is_refused() -> None:
    with pytest.raises(InvalidValue, match="ranking"):
        Engine(ranking="fast")
    with pytest.raises(InvalidValue, match="plain code"):
        Engine(ranking="skype", index="scan")
