"""Every index and ranking gives the updates, refusals and results of `Scan`, for any log."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from event_logs import logs, worlds
from naive import Fields, Given
from nearcast import Engine, NearcastError, Subscription
from nearcast.engine import Scan, Settings
from nearcast.events import Event, Update, event_from_json
from nearcast.geo import WORLD, Box
from nearcast.index import INDEXES
from nearcast.text import Vocabulary
from nearcast.topk import Window

EXAMPLES = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
Answer = list[Update] | str


def settings_of(world: Given) -> Settings:
    history = None
    if world.history is not None:
        history = Vocabulary.from_documents(text.split() for text in world.history)
    space = WORLD if world.space is None else Box(*world.space)
    return Settings(Window(world.count, world.seconds), space, history)


def engine_of(world: Given, index: str, ranking: str) -> Engine:
    given = settings_of(world)
    return Engine(
        index=index,
        ranking=ranking,
        window_count=world.count,
        window_seconds=world.seconds,
        space=given.space,
        history=given.history,
    )


def events_of(log: list[Fields]) -> list[Event]:
    events = []
    for fields in log:
        try:
            events.append(event_from_json(json.loads(json.dumps(fields))))
        except NearcastError:
            continue
    return events


def answers_of(scan: Scan, events: list[Event]) -> list[Answer]:
    answers: list[Answer] = []
    for event in events:
        try:
            answers.append(scan.apply(event))
        except NearcastError as error:
            answers.append(str(error))
    return answers


def in_order(subscriptions: list[Subscription]) -> list[Subscription]:
    return sorted(subscriptions, key=lambda subscription: subscription.id)


def check(engine: Engine, scan: Scan, events: list[Event], at_once: int) -> None:
    expected, found = answers_of(scan, events), list[Answer]()
    for start in range(0, len(events), at_once):
        for outcome in engine.apply_all(events[start : start + at_once]):
            found.append(list(outcome.updates) if outcome.error is None else str(outcome.error))
    assert found == expected
    assert in_order(engine.subscriptions()) == in_order(scan.subscriptions())
    for subscription in scan.subscriptions():
        assert engine.get(subscription.id) == subscription
        assert engine.results(subscription.id) == scan.results(subscription.id)


@EXAMPLES
@given(
    worlds, logs(rich=True), st.sampled_from(["auto", "auto", "skype"]), st.sampled_from([1, 99])
)
def test_the_default_index_and_both_rankings(
    world: Given, log: list[Fields], ranking: str, at_once: int
) -> None:
    engine = engine_of(world, "rarest-term", ranking)
    check(engine, Scan(settings_of(world)), events_of(log), at_once)


@pytest.mark.parametrize("index", [name for name in INDEXES if name != "rarest-term"])
@settings(EXAMPLES, max_examples=15)
@given(worlds, logs(rich=True))
def test_every_other_index(index: str, world: Given, log: list[Fields]) -> None:
    check(engine_of(world, index, "auto"), Scan(settings_of(world)), events_of(log), 99)


@EXAMPLES
@given(worlds, logs(rich=True), st.integers(0, 20))
def test_going_over_to_an_index_in_the_middle(world: Given, log: list[Fields], place: int) -> None:
    engine, scan, events = (
        engine_of(world, "auto", "auto"),
        Scan(settings_of(world)),
        events_of(log),
    )
    check(engine, scan, events[:place], 99)
    engine.go_over()
    check(engine, scan, events[place:], 99)
