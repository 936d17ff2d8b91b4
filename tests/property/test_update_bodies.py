"""Every update has the message as it was then, and the meta of its subscription as it was then."""

from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings

from event_logs import logs, worlds
from expected_bodies import Attached, ExpectedBodies
from naive import Fields, Given, words_of
from nearcast import Engine, NearcastError
from nearcast.events import Event, event_from_json
from nearcast.geo import WORLD, Box
from nearcast.text import Vocabulary

EXAMPLES = settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))


def events_of(log: list[Fields]) -> list[Event]:
    """The events of a log that can be read."""
    events = []
    for fields in log:
        try:
            events.append(event_from_json(fields))
        except NearcastError:
            continue
    return events


def engine_in(world: Given, index: str, path: Path | None = None) -> Engine:
    history = None
    if world.history is not None:
        history = Vocabulary.from_documents(words_of(text) for text in world.history)
    return Engine(
        index=index,
        path=path,
        window_count=world.count,
        window_seconds=world.seconds,
        space=WORLD if world.space is None else Box(*world.space),
        history=history,
    )


def expected_of(world: Given, events: list[Event]) -> list[list[Attached]]:
    """What the updates of each event carry, by a plain reading; updates are those of `scan`."""
    known = ExpectedBodies()
    expected: list[list[Attached]] = []
    with engine_in(world, "scan") as scan:
        for event in events:
            try:
                updates = scan.apply(event)
            except NearcastError:
                expected.append([])
                continue
            known.accept(event)
            expected.append([known.of(update) for update in updates])
    return expected


@pytest.mark.parametrize("index", ["scan", "auto", "rarest-term"])
@pytest.mark.parametrize("at_once", [False, True])
@EXAMPLES
@given(world=worlds, log=logs(rich=True))
def test_in_memory(index: str, at_once: bool, world: Given, log: list[Fields]) -> None:
    events = events_of(log)
    expected = expected_of(world, events)
    with engine_in(world, index) as engine:
        if at_once:
            outcomes = engine.apply_all(events)
        else:
            outcomes = [engine.apply_all([event])[0] for event in events]
        found = [[(u.body, u.meta) for u in outcome.updates] for outcome in outcomes]
        assert found == expected
        logged = engine.log.read(0, 10_000)
        assert [(entry.body, entry.meta) for entry in logged] == list(chain(*expected))


@EXAMPLES
@given(world=worlds, log=logs(rich=True))
def test_in_a_file(world: Given, log: list[Fields]) -> None:
    events = events_of(log)
    with TemporaryDirectory() as name:
        folder = Path(name)
        expected = list(chain(*expected_of(world, events)))
        with engine_in(world, "scan", folder / "file") as engine:
            for start in range(0, len(events), 5):
                engine.apply_all(events[start : start + 5])
        with Engine(index="scan", path=folder / "file") as engine:
            logged = engine.log.complete(engine.log.read(0, 10_000))
            assert [(entry.body, entry.meta) for entry in logged] == expected
