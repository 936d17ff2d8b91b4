"""Python workers start warm, and what is loaded costs nothing after a task."""

import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from nearcast.spark import daemon


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )


STARTED = """
import gc, sys
import pyspark.daemon
from nearcast.spark import daemon

daemon._LIBRARIES = ("json", "no_such_library")
daemon.STEPS[:] = [lambda: print("chatter"), lambda: 1 / 0, lambda: sys.exit(3)]
pyspark.daemon.manager = lambda: print("forking", gc.get_freeze_count() > 0, daemon._settled)
daemon.main()
"""


def test_a_failed_warm_up_is_reported_and_the_daemon_goes_on() -> None:
    done = run(STARTED)
    assert done.returncode == 0
    for trouble in ("ZeroDivisionError", "no_such_library", "SystemExit: 3"):
        assert trouble in done.stderr


def test_only_the_daemon_of_pyspark_writes_to_standard_output() -> None:
    """Spark reads a port number there: anything before it would break the hand-shake."""
    done = run(STARTED)
    assert done.stdout == "forking True True\n"
    assert "chatter" in done.stderr


def test_settling_is_done_once_in_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    monkeypatch.setattr(daemon, "_settled", False)
    monkeypatch.setattr(daemon, "warm", lambda: calls.append("warm"))
    monkeypatch.setattr(daemon, "freeze", lambda: calls.append("freeze"))
    daemon.settle()
    daemon.settle()
    assert calls == ["warm", "freeze"]


def test_everything_that_is_warmed_up_works() -> None:
    assert daemon.warm() == []


def state_of_worker(rows: Iterable[int]) -> Iterator[dict[str, Any]]:
    import gc
    import os
    import sys

    from nearcast.index.rarest_term._match import match_batch
    from nearcast.spark import daemon
    from nearcast.topk.kernels.events import publish

    list(rows)  # a task that leaves input unread ends its process
    loaded = [name for name in ("numba", "pyarrow", "pandas") if name in sys.modules]
    yield {
        "pid": os.getpid(),
        "settled": daemon._settled,
        "frozen": gc.get_freeze_count(),
        "in_use": len(gc.get_objects()),
        "loaded": loaded,
        "warm": [len(vars(each)["overloads"]) > 0 for each in (match_batch, publish)],
    }


def workers(spark: SparkSession) -> list[dict[str, Any]]:
    return spark.sparkContext.parallelize([0, 1], 2).mapPartitions(state_of_worker).collect()


def test_workers_start_with_everything_loaded_warm_and_frozen(spark: SparkSession) -> None:
    for worker in workers(spark):
        assert worker["settled"] is True
        assert worker["loaded"] == ["numba", "pyarrow", "pandas"]
        assert worker["warm"] == [True, True]
        # the objects that a collection still looks at, after a task, are few
        assert worker["frozen"] > 100_000
        assert worker["in_use"] < 10_000


def test_a_worker_that_reads_its_input_is_used_again(spark: SparkSession) -> None:
    first = {worker["pid"] for worker in workers(spark)}
    assert {worker["pid"] for worker in workers(spark)} <= first


def match_in_threads(rows: Iterable[int]) -> Iterator[int]:
    import numpy as np

    from nearcast.geo import Box
    from nearcast.index import Table
    from nearcast.index.base import Batch, match
    from nearcast.index.rarest_term import RarestTerm

    list(rows)
    table = Table()
    table.ensure_terms(1)
    table.add(0, [([0], [])], Box(0, 0, 1, 1))
    index = RarestTerm(table)
    index.build()
    count = 500
    messages = Batch(np.arange(count + 1), np.zeros(count, np.int32), np.full((count, 4), 0.5))
    yield len(match(index, messages, threads=2).messages)


def test_a_forked_worker_matches_on_threads(spark: SparkSession) -> None:
    found = spark.sparkContext.parallelize([0, 1], 2).mapPartitions(match_in_threads).collect()
    assert found == [500, 500]
