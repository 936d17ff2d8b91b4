"""Many events in one call are as many calls, and the log has their updates."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Box, Engine, Message, NearcastError, Result, Subscription, Top, Update
from nearcast.engine import Entry, Scan
from nearcast.engine.settings import GivenSettings
from nearcast.engine.update_log import RecentUpdates
from nearcast.events import Event, Move, Publish, Subscribe, Unsubscribe

AREA = Box(0, 0, 1, 1)


def crowd(seed: int, count: int) -> list[Event]:
    """Mostly messages at points, so that runs are matched together; some ids come again."""
    draw = Random(seed)
    events: list[Event] = [Subscribe(Subscription(f"s{n}", f"w{n}", AREA)) for n in range(3)]
    for n in range(draw.choice([0, 4])):
        few = Top(draw.choice([1, 2, 5, 40]), draw.choice([0.0, 0.5, 1.0]))
        place = (draw.choice([0.5, 2.0]), 0.5)
        events.append(Subscribe(Subscription(f"r{n}", f"w{n} w1", point=place, top=few)))
    now = 0.0
    lives = draw.choice([[0.0], [0.0, 0.0, 1.0, 6.0], [5.0]])
    for number in range(count):
        now += draw.choice([0.0, 0.0, 0.0, 1.0, -2.0 if draw.random() < 0.1 else 0.0])
        at = draw.choice([None, None, now])
        chance = draw.random()
        id = f"m{number if draw.random() < 0.9 else draw.randrange(max(1, number))}"
        text = " ".join(f"w{draw.randrange(4)}" for _ in range(2))
        text += draw.choice(["", "", " \u00e9", " \ud800" if draw.random() < 0.1 else ""])
        point = (draw.choice([0.5, 1.0, 2.0]), 0.5)
        if chance < 0.03:
            events.append(Publish(Message(id, text, point, at=at, ttl=draw.choice([0.0, 2.0]))))
        elif chance < 0.05:
            events.append(Publish(Message(id, text, region=AREA, at=at)))
        elif chance < 0.07:
            events.append(draw.choice([Unsubscribe("s1"), Unsubscribe("t")]))
        elif chance < 0.08:
            top = Subscription("t", "w1 w2", point=(0, 0), top=Top(2, 0.5))
            events.append(Subscribe(draw.choice([top, Subscription("s1", "w1", AREA)])))
        elif chance < 0.1:
            events.append(Move(f"s{draw.randrange(3)}", draw.choice([AREA, Box(0.7, 0, 3, 1)])))
        else:
            events.append(Publish(Message(id, text, point, at=at, ttl=draw.choice(lives))))
    return events


def applied(scan: Scan, event: Event) -> tuple[list[Update], str | None]:
    try:
        return scan.apply(event), None
    except NearcastError as error:
        return [], str(error)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.integers(),
    st.sampled_from([GivenSettings(), GivenSettings(window_count=15), GivenSettings(None, 3.0)]),
)
def test_one_call_is_as_many_calls(seed: int, given_settings: GivenSettings) -> None:
    events = crowd(seed, 150)
    engine, scan = (
        Engine(index="rarest-term", **vars(given_settings)),
        Scan(given_settings.settings()),
    )
    outcomes = engine.apply_all(events)
    entries: list[Entry] = []
    seq = 0
    for event, outcome in zip(events, outcomes, strict=True):
        updates, problem = applied(scan, event)
        assert problem == (None if outcome.error is None else str(outcome.error))
        if problem is not None:
            assert (outcome.seq, len(outcome.updates)) == (None, 0)
            continue
        seq += 1
        assert (outcome.seq, outcome.first_id) == (seq, len(entries) + 1)
        assert list(outcome.updates) == updates
        assert [outcome.updates[place] for place in range(len(updates))] == updates
        assert list(outcome.updates[-2:]) == updates[-2:]
        for update in updates:
            id, at = len(entries) + 1, scan.now or 0.0
            who, what = update.subscription, update.message
            entries.append(Entry(id, seq, at, update.op, who, what, update.score))
    assert engine.log.read(0, 100_000) == entries
    for subscription in scan.subscriptions():
        assert engine.results(subscription.id) == scan.results(subscription.id)
    for number in range(150):
        assert engine.message(f"m{number}") == scan.message(f"m{number}")


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers())
def test_with_stop_nothing_follows_what_was_refused(seed: int) -> None:
    events = crowd(seed, 60)
    everything = Engine(index="rarest-term").apply_all(events)
    engine = Engine(index="rarest-term")
    outcomes = engine.apply_all(events, stop=True)
    refused = [place for place, outcome in enumerate(everything) if outcome.error is not None]
    assert len(outcomes) == (refused[0] + 1 if refused else len(events))
    assert engine._journal.seq == (refused[0] if refused else len(events))


def test_an_engine_in_memory_keeps_as_many_updates_as_it_is_told() -> None:
    engine = Engine(index="rarest-term", retain_updates=10)
    engine.subscribe("s", "a", AREA)
    for number in range(3000):
        engine.publish(f"m{number}", "a", (0.5, 0.5))
    assert (engine.log.first, engine.log.last) == (2991, 3000)
    assert [entry.id for entry in engine.log.read(0, 3)] == [2991, 2992, 2993]
    assert engine.log.read(2998, 10, "other") == []
    assert [entry.message for entry in engine.log.read(2998, 10, "s")] == ["m2998", "m2999"]
    log = engine.log
    assert isinstance(log, RecentUpdates)
    assert len(log._chunks) < 3000


def test_a_page_follows_subscriptions_that_come_and_go() -> None:
    engine = Engine(index="rarest-term")
    for name in ("b", "d", "a"):
        engine.subscribe(name, "x", AREA)
    assert [s.id for s in engine.page(limit=2)] == ["a", "b"]
    engine.subscribe("c", "x", Box(5, 5, 6, 6))
    engine.subscribe("t", "x", point=(5.5, 5.5), top=Top(1, 0.5))
    engine.unsubscribe("b")
    assert [s.id for s in engine.page("a", 2)] == ["c", "d"]
    assert [s.id for s in engine.page(bbox=Box(5, 5, 7, 7))] == ["c", "t"]
    assert engine.count == 4
    assert engine.get("c") == Subscription("c", "x", Box(5, 5, 6, 6))
    assert engine.get("b") is None


def test_messages_are_found_while_they_count() -> None:
    engine = Engine(index="rarest-term", window_count=12)
    engine.apply_all([Publish(Message(f"m{n}", "a", (n / 100, 0))) for n in range(20)])
    assert engine.message("m7") is None
    assert engine.message("m8") == Message("m8", "a", (0.08, 0.0), at=0.0)
    engine.publish("range", "a", region=AREA, ttl=5, at=1)
    assert engine.message("range") == Message("range", "a", region=AREA, ttl=5, at=1)
    engine.publish("later", "a", (0, 0), at=6)
    assert engine.message("range") is None


def test_what_answers_the_outcomes_make_is_remembered() -> None:
    engine = Engine(index="rarest-term")
    engine.apply_all([], remember={"plain": b"1"})
    assert engine.recall("plain") == b"1"
    with pytest.raises(ZeroDivisionError):
        engine.apply_all([], remember=lambda outcomes: {"bad": b"%d" % (1 // len(outcomes))})
    assert engine.recall("bad") is None


def test_rankings_do_not_keep_messages_from_being_matched_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = Engine(index="rarest-term", window_count=20)
    engine.subscribe("s", "a", AREA)
    engine.subscribe("t", "a", point=(0, 0), top=Top(1, 1.0))
    monkeypatch.delattr("nearcast.engine.applying.apply_one")
    nearer = [Publish(Message(f"m{n}", "a", (0.5 - n / 100, 0))) for n in range(30)]
    outcomes = engine.apply_all(nearer)
    score = outcomes[29].updates[-1].score
    assert engine.results("t") == [Result("m29", score)]
    assert list(outcomes[29].updates) == [
        Update("add", "s", "m29"),
        Update("remove", "t", "m28"),
        Update("add", "t", "m29", score),
    ]
