"""`nearcast replay` of top-k logs: the embedded engine and `scan` write the same bytes."""

import json
from pathlib import Path

import pytest

from nearcast.cli.main import main
from nearcast_lab.workloads.registry import generate

OPTIONS = {"vocabulary": 60, "cities": 3, "warm": 40, "repeat": 0.4, "rate": 10.0}


def write(path: Path, *, seed: int, k: int, moves: bool = True) -> Path:
    events = list(generate("topk", subscriptions=40, messages=250, seed=seed, k=k, **OPTIONS))
    if moves:
        points = [event["point"] for event in events if event["op"] == "publish"]
        for n in range(100, 280, 15):
            at = events[n].get("at", events[n - 1].get("at"))
            move = {"op": "move", "id": f"s{n % 40 + 1}", "point": points[n % 100]}
            events.insert(n, move | ({} if at is None else {"at": at}))
    path.write_text("\n".join(json.dumps(event) for event in events))
    return path


@pytest.mark.parametrize("window", [["--window-count", "70"], ["--window-seconds", "6.5"], []])
@pytest.mark.parametrize("history", [False, True])
def test_all_engines_write_the_same_updates(
    tmp_path: Path, window: list[str], history: bool
) -> None:
    log = write(tmp_path / "log.jsonl", seed=5, k=4)
    options = list(window)
    if history:
        options += ["--history", str(write(tmp_path / "old.jsonl", seed=6, k=4, moves=False))]
    written = []
    for engine, ranking in (("embedded", "auto"), ("embedded", "skype"), ("scan", "auto")):
        out = tmp_path / f"{engine}-{ranking}.jsonl"
        arguments = ["replay", str(log), "--engine", engine, "--output", str(out)]
        arguments += ["--ranking", ranking]
        aside = ["--on-error", f"quarantine={tmp_path / 'aside.jsonl'}"]
        assert main([*arguments, *options, *aside]) == 0
        written.append(out.read_bytes())
    assert written[0] == written[1] == written[2]
    assert written[0].count(b'"op": "remove"') > 50
