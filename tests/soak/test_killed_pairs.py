"""A pair of servers, killed again and again under load, loses nothing that it acknowledged.

`NEARCAST_KILLS=1000 pytest tests/soak/test_killed_pairs.py -m soak` takes hours.
"""

import os
from pathlib import Path

import pytest

from killed_pair import run_pair_kills


@pytest.mark.soak
def test_killed_pairs(tmp_path: Path) -> None:
    run_pair_kills(tmp_path, kills=int(os.environ.get("NEARCAST_KILLS", "20")), seconds=1.0)
