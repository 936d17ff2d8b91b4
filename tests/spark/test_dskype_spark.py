"""Distributed top-k on real Spark, from the command line: what `scan` prints, to the last bit."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from nearcast.cli.main import main
from nearcast.spark.replay import replay_steps
from ranked_logs import ranked_log


@pytest.mark.usefixtures("spark")
def test_replay_by_prefixes_prints_what_scan_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Five stages a step, several steps, boolean and top-k subscriptions in one log."""
    monkeypatch.chdir(tmp_path)
    defaults = replay_steps.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "step_records", 150)
    lines = [msgspec.json.encode(event) + b"\n" for event in ranked_log(400)]
    Path("log.jsonl").write_bytes(b"".join(lines))
    written = []
    for engine in (["scan"], ["spark", "--workers", "2", "--partitioner", "prefix"]):
        arguments = ["replay", "log.jsonl", "--output", "updates.jsonl", "--window-count", "40"]
        arguments += ["--on-error", "quarantine=refused.jsonl", "--engine", *engine]
        assert main(arguments) == 0
        written.append((Path("updates.jsonl").read_bytes(), Path("refused.jsonl").read_bytes()))
    assert written[1] == written[0]
    assert written[0][0].count(b'"score"') > 50
    assert written[0][0].count(b'"remove"') > 50
