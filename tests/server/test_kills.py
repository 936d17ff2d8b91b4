"""A server that is killed under load loses nothing that it acknowledged."""

from pathlib import Path

from killed_server import run_kills


def test_killed_twice_under_load(tmp_path: Path) -> None:
    run_kills(tmp_path, kills=2, seconds=0.3)
