"""States that earlier versions wrote are taken over."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from boolean_logs import scanned
from roaming_logs import roaming_log
from small_pipeline import Small, write_events

FIRST = Path(__file__).parents[1] / "golden" / "pipeline-1.tar.gz"
"""The state of a pipeline of two workers after the log in it, written when nothing lasted yet."""


@pytest.mark.parametrize("replan", [False, True])
def test_a_state_of_the_first_version_goes_on_with_lasting_messages(
    tmp_path: Path, replan: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    with tarfile.open(FIRST) as archive:
        archive.extractall(tmp_path, filter="data")
    before = json.loads((tmp_path / "log.json").read_text())
    after = [fields | {"at": fields["at"] + 1000} for fields in roaming_log(1, 60)]
    small = Small(tmp_path)
    small.partitioner, small.workers = "space-kd", 2
    expected, _ = scanned([*before, *after], small.settings)
    for batch, path in enumerate(write_events(tmp_path / "in", after, 2, 10)):
        feed = small.open(replan=replan and batch == 0)
        small.take(feed, 10 + batch, [path])
    fresh = {update for update in expected if update[0] >= len(before)}
    small.check(fresh)
    assert {op for _, op, _, _ in fresh} == {"add", "remove"}
    assert json.loads((tmp_path / "state" / "about.json").read_text())["version"] == 3
