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
    log = ranked_log(400)

    def replayed(*engine: str) -> tuple[bytes, list[int]]:
        Path("log.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, log)))
        arguments = ["replay", "log.jsonl", "--output", "updates.jsonl", "--window-count", "40"]
        arguments += ["--on-error", "quarantine=refused.jsonl", "--engine", *engine]
        assert main(arguments) == 0
        aside = Path("refused.jsonl").read_bytes().splitlines()
        lines = [msgspec.json.decode(line)["line"] for line in aside]
        return Path("updates.jsonl").read_bytes(), lines

    found, refused = replayed("spark", "--workers", "2", "--partitioner", "prefix")
    # What a pipeline refused, for whatever reason, becomes what every engine refuses.
    for line in refused:
        log[line - 1] = {"op": "unsubscribe", "id": "nobody"}
    assert replayed("scan") == (found, refused)
    assert found.count(b'"score"') > 50
    assert found.count(b'"remove"') > 50
