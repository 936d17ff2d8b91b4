"""A pair of servers loses nothing that it acknowledged, whichever of them is killed."""

from pathlib import Path

from killed_pair import run_pair_kills


def test_a_pair_is_killed_a_few_times_under_load(tmp_path: Path) -> None:
    run_pair_kills(tmp_path, kills=2, seconds=0.3)
