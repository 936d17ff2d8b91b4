"""Words of `local-tweets` depend on place as place names do; those of `tweets` do not."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast_lab.workloads.base import Corpus, WorkloadOptions
from nearcast_lab.workloads.local_tweets import LocalCorpus, LocalTweetsOptions
from nearcast_lab.workloads.locality import Locality, locality_of

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
