"""Top-k in a pipeline without Spark: the updates of `scan`, with the last bit of their scores."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from boolean_logs import records
from event_logs import logs, worlds
from naive import Given
from nearcast.spark.events import table_of
from nearcast.spark.history import Upkeep
from ranked_pipeline import Ranked, scored, settings_of

OFTEN = Upkeep(snapshot_every=5, rebase_every=4, most_steps=3)
RUNS = st.lists(
    st.tuples(
        st.integers(1, 24), st.sampled_from([1, 2, 4, 8]), st.sampled_from(["shared", "space-kd"])
    ),
    min_size=1,
    max_size=4,
)


@settings(deadline=None, max_examples=100, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(log=logs(), world=worlds, runs=RUNS, step=st.integers(1, 12), forget=st.booleans())
def test_any_steps_and_any_stops_give_the_updates_of_scan(
    log: list[dict[str, Any]],
    world: Given,
    runs: list[tuple[int, int, str]],
    step: int,
    forget: bool,
) -> None:
    """Boolean and top-k subscriptions in one stream, stopped and started with other workers."""
    chosen = settings_of(world)
    expected, refused = scored(log, chosen)
    table = table_of(records(log))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        cache = Path(folder) / "cache"
        patch.setenv("NEARCAST_CACHE", str(cache))
        patch.setattr("os.fsync", lambda _: None)  # which takes most of the time
        ranked = Ranked(Path(folder), chosen, OFTEN)
        edges = sorted({0, len(log), *(min(cut, len(log)) for cut, _, _ in runs)})
        for number, (start, stop) in enumerate(pairwise(edges)):
            _, workers, partitioner = runs[number % len(runs)]
            ranked.start("shared", workers, partitioner)
            for first in range(start, stop, step):
                ranked.take(table[first : min(first + step, stop)])
                if forget:
                    shutil.rmtree(cache, ignore_errors=True)
    assert ranked.output.updates == expected
    assert ranked.output.refused == refused
