"""The core of top-k on numbers: what the engine's logs are too short to reach."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from nearcast.engine.message_ids import MessageIds
from nearcast.text import Analyser, Vocabulary
from nearcast.topk.core import TopK
from nearcast.topk.kernels import events
from nearcast.topk.kernels.layout import NEXT_SEAT, NOT_FILED
from nearcast.topk.skype import Skype
from nearcast.topk.terms import TermNumbers
from nearcast.topk.window import Window
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import TopkArrays

WORLD = TopkArrays(3, TopkOptions(vocabulary=300, cities=5, shift=5.0))


def core_for(window: Window, kind: Any = TopK, **options: Any) -> TopK:
    core: TopK = kind(window, WORLD.west, WORLD.south, WORLD.diagonal, **options)
    core.ensure_terms(len(WORLD.idf))
    core.weigh(np.arange(len(WORLD.idf), dtype=np.int32), WORLD.idf)
    return core


def as_set(changes: Any) -> set[tuple[int, int, int, int, float]]:
    columns = (column.tolist() for column in changes)
    rows = list(zip(*columns, strict=True))
    assert len(rows) == len(set(rows))
    return set(rows)


def test_lazy_reading_gives_the_results_that_pushing_told_of() -> None:
    eager, lazy = core_for(Window(400)), core_for(Window(400), lazy=True)
    queries = WORLD.subscriptions(0, 300)
    everyone = np.arange(300, dtype=np.int32)
    for core in (eager, lazy):
        core.publish(*WORLD.messages(0, 400))
        core.subscribe(*queries)
    for first in range(400, 2400, 100):
        loud, silent = (c.publish(*WORLD.messages(first, first + 100)) for c in (eager, lazy))
        assert len(loud.events) > 0
        assert len(silent.events) == 0
        assert as_set(eager.members(everyone)) == as_set(lazy.members(everyone))
    assert eager.counters["reevaluated"] > 0
    assert lazy.counters["reevaluated"] > 0
    assert eager.counters["cut"] > 0


@pytest.mark.parametrize("window", [Window(50), Window(seconds=0.4)])
def test_one_call_for_many_messages_is_one_call_for_each(
    window: Window, monkeypatch: pytest.MonkeyPatch
) -> None:
    together, apart, parted = (core_for(window) for _ in range(3))
    for core in (together, apart, parted):
        core.subscribe(*WORLD.subscriptions(0, 80))
    posts = WORLD.messages(0, 300)
    at_once = as_set(together.publish(*posts))
    with monkeypatch.context() as patch:
        patch.setattr("nearcast.topk.core._MOST_AT_ONCE", 70)
        assert as_set(parted.publish(*posts)) == at_once
    one_by_one = set()
    for n in range(300):
        changes = apart.publish(*WORLD.messages(n, n + 1))
        one_by_one |= as_set(changes._replace(events=changes.events + n))
    assert at_once == one_by_one


def test_numbers_go_on_when_32_bits_are_used_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels count messages from 0 again from time to time; results do not change."""
    plain, turned = core_for(Window(40)), core_for(Window(40))
    shifts = []
    rebase = events.rebase

    def noted(state: Any, shift: int) -> None:
        shifts.append(shift)
        rebase(state, shift)

    monkeypatch.setattr(events, "rebase", noted)
    for core in (plain, turned):
        core.subscribe(*WORLD.subscriptions(0, 50))
    for first in range(0, 1000, 50):
        posts = WORLD.messages(first, first + 50)
        expected = as_set(plain.publish(*posts))
        with monkeypatch.context() as patch:
            patch.setattr("nearcast.topk.core._LAST_NUMBER", 0)
            assert as_set(turned.publish(*posts)) == expected
    assert sum(shifts) > 500
    assert turned.next == plain.next == 1000


def test_unsubscribing_all_leaves_room_for_others() -> None:
    core = core_for(Window(100))
    core.publish(*WORLD.messages(0, 100))
    sizes = []
    for first in range(0, 500, 100):
        subs = core.subscribe(*WORLD.subscriptions(first, first + 100))
        core.publish(*WORLD.messages(100 + first, 150 + first))
        core.unsubscribe(subs)
        sizes.append(core.subscription_bytes)
    assert sizes[-1] <= sizes[1] * 1.5
    assert not core.publish(*WORLD.messages(900, 950)).events.size


def test_a_window_that_empties_gives_its_memory_back() -> None:
    core = core_for(Window(seconds=1.0))
    posts = WORLD.messages(0, 500)
    core.publish(posts.points, np.zeros(500), *posts[2:])
    assert (core.first, core.next) == (0, 500)
    core.advance(10.0)
    assert (core.first, core.next) == (500, 500)
    assert core.unused_terms.all()


def test_methods_agree_on_whom_a_message_affects_at_equal_thresholds() -> None:
    ours = core_for(Window(300))
    queries = WORLD.subscriptions(0, 500)
    ours.publish(*WORLD.messages(0, 300))
    ours.subscribe(*queries)
    posts = WORLD.messages(300, 400)
    found = ours.probe(posts.points, posts.starts, posts.terms, posts.counts)
    assert found[0] > 100
    for options in (
        {"dissemination": "taat"},
        {"dissemination": "ciq"},
        {"capacity": 20},
        {"capacity": 20, "traversal": "term", "without": ("early",)},
    ):
        other = core_for(Window(1), Skype, **options)
        assert isinstance(other, Skype)
        other.subscribe(*queries)
        other.set_thetas(ours.thetas)
        assert other.probe(posts.points, posts.starts, posts.terms, posts.counts) == found


def test_numbers_of_unused_terms_are_given_again() -> None:
    core = TopK(Window(5), 0.0, 0.0, 1.0)
    numbers = TermNumbers(core, Analyser(), None)
    points, at = np.zeros((1, 2)), np.zeros(1)
    for n in range(3000):
        numbers.sweep()
        bags = numbers.read(pa.array([f"word{n} again other{n} again"]))
        assert sorted(bags.counts.tolist()) == [1, 1, 2]
        core.publish(points, at, *bags)
    assert core.unused_terms.sum() > 10
    assert len(core.unused_terms) < 1500


def test_terms_are_the_same_however_a_text_is_read() -> None:
    history = Vocabulary.from_documents([["b", "a"], ["a"]])
    core = TopK(Window(5), 0.0, 0.0, 1.0)
    numbers = TermNumbers(core, Analyser(), history.idf)
    texts = ["B a, b-B c1", "é a b b b c1", "", "zz é", "A" * 40 + " a"]
    fast = numbers.read(pa.array(texts))
    slow = numbers.bags(Analyser().tokens(text) for text in texts)
    assert fast.starts.tolist() == slow.starts.tolist()
    assert fast.terms.tolist() == slow.terms.tolist()
    assert fast.counts.tolist() == slow.counts.tolist()


def test_ids_of_messages_are_found_until_they_are_dropped() -> None:
    ids = MessageIds(0)
    for first in range(0, 2000, 10):
        names = [f"é{n}" * (n % 7 + 1) for n in range(first, first + 10)]
        assert not ids.has_any(names)
        ids.extend(names)
        assert ids.has_any(["nobody", names[3]])
        assert ids.number(names[4]) == first + 4
        assert ids.texts.take(np.array([first, first + 9])).to_pylist() == [names[0], names[9]]
        ids.drop_before(max(0, first - 30))
    assert ids.number("é1900" * (1900 % 7 + 1)) is None
    assert len(ids.texts) == 40


def test_seats_that_wait_for_one_message_leave_in_any_order() -> None:
    """All subscriptions are alike, so all wait for the same expiry; none has to be searched for."""
    core = core_for(Window(30))
    core.publish(*WORLD.messages(0, 30))
    query = WORLD.subscriptions(0, 1)
    count, terms = 60, query.terms
    starts = np.arange(count + 1) * len(terms)
    many = (
        np.repeat(query.points, count, 0),
        np.repeat(query.alphas, count),
        np.repeat(query.ks, count),
    )
    subs = core.subscribe(*many, starts, np.tile(terms, count))
    gone = np.random.default_rng(2).permutation(subs)[:45].astype(np.int32)
    for first in range(0, 45, 9):
        core.unsubscribe(gone[first : first + 9])
        core.publish(*WORLD.messages(30 + first, 33 + first))
    left = np.setdiff1d(subs, gone)
    members = core.members(left)
    own = [members.messages[members.events == place].tolist() for place in range(len(left))]
    assert own == [own[0]] * 15
    seats = core._state.seat_i.reshape(-1, 16)
    assert {int(seat[NEXT_SEAT]) for seat in seats[gone]} == {NOT_FILED}
    removed = core.publish(*WORLD.messages(100, 140))
    assert set(removed.subscriptions.tolist()) <= set(left.tolist())
