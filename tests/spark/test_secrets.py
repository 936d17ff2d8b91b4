"""Every pipeline makes its hashes with a secret of its own, so nobody can choose what collides."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from boolean_logs import scanned
from nearcast.arrays.slots import FIXED, as_secret
from nearcast.spark.driver import state as state_module
from nearcast.spark.driver.feed import BatchFeed
from nearcast.spark.reading import hash_ids
from nearcast.spark.workers.ranked_work import buckets_of
from nearcast.text.columns import hash_terms
from small_pipeline import Small, churn, write_events

CRAFTED = ("5twvcml53oyyh", "2753ey63zijfl")
"""Two terms that share the 64 bits of the plain hash."""
BOX: dict[str, Any] = {"type": "Box", "bbox": [-9, -9, 9, 9]}
ATTACK: list[dict[str, Any]] = [
    {"op": "subscribe", "id": "s", "query": CRAFTED[0], "region": BOX},
    {"op": "subscribe", "id": "o", "query": f"{CRAFTED[0]} OR other", "region": BOX},
    {"op": "publish", "id": "active", "text": CRAFTED[1], "point": [0, 0], "ttl": 60},
    {"op": "publish", "id": "instant", "text": CRAFTED[1], "point": [0, 0]},
    {"op": "publish", "id": "honest", "text": CRAFTED[0], "point": [0, 0]},
    {"op": "move", "id": "s", "region": {"type": "Box", "bbox": [-5, -5, 5, 5]}},
]


def taken(small: Small, log: list[dict[str, Any]], files: int = 1) -> BatchFeed:
    """Take a log, each file by a pipeline that is opened again."""
    for batch, path in enumerate(write_events(small.folder / "in", log, files, 8)):
        feed = small.open()
        small.take(feed, batch, [path])
    return feed


def without_secret(folder: Path) -> None:
    """Begin a state as the release before secrets did."""
    about = {"kind": "nearcast pipeline", "version": 5, "id": "old", "settings": {}}
    (folder / "state").mkdir(parents=True)
    (folder / "state" / "about.json").write_text(json.dumps(about))


@pytest.mark.parametrize(("partitioner", "workers"), [("shared", 1), ("text-frequency", 2)])
def test_crafted_terms_are_confused_by_the_plain_hash_only(
    tmp_path: Path, partitioner: str, workers: int
) -> None:
    """A pipeline from before secrets goes on with its hashes; a new one gives the right updates."""
    one, other = hash_terms(list(CRAFTED)).tolist()
    assert one == other
    expected, _ = scanned(ATTACK, Small(tmp_path).settings)
    found = {}
    for name in ("old", "new"):
        small = Small(tmp_path / name)
        small.partitioner, small.workers = partitioner, workers
        if name == "old":
            without_secret(small.folder)
        taken(small, ATTACK)
        found[name] = set(small.found())
    assert found["new"] == expected == {(4, "add", "s", "honest"), (4, "add", "o", "honest")}
    assert found["old"] > expected


def test_a_pipeline_keeps_the_secret_that_no_other_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when it is opened again and again, and its logs are compacted meanwhile."""
    monkeypatch.setattr(state_module, "urandom", os.urandom)
    log, secrets = churn(90), []
    for name in ("one", "two"):
        small = Small(tmp_path / name)
        feed = taken(small, log, files=5)
        state = feed.pipeline.state
        assert len(state.secret) == 16
        assert feed.pipeline.settings.secret == state.secret
        small.check(scanned(log, small.settings)[0])
        secrets.append(state.secret)
        again = small.open().pipeline.state
        assert again.secret == state.secret
    assert secrets[0] != secrets[1]


def test_ids_are_known_by_hashes_with_the_secret() -> None:
    """Ids of one bucket of the plain hash are in all of those of a secret one."""
    ids = pa.array([f"s{n}" for n in range(40_000)])
    crowd = ids.take(pa.array(np.flatnonzero(buckets_of(ids, FIXED) < 16)))
    assert len(crowd) > 400
    secret = as_secret(b"sixteen letters.")
    assert len(set(buckets_of(crowd, secret).tolist())) > 200
    assert not (hash_ids(crowd, FIXED) == hash_ids(crowd, secret)).any()
