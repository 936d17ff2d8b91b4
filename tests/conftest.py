"""How all tests run: in how many processes, in which order, with what around them."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import chain, islice
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from examples import draw_the_same, narrower, out_of_time, search_for_more, searching, wider

# A JVM that lives for a minute spends most of it on optimising what it will not run again.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_HERE = Path(__file__).parent
_SESSION = "fixture spark"
_LANES = (
    (_SESSION, "lab", "engine", "active", "topk"),
    ("spark", "index"),
    ("spark/test_kills.py", "cli/test_demo.py", "server/test_spark_server.py", "web", "store",
     "server"),
)  # fmt: skip
"""What takes long, by what it takes, the longest first: a session of Spark, of which one process
should have the only one; kernels, which each process has to load; and other processes, which have
to be waited for."""
_LONG = set(chain.from_iterable(_LANES))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than processors, as some test always waits for something."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(trylast=True)  # once those are left out that are not to run
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let every process begin with tests that take long, and leave short ones to be given away.

    Processes get equal parts of the tests, one after the other, and take from each other's ends.
    """
    if searching(config):
        search_for_more(config, items)
        return
    draw_the_same(items)
    of_folder: dict[str, list[pytest.Item]] = {}
    for item in items:
        of_folder.setdefault(_place_of(item), []).append(item)
    lanes = [[item for name in lane for item in of_folder.pop(name, [])] for lane in _LANES]
    short = chain.from_iterable(of_folder.values())
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    size = -(-len(items) // processes)
    ordered: list[pytest.Item] = []
    for number in range(processes):
        ordered += chain.from_iterable(lanes[number::processes])
        ordered += islice(short, max(0, (number + 1) * size - len(ordered)))
    items[:] = [*ordered, *short]


def pytest_runtest_teardown(item: pytest.Item) -> None:
    """End a search after the test that was under way when its time was over."""
    if searching(item.config) and out_of_time():
        item.session.shouldstop = "the time is over"


@pytest.fixture
def run_machine(request: pytest.FixtureRequest) -> Callable[..., None]:
    """Runs a state machine that a test has made: how many examples, of how many steps."""

    def run(machine: type[RuleBasedStateMachine], examples: int, steps: int) -> None:
        change = wider if searching(request.config) else narrower
        asked = settings(max_examples=examples, stateful_step_count=steps)
        run_state_machine_as_test(machine, settings=change(asked))

    return run


def _place_of(item: pytest.Item) -> str:
    """The folder of a test below this one, or what gives it a place of its own in a lane."""
    if "spark" in getattr(item, "fixturenames", ()):
        return _SESSION
    inside = item.path.relative_to(_HERE)
    return inside.as_posix() if inside.as_posix() in _LONG else inside.parts[0]
