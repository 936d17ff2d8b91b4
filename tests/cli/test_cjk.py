"""Text without blanks between words is found with `--cjk`, and not without it."""

import json
from pathlib import Path

import pytest

from nearcast.cli.main import main

EVENTS = [
    {
        "op": "subscribe",
        "id": "s",
        "query": "東京",
        "region": {"type": "Box", "bbox": [0, 0, 1, 1]},
    },
    {"op": "publish", "id": "fire", "text": "東京駅で火事", "point": [0, 0]},
    {"op": "publish", "id": "other", "text": "京東", "point": [0, 0]},
]


@pytest.mark.parametrize("engine", ["scan", "embedded"])
@pytest.mark.parametrize(("options", "found"), [([], []), (["--cjk"], ["fire"])])
def test_pairs_of_characters_are_found(
    tmp_path: Path, engine: str, options: list[str], found: list[str]
) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    log.write_text("\n".join(map(json.dumps, EVENTS)))
    assert main(["replay", str(log), "--engine", engine, "--output", str(out), *options]) == 0
    assert [json.loads(line)["message"] for line in out.read_text().splitlines()] == found
