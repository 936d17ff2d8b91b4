"""One session of Spark for all tests of a process, and processes that die."""

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from crashes import Crashes, install
from nearcast.spark.driver import state
from nearcast.spark.session import local_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = local_session("local[2]", "nearcast tests", **{"spark.sql.shuffle.partitions": 2})
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def same_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its secret a pipeline assigns ids to buckets: as before in every run of a test."""
    monkeypatch.setattr(state, "urandom", Random(5).randbytes)


@pytest.fixture(
    params=[pytest.param(4, id="a quarter"), pytest.param(1, id="all", marks=pytest.mark.soak)]
)
def crashes(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Crashes:
    """Dies at a quarter of the places where a process may die; in the long runs at all of them."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    return install(monkeypatch, request.param)
