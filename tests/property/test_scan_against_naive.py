"""`Scan` gives the updates, results and refusals that a second reading of the contract gives."""

import json

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from event_logs import boxes, logs, points, regions, worlds
from naive import Fields, Given, Naive, Pair, lies_in, words_of
from nearcast.engine import Scan, Settings
from nearcast.errors import NearcastError
from nearcast.events import event_from_json
from nearcast.geo import WORLD, Box, region_from_json
from nearcast.text import Vocabulary
from nearcast.topk import Window


def settings_of(world: Given) -> Settings:
    history = None
    if world.history is not None:
        history = Vocabulary.from_documents(words_of(text) for text in world.history)
    space = WORLD if world.space is None else Box(*world.space)
    return Settings(Window(world.count, world.seconds), space, history)


def note(fields: Fields, updates: dict[Pair, float | None] | None) -> None:
    """Tell the statistics what was met, so that a generator gone dull shows."""
    if updates is None:
        event(f"{fields['op']}: refused")
    for op, subscription, _ in updates or ():
        event(f"{fields['op']}: {op} {'top-k' if subscription.startswith('t') else 'boolean'}")


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(worlds, st.one_of(logs(), logs(rich=True), logs(rich=True)))
def test_every_event_has_the_updates_that_the_contract_gives_it(
    world: Given, log: list[Fields]
) -> None:
    naive, scan = Naive(world), Scan(settings_of(world))
    for fields in log:
        expected = naive.apply(fields)
        note(fields, expected)
        try:
            updates = scan.apply(event_from_json(json.loads(json.dumps(fields))))
        except NearcastError:
            assert expected is None, f"refused: {fields}"
            updates = []
        else:
            assert expected is not None, f"accepted: {fields}"
            order = [(u.subscription, u.message, u.op) for u in updates]
            assert order == sorted(order)
        found: dict[Pair, float | None] = {
            (u.op, u.subscription, u.message): u.score for u in updates
        }
        assert len(found) == len(updates)
        assert found.keys() == (expected or {}).keys(), fields
        for pair, score in (expected or {}).items():
            same(found[pair], score)
        same_state(naive, scan)


@settings(max_examples=400, deadline=None)
@given(regions, boxes(), points)
def test_places_lie_in_the_regions_that_the_contract_puts_them_in(
    region: Fields, box: Fields, point: list[float]
) -> None:
    shape, place = region_from_json(region), Box(*box["bbox"])
    assert shape.contains(*point) == lies_in({"point": point}, region)
    assert shape.meets(place) == lies_in({"region": box}, region)


def same(found: float | None, expected: float | None) -> None:
    if expected is None or found is None:
        assert found is expected
    else:
        assert abs(found - expected) <= 1e-12


def same_state(naive: Naive, scan: Scan) -> None:
    """Also what was refused left no trace: standing subscriptions and results are the same."""
    now = naive.log[-1]["at"] if naive.log else 0.0
    standing = naive.subscriptions(naive.log, now)
    assert {subscription.id for subscription in scan.subscriptions()} == set(standing)
    for id, subscription in standing.items():
        expected = naive.results(subscription, naive.log, now)
        found = scan.results(id)
        if "top" in subscription:
            assert [result.message for result in found] == list(expected)
        assert {result.message for result in found} == set(expected)
        for result in found:
            same(result.score, expected[result.message])
