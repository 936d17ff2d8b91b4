"""Messages that say what others say: words come in phrases, some of which are said by many.

Words drawn one by one hardly ever meet again in another message. Those of people do: they repeat
each other, name the same things, use the same turns. Here every message has a phrase, frequent ones
more often (by Zipf's law), and takes each of its terms from it with probability `echo`. Phrases are
made of words by the law of the vocabulary, so rare words have company that is typical of them.
"""

from __future__ import annotations

import numpy as np

from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats
from nearcast_lab.workloads.base import Corpus, WorkloadOptions
from nearcast_lab.workloads.corpus import Ragged, distinct_terms
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.zipf import cumulative_weights, ranks_of


class EchoingCorpus(Corpus):
    """Messages by number, of which a share `echo` of the words comes from `phrases` phrases."""

    def __init__(self, seed: int, options: WorkloadOptions, echo: float, phrases: int) -> None:
        super().__init__(seed, options)
        self._echo = echo
        self._popularity = cumulative_weights(phrases)

    def terms(self, numbers: Ints) -> Ragged:
        """Give the different terms of each message, in the order of their ranks where they echo."""
        own = super().terms(numbers)
        if self._echo == 0:
            return own
        lengths = np.diff(own.offsets)
        phrase = ranks_of(self._popularity, Draws(self.seed, "phrase").uniform(numbers))
        said = distinct_terms(self.seed, "phrase terms", phrase, lengths, self.weights)
        slots = np.arange(len(own.values)) - np.repeat(own.offsets[:-1], lengths)
        unit = Draws(self.seed, "echo").uniform((np.repeat(numbers, lengths) << 20) + slots)
        values = np.where(unit < self._echo, said.values, own.values)
        rows = np.repeat(np.arange(len(numbers)), lengths)
        order = np.lexsort((values, rows))
        values, rows = values[order], rows[order]
        fresh = np.ones(len(values), np.bool_)
        fresh[1:] = (values[1:] != values[:-1]) | (rows[1:] != rows[:-1])
        return Ragged(values[fresh], starts_of(np.bincount(rows[fresh], minlength=len(numbers))))

    def chances(self) -> Floats:
        """Give for each term the share of messages that are expected to have it."""
        share = np.diff(self.weights, prepend=0.0) / self.weights[-1]
        terms = self.options.terms
        alone = -np.expm1((1.0 - self._echo) * terms * np.log1p(-share))
        if self._echo == 0:
            return np.asarray(alone)
        count, longest = len(self._popularity), self._longest
        phrases = distinct_terms(
            self.seed, "phrase terms", np.arange(count), np.full(count, longest), self.weights
        )
        # The n-th word of a phrase is said only by messages that are long enough.
        lengths = np.arange(self._shortest, longest + 1)
        reach = (lengths[:, None] > np.arange(longest)).mean(axis=0)
        popular = np.diff(self._popularity, prepend=0.0) / self._popularity[-1]
        said = np.outer(popular, reach).ravel()
        echoed = np.bincount(phrases.values, said, minlength=len(share))
        return np.asarray(1.0 - (1.0 - alone) * (1.0 - np.minimum(self._echo * echoed, 1.0)))
