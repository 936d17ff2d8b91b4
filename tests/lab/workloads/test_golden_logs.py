"""The same seed gives the same log on every machine: digests of short logs, and of the words."""

from __future__ import annotations

import re
from hashlib import sha256

import msgspec
import numpy as np
import pytest

from nearcast_lab.workloads import WORKLOADS, generate
from nearcast_lab.workloads.words import words_of

VOCABULARY = 30_000
SPELLING = "2d679f7e7037884e"
DIGESTS = {
    "tweets": "3cd70645b0d7c9ad",
    "small": "94c0b5c9df9016c7",
    "sts-q1": "0d32d7bafb1d59b5",
    "sts-q2": "00d7f4d3612ee93d",
    "sts-q3": "d79ecb5b7300870e",
    "moving": "737b9026ae3d431e",
    "topk": "2b7d38938e67e598",
    "range": "ee86e62ba25db844",
}


def test_words_are_spelled_the_same_everywhere() -> None:
    """A term has the word it has always had; another spelling is another format."""
    words = words_of(np.arange(VOCABULARY)).tolist()
    assert sha256(" ".join(words).encode()).hexdigest()[:16] == SPELLING


@pytest.mark.parametrize("kind", WORKLOADS)
def test_logs_are_the_same_everywhere(kind: str) -> None:
    """A log of seed 11 has the terms and places it has always had, however terms are spelled."""
    words = words_of(np.arange(VOCABULARY)).tolist()
    numbers = {word: f"t{number}" for number, word in enumerate(words)}
    digest = sha256()
    for event in generate(kind, subscriptions=400, messages=400, seed=11, vocabulary=VOCABULARY):
        for field in event.keys() & {"text", "query"}:
            event[field] = re.sub("[a-z]+", lambda found: numbers[found[0]], event[field])
        digest.update(msgspec.json.encode(event))
    assert digest.hexdigest()[:16] == DIGESTS[kind]
