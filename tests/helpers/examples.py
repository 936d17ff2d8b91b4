"""Which examples property tests draw: the same ones everywhere, or fresh ones in a search.

`make test` draws the same examples on every machine, the first half of those that a test asks for.
`pytest --hypothesis-profile=search` runs property tests alone, with more examples;
`tests/soak/search.py` does so again and again.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, core, is_hypothesis_test, settings
from hypothesis.internal.conjecture import providers
from hypothesis.vendor import pretty

SEARCH = "search"
TIMES = 5
"""How many times as many examples a search draws as a test asks for."""

SHARE = 0.5
"""How many of them `make test` draws: they are the same every time, so that more find no more."""

UNTIL = "NEARCAST_SEARCH_UNTIL"
"""The variable that says when a search ends, as a Unix time."""

_SETTINGS = "_hypothesis_internal_use_settings"
"""Where Hypothesis keeps the settings of a test."""

_UNTIMED: dict[str, Any] = {
    "deadline": None,  # a busy machine is no defect
    "suppress_health_check": [HealthCheck.too_slow],
}
settings.register_profile("nearcast", derandomize=True, database=None, **_UNTIMED)
settings.register_profile(SEARCH, print_blob=True, **_UNTIMED)
settings.load_profile("nearcast")

# Hypothesis also draws constants that it reads in the sources imported so far. Those depend on
# which tests ran before in the same process, and with them what a seed stands for.
vars(providers)["is_local_module_file"] = lambda _: False

# Schemathesis, which pytest loads as a plugin, keeps Hypothesis from writing out any value.
vars(core)["RepresentationPrinter"] = pretty.RepresentationPrinter


def searching(config: pytest.Config) -> bool:
    """Whether this run is a search."""
    return bool(config.getoption("--hypothesis-profile") == SEARCH)


def out_of_time() -> bool:
    """Whether a search has to end."""
    return time.time() > float(os.environ.get(UNTIL, "inf"))


def is_property(item: pytest.Item) -> bool:
    """Whether a test draws examples: by `@given`, as a state machine, or by `run_machine`."""
    return is_hypothesis_test(getattr(item, "obj", None)) or "run_machine" in getattr(
        item, "fixturenames", ()
    )


def wider(of: settings) -> settings:
    """Settings for more examples, made smaller when they fail."""
    return settings(of, max_examples=TIMES * of.max_examples, phases=tuple(Phase))


def narrower(of: settings) -> settings:
    """Settings for the examples that are drawn every time."""
    return settings(of, max_examples=max(1, round(SHARE * of.max_examples)))


def draw_the_same(items: list[pytest.Item]) -> None:
    """Let property tests draw what they draw everywhere."""
    _change_settings(items, narrower)


def search_for_more(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave property tests alone in a run, file by file in any order, and let them draw more."""
    config.hook.pytest_deselected(items=[item for item in items if not is_property(item)])
    files: dict[Any, list[pytest.Item]] = {}
    for item in filter(is_property, items):
        files.setdefault(item.path, []).append(item)
    order = list(files)
    random.Random(config.getoption("--hypothesis-seed")).shuffle(order)
    items[:] = [item for path in order for item in files[path]]
    for function in _change_settings(items, wider):
        function._hypothesis_internal_use_seed = None  # Schemathesis takes one of its own


def _change_settings(items: list[pytest.Item], change: Callable[[settings], settings]) -> list[Any]:
    """Change the settings of tests and of state machines once each; return those tests."""
    tests: list[Any] = [getattr(item, "obj", None) for item in items]
    functions = {id(test): test for test in tests if hasattr(test, _SETTINGS)}
    for function in functions.values():
        setattr(function, _SETTINGS, change(getattr(function, _SETTINGS)))
    machines: set[Any] = {getattr(item, "cls", None) for item in items}
    for machine in machines:
        if hasattr(machine, "settings"):
            machine.settings = change(machine.settings)
    return list(functions.values())
