"""A server that is killed twenty times under load loses nothing that it acknowledged."""

from pathlib import Path

import pytest

from killed_server import run_kills


@pytest.mark.soak
def test_killed_twenty_times_under_load(tmp_path: Path) -> None:
    run_kills(tmp_path, kills=20, seconds=2.0, publishers=8)
