"""Texts as hashes of their terms in alphabetical order, which all workers understand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s
from nearcast.spark.topk.dskype.columns import Terms
from nearcast.text import Analyser
from nearcast.topk.terms import TermNumbers


class _Weights:
    """Stands in for a core, and records the weights of terms."""

    def __init__(self) -> None:
        self.idf = np.ones(1 << 10)

    def ensure_terms(self, count: int) -> None:
        """Make room for `count` terms."""
        if count > len(self.idf):
            larger = np.ones(2 * count)
            larger[: len(self.idf)] = self.idf
            self.idf = larger

    def weigh(self, terms: Int32s, idf: Floats) -> None:
        """Set the weights of terms."""
        self.idf[terms] = idf


def terms_of(
    texts: pa.Array, analyser: Analyser, idf: Callable[[str], float] | None
) -> tuple[Terms, Int32s]:
    """The terms of texts, with their weights if `idf` is given, and how often each occurs."""
    weights = _Weights()
    numbers = TermNumbers(cast("Any", weights), analyser, idf)
    bags = numbers.read(texts)
    hashes = numbers.hashes
    weighed = np.empty(0) if idf is None else weights.idf[bags.terms]
    return Terms(bags.starts, hashes[bags.terms], weighed), bags.counts
