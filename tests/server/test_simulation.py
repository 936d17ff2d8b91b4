"""Servers in a simulated world, by many seeds: no promise is broken, whatever goes wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import nearcast
from nearcast.server.logs import set_up_logs
from simulation.defects import DEFECTS, first_seed_that_finds
from simulation.world import run_seed

pytestmark = [  # a process that ends in the middle leaves things open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
]
SEEDS = 24
AT_A_TIME = 8
SOAK = Path(__file__).parents[1] / "soak" / "simulate.py"


@pytest.mark.parametrize("first", range(0, SEEDS, AT_A_TIME))
def test_no_seed_breaks_a_promise(first: int) -> None:
    """Nothing lost, invented, heard twice or by others; ids grow; results are those of `scan`."""
    set_up_logs("error")
    for seed in range(first, first + AT_A_TIME):
        run = run_seed(seed)
        assert run.violation is None, run.told()


def test_a_seed_is_always_the_same_run() -> None:
    """Also in another process, where strings have other hashes."""
    set_up_logs("error")
    command = [sys.executable, str(SOAK), "--from", "3", "--seeds", "2"]
    source = str(Path(nearcast.__file__).parents[1])
    environment = os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": source}
    told = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    for seed in (3, 4):
        assert f"{seed} {run_seed(seed).trace}" in told.stdout.splitlines()
    assert run_seed(3).trace != run_seed(4).trace


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_defect_that_is_put_in_is_found(
    defect: Callable[[], AbstractContextManager[None]],
) -> None:
    """An update lost at a crash, heard twice, or heard by another tenant: few seeds are enough."""
    set_up_logs("error")
    found = first_seed_that_finds(defect, 30)
    assert "tests/soak/simulate.py --from" in found.told()
