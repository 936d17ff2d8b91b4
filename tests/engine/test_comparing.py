"""The ranks of each message are sorted, in whatever way."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.engine import comparing
from nearcast.engine.comparing import sort_within


@pytest.mark.parametrize("most", [0, 4, 2047, 2048, 10**6, 2**31 - 1])
@pytest.mark.parametrize("each", [1, 12, 60, 500, comparing._PART])
def test_ranks_are_sorted_within_each_message(most: int, each: int) -> None:
    """Few or many for a message, of few digits or many, in one part or in several."""
    rng = np.random.default_rng([most, each])
    counts = rng.integers(0, 2 * each, max(3, comparing._PART // each))
    messages = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    ranks = rng.integers(0, most + 1, len(messages)).astype(np.int32)
    expected = ranks[np.lexsort((ranks, messages))]
    sort_within(messages, ranks)
    assert (ranks == expected).all()


def test_nothing_is_sorted_where_there_is_nothing() -> None:
    nothing = np.empty(0, np.int32)
    sort_within(nothing, nothing)
    assert not len(nothing)
