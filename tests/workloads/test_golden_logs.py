"""The same seed gives the same log on every machine: digests of short logs."""

from __future__ import annotations

from hashlib import sha256

import msgspec
import pytest

from nearcast.workloads import WORKLOADS, generate

DIGESTS = {
    "tweets": "dd2acf8ee78d1cde",
    "small": "3e0af20ad02cfac4",
    "sts-q1": "1822e0ae3f8bd695",
    "sts-q2": "cc5b2f304ff0c9eb",
    "sts-q3": "6dd059d7758da2f1",
    "moving": "cf6d8b925e5da8a9",
    "topk": "d04aef4b55fcda28",
    "range": "769e8d7d9030579b",
}


@pytest.mark.parametrize("kind", WORKLOADS)
def test_logs_are_the_same_everywhere(kind: str) -> None:
    """A log of seed 11 has the bytes it has always had; a change of them is a change of format."""
    digest = sha256()
    for event in generate(kind, subscriptions=400, messages=400, seed=11, vocabulary=30_000):
        digest.update(msgspec.json.encode(event))
    assert digest.hexdigest()[:16] == DIGESTS[kind]
