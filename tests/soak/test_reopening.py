"""100,000 top-k subscriptions are there again within five seconds, however the process ended."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearcast import Engine
from server_process import running

pytestmark = pytest.mark.soak

SUBSCRIPTIONS = 100_000
MESSAGES = 10_000
MOST_S = 5.0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def words(random: np.random.Generator, size: int) -> str:
    return " ".join(f"w{number}" for number in (20_000 * random.random(size) ** 3).astype(int))


def fill(engine: Engine) -> None:
    random = np.random.default_rng(7)
    points = random.uniform([-60, -60], [60, 60], (SUBSCRIPTIONS, 2))
    table = pa.table(
        {
            "id": [f"s{number}" for number in range(SUBSCRIPTIONS)],
            "query": [words(random, 3) for _ in range(SUBSCRIPTIONS)],
            "point": points.tolist(),
            "top": [{"k": 5, "alpha": 0.5}] * SUBSCRIPTIONS,
        }
    )
    engine.subscribe_table(table)
    for start in range(0, MESSAGES, 5000):
        some = random.uniform([-60, -60], [60, 60], (5000, 2))
        engine.publish_table(
            pa.table(
                {
                    "id": [f"m{start + number}" for number in range(5000)],
                    "text": [words(random, 9) for _ in range(5000)],
                    "point": some.tolist(),
                }
            )
        )


def _fill(path: Path, close: bool) -> None:
    engine = Engine(path=path, index="rarest-term")
    fill(engine)
    if close:
        engine.close()
    os._exit(0)


@pytest.fixture(scope="module", params=["closed", "killed", "without a snapshot"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server with the file of an engine that ended in one way or another."""
    data = tmp_path_factory.mktemp("data")
    (data / "tenants").mkdir()
    path = data / "tenants" / "default.nearcast"
    child = multiprocessing.get_context("fork").Process(
        target=_fill, args=(path, request.param != "killed")
    )
    child.start()
    child.join()
    assert child.exitcode == 0
    if request.param == "without a snapshot":
        shutil.rmtree(f"{path}-index")
    return data


def test_an_engine_opens_within_seconds(filled: Path) -> None:
    """By its CPU time, so that a busy machine does not count; the clock is told."""
    Engine(index="rarest-term").close()  # kernels are loaded
    started, cpu = time.perf_counter(), time.process_time()
    with Engine(path=filled / "tenants" / "default.nearcast", index="rarest-term") as engine:
        took, cpu = time.perf_counter() - started, time.process_time() - cpu
        say(f"opened in {took:.2f} s, {cpu:.2f} s of CPU")
        assert engine.count == SUBSCRIPTIONS
        assert any(engine.results(f"s{number}") for number in range(100))
    assert cpu < MOST_S


def test_a_server_is_ready_within_seconds(filled: Path, tmp_path: Path) -> None:
    started = time.perf_counter()
    with running(tmp_path, "--data", str(filled), "--index", "rarest-term") as server:
        say(f"ready after {time.perf_counter() - started:.2f} s")
        assert f"nearcast_subscriptions {float(SUBSCRIPTIONS)}" in server.http.get("/metrics").text
        assert server.terminate() == 0
