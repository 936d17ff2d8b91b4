"""What two engines gave for the same events is compared update by update."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.demo.comparison import Change, Comparison

CHANGES: st.SearchStrategy[Change] = st.tuples(
    st.sampled_from(["add", "remove"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from(["m", "n"]),
    st.sampled_from([None, 0.1, 0.1 + 2**-56]),
)
LOGS = st.lists(st.tuples(st.integers(1, 4), CHANGES), max_size=12)
Log = list[tuple[int, Change]]


def compared(ours: Log, theirs: Log, settled: int = 4) -> Comparison:
    comparison = Comparison()
    for seq, change in ours:
        comparison.ours(seq, change)
    for seq, change in theirs:
        comparison.theirs(seq, change)
    comparison.settle(settled)
    return comparison


@given(ours=LOGS, theirs=LOGS)
def test_every_update_is_either_the_same_or_counted_as_a_difference(ours: Log, theirs: Log) -> None:
    found = compared(ours, theirs)
    both = (Counter(ours) & Counter(theirs)).total()
    assert (found.same, found.differ) == (both, len(ours) + len(theirs) - 2 * both)
    assert (found.first_difference is None) == (found.differ == 0)


@given(log=LOGS, random=st.randoms(use_true_random=False))
def test_the_order_in_which_updates_come_does_not_count(log: Log, random: object) -> None:
    shuffled = list(log)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = compared(log, shuffled)
    assert (found.same, found.differ) == (len(log), 0)


@given(log=LOGS, settled=st.integers(0, 4))
def test_nothing_is_compared_before_both_have_done_with_it(log: Log, settled: int) -> None:
    found = compared(log, log, settled)
    assert (found.same, found.differ) == (sum(seq <= settled for seq, _ in log), 0)
    found.settle(4)
    assert found.same == len(log)


@pytest.mark.parametrize(
    ("theirs", "said"),
    [
        ([], "event 7: only the embedded engine has add m for a, score 0.5"),
        ([(7, ("add", "a", "m", 0.5))] * 2, "event 7: only Spark has add m for a, score 0.5"),
    ],
)
def test_the_first_difference_is_told(theirs: Log, said: str) -> None:
    assert compared([(7, ("add", "a", "m", 0.5))], theirs, 7).first_difference == said
