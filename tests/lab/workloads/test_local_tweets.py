"""Words of `local-tweets` depend on place as place names do; those of `tweets` do not."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast_lab.workloads.base import Corpus, WorkloadOptions
from nearcast_lab.workloads.local_tweets import LocalCorpus, LocalTweetsOptions
from nearcast_lab.workloads.locality import Locality, locality_of
from nearcast_lab.workloads.registry import array_workload

PLACES = {1: 0.35, 2: 0.27, 4: 0.21, 8: 0.14, 16: 0.09, 32: 0.02, 64: 0.02}
"""Words in common of 687,000 place names, by distance in degrees."""
NUMBERS = np.arange(120_000, dtype=np.int64)


def measured(corpus: Corpus) -> Locality:
    return locality_of(corpus.cities.points(NUMBERS), corpus.terms(NUMBERS))


def test_neighbours_have_as_many_words_in_common_as_real_places() -> None:
    """Half of them or fewer a few degrees further; a word is frequent in few cells."""
    options = LocalTweetsOptions(cities=2000)
    found = measured(LocalCorpus(1, options, options))
    assert found.cells > 50
    assert found.frequent_in < 5
    for distance, share in PLACES.items():
        assert found.in_common[distance] == pytest.approx(share, abs=0.06)


def test_words_of_tweets_are_the_same_everywhere() -> None:
    found = measured(Corpus(1, WorkloadOptions(cities=2000)))
    assert found.frequent_in > 10
    assert max(found.in_common.values()) - min(found.in_common.values()) < 0.02


def test_messages_of_any_length_have_the_words_of_the_subscriptions() -> None:
    """A term has the same number whatever the length of messages, or the size of regions."""
    made = [
        array_workload("local-tweets", seed=3, vocabulary="5000", **options)
        for options in ({}, {"terms": "30", "min_area": "0.001"}, {"message_area": "0.01"})
    ]
    first = made[0].subscriptions(0, 300)
    for other in made[1:]:
        assert other.subscriptions(0, 300).terms.tolist() == first.terms.tolist()
        assert other.frequency.tolist() == made[0].frequency.tolist()
