"""Every index replays every kind of log to the bytes of `scan`."""

from pathlib import Path

import pytest

from nearcast.cli.main import main
from nearcast.engine import INDEX_NAMES
from nearcast_lab.workloads import WORKLOADS

INDEXES = [name for name in INDEX_NAMES if name != "scan"]


@pytest.mark.parametrize("kind", sorted(WORKLOADS))
def test_every_index_writes_the_bytes_of_scan(kind: str, tmp_path: Path) -> None:
    log, output = tmp_path / "log.jsonl", tmp_path / "updates.jsonl"
    size = ["--subscriptions", "120", "--messages", "120", "--seed", "7"]
    assert main(["generate", kind, *size, "--output", str(log)]) == 0
    assert main(["replay", str(log), "--engine", "scan", "--output", str(output)]) == 0
    expected = output.read_bytes()
    assert expected or kind in ("small", "moving")
    for index in INDEXES:
        output.unlink()
        assert main(["replay", str(log), "--index", index, "--output", str(output)]) == 0
        assert output.read_bytes() == expected, index
