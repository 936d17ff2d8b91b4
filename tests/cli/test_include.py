"""`nearcast replay --include`: updates with the message, and with the meta of the subscription."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearcast.cli.main import main

BOX = {"type": "Box", "bbox": [0.0, 0.0, 9.0, 9.0]}
AREA = {"type": "Box", "bbox": [1.0, 1.0, 2.0, 2.0]}
LOG: list[dict[str, Any]] = [
    {"op": "subscribe", "id": "s1", "query": "a", "region": BOX, "meta": {"who": "ada"}},
    {"op": "publish", "id": "m1", "text": "a", "point": [1, 1], "at": 5, "ttl": 60},
    {"op": "publish", "id": "m1", "text": "a b", "point": [1, 2], "properties": {"n": [1]}},
    {"op": "subscribe", "id": "s2", "region": BOX},
    {"op": "subscribe", "id": "s1", "query": "b", "region": BOX, "at": 7, "meta": {}},
    {"op": "retract", "id": "m1"},
    {"op": "publish", "id": "r", "region": AREA, "ttl": 0, "text": ""},
]
FIRST: dict[str, Any] = {"text": "a", "point": [1.0, 1.0], "at": 5.0, "ttl": 60.0}
SECOND: dict[str, Any] = {"text": "a b", "point": [1.0, 2.0], "properties": {"n": [1]}, "at": 5.0}
LAST: dict[str, Any] = {"region": AREA, "at": 7.0}
WITHOUT = [
    {"event": 1, "op": "add", "subscription": "s1", "message": "m1"},
    {"event": 2, "op": "change", "subscription": "s1", "message": "m1"},
    {"event": 6, "op": "add", "subscription": "s2", "message": "r"},
]
BODIES = [FIRST, SECOND, LAST]
METAS: list[Any] = [{"who": "ada"}, {"who": "ada"}, None]


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(map(json.dumps, LOG)))
    return str(path)


@pytest.mark.parametrize("engine", ["embedded", "scan"])
@pytest.mark.parametrize("include", ["message", "meta", "meta,message", ""])
def test_what_is_included(
    log: str, engine: str, include: str, capfd: pytest.CaptureFixture[str]
) -> None:
    # m1 was replaced by a message without an end, so nothing is active when s2 and s1 come
    arguments = ["replay", log, "--engine", engine, "--include", include, "--window-count", "9"]
    assert main([*arguments, "--on-error", "quarantine=/dev/null"]) == 0
    found = [json.loads(line) for line in capfd.readouterr().out.splitlines()]
    for update, body, meta in zip(WITHOUT, BODIES, METAS, strict=True):
        expected: dict[str, Any] = dict(update)
        if "message" in include:
            expected["body"] = body
        if "meta" in include and meta is not None:
            expected["meta"] = meta
        line = found.pop(0)
        assert line == expected
        assert list(line) == list(expected)  # in this order
    assert found == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--include", "body"], "--include: 'body' given; expected message and meta"),
    ],
)
def test_what_cannot_be_included(
    log: str, arguments: list[str], words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", log, *arguments]) == 2
    assert words in capfd.readouterr().err
