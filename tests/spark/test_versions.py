"""A plan that changes while the pipeline runs changes nothing in what is found."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from any_targets import any_target
from boolean_logs import scanned
from nearcast.engine.settings import Settings
from nearcast.geo import Box
from nearcast.spark.driver.adjusting import Allowance
from nearcast.spark.driver.feed import BatchFeed
from nearcast.spark.driver.history import Upkeep
from small_pipeline import OFTEN, WORDS, Small, churn, write_events

SPACE = Settings(space=Box(-12, -12, 12, 12))
BATCHES, ROWS = 12, 20


# A failure is shown as it was found: to shrink one takes minutes.
@settings(deadline=None, max_examples=4, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    seed=st.integers(0, 1 << 30),
    partitioner=st.sampled_from(["space-kd", "text-frequency", "hybrid"]),
    budget=st.sampled_from([3_000.0, 30_000.0, 1e9]),
    upkeep=st.sampled_from([OFTEN, Upkeep()]),
)
def test_versions_that_take_over_at_any_batch_change_no_update(
    seed: int, partitioner: str, budget: float, upkeep: Upkeep
) -> None:
    """Local changes, rebuilt plans and other numbers of workers, a few cells at a time."""
    some = Random(seed)
    log = churn(BATCHES * ROWS, seed)
    expected, refused = scanned(log, SPACE)
    with TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        folder = Path(place)
        patch.setenv("NEARCAST_CACHE", str(folder / "cache"))
        patch.setattr("os.fsync", lambda _: None)  # which takes most of the time
        small = Small(folder, SPACE)
        small.partitioner, small.workers, small.upkeep = partitioner, some.randint(1, 4), upkeep
        feed: BatchFeed | None = None
        clock, plans = [0], set[int]()
        for batch, path in enumerate(write_events(folder / "in", log, BATCHES, 5)):
            if feed is None or some.random() < 0.2:
                small.allowance = Allowance(budget, lambda: float(clock[0]))
                feed = small.open(replan=some.random() < 0.1)
                if some.random() < 0.5:
                    shutil.rmtree(folder / "cache", ignore_errors=True)
            plan = feed.pipeline.history.plan
            if plan is not None and some.random() < 0.5:
                feed.pipeline.state.write_target(any_target(plan, some, WORDS))
            clock[0] += 20
            small.take(feed, batch, [path])
            plan = feed.pipeline.history.plan
            assert plan is not None
            plans.add(plan.number)
        small.check(expected)
        assert small.refused() == refused
        assert len(plans) > 1
