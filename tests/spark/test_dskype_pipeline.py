"""Distributed top-k in a pipeline without Spark: the updates of `scan`, by every mechanism."""

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
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.spark.events import table_of
from nearcast.spark.history import Upkeep
from ranked_pipeline import Ranked, scored, settings_of

OFTEN = Upkeep(snapshot_every=5, rebase_every=4, most_steps=3)
RUNS = st.lists(
    st.tuples(
        st.integers(1, 24), st.sampled_from([1, 2, 4, 8]), st.sampled_from([*MECHANISMS, "shared"])
    ),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=40, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(log=logs(), world=worlds, runs=RUNS, step=st.integers(1, 12), forget=st.booleans())
def test_any_mechanism_and_any_stops_give_the_updates_of_scan(
    log: list[dict[str, Any]],
    world: Given,
    runs: list[tuple[int, int, str]],
    step: int,
    forget: bool,
) -> None:
    """Stopped and started with other mechanisms and other numbers of workers."""
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
            _, workers, scheme = runs[number % len(runs)]
            ranked.start(scheme, workers)
            for first in range(start, stop, step):
                ranked.take(table[first : min(first + step, stop)])
                if forget and first % 5 == 0:
                    shutil.rmtree(cache, ignore_errors=True)
    assert ranked.output.updates == expected
    assert ranked.output.refused == refused
