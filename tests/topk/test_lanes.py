"""Sixteen lanes at once say what a loop over them says, and never pass by whom a score reaches."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast._jit import kernel
from nearcast.arrays.types import Float32s, Floats, Int32s, Shorts
from nearcast.events.fields import ADD
from nearcast.topk.core import TopK
from nearcast.topk.kernels.lanes import (
    lane_of,
    lane_of_plain,
    may_score,
    may_score_plain,
    raise_peaks,
    raise_peaks_plain,
    reached,
    reached_plain,
)
from nearcast.topk.kernels.layout import MESSAGE_PLANES, POSTING_PLANES
from nearcast.topk.window import Window


@kernel
def _reached(planes: Shorts, at: int, size: int, x: float, y: float, a: float, b: float) -> int:
    where, weights = (np.float32(x), np.float32(y)), (np.float32(a), np.float32(b))
    found: int = reached(planes, at, size, *where, *weights)
    return found if found == reached_plain(planes, at, size, *where, *weights) else -1


@kernel
def _lane_of(numbers: Int32s, at: int, number: int) -> int:
    found: int = lane_of(numbers, at, number)
    return found if found == lane_of_plain(numbers, at, number) else -1


@kernel
def _looked_at(
    ints: Int32s, at: int, size: int, asked: Floats, one: Float32s, other: Float32s
) -> int:
    x, y, a = np.float32(asked[0]), np.float32(asked[1]), np.float32(asked[2])
    b, theta, alpha = np.float32(asked[3]), np.float32(asked[4]), np.float32(asked[5])
    raise_peaks(ints, at, size, one, 3, x, y, a, alpha)
    raise_peaks_plain(ints, at, size, other, 3, x, y, a, alpha)
    found: int = may_score(ints, at, size, x, y, a, b, theta, alpha)
    return found if found == may_score_plain(ints, at, size, x, y, a, b, theta, alpha) else -1


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(0, 20), st.sampled_from([16, 32, 40]))
def test_postings_are_filtered_as_by_a_loop(seed: int, at: int, size: int) -> None:
    draw = np.random.default_rng(seed)
    planes = draw.integers(0, 65536, POSTING_PLANES * size + 64).astype(np.uint16)
    x, y, a, b = (draw.random(4) * [65535, 65535, 1, 1]).tolist()
    assert _reached(planes, at, size, x, y, a, b) >= 0


def test_some_postings_pass_and_some_do_not() -> None:
    draw = np.random.default_rng(5)
    planes = draw.integers(0, 65536, POSTING_PLANES * 16).astype(np.uint16)
    found = _reached(planes, 0, 16, 30000.0, 30000.0, 0.5, 0.5)
    assert 0 < found < 0xFFFF


def test_a_term_is_found_where_it_stands() -> None:
    numbers = np.array([*range(100, 84, -1), 7], np.int32)
    assert [_lane_of(numbers, 0, n) for n in (100, 85, 93, 7, -1)] == [0, 15, 7, 16, 16]
    assert [_lane_of(numbers, 1, n) for n in (100, 99, 7)] == [16, 0, 15]


def test_entries_of_a_circle_are_looked_at_as_by_a_loop() -> None:
    draw = np.random.default_rng(6)
    bits = 0
    for _ in range(300):
        size = int(draw.choice([16, 32, 64]))
        at = int(draw.integers(0, 20))
        ints = draw.integers(-(2**31), 2**31, MESSAGE_PLANES * size + 40).astype(np.int32)
        asked = draw.random(6) * [65535, 65535, 1, 1, 65535, 1]
        peaks = (draw.random(20) * 2e5 - 1e5).astype(np.float32)
        other = peaks.copy()
        found = _looked_at(ints, at, size, asked, peaks, other)
        assert found >= 0
        assert peaks.tolist() == other.tolist()
        bits += bin(found).count("1")
    assert 0 < bits < 16 * 300


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_every_subscription_that_a_message_reaches_is_found(seed: int) -> None:
    """Thresholds at the very score of a message: rounding must not lose the subscription."""
    draw = np.random.default_rng(seed)
    core = TopK(Window(1), 0.0, 0.0, 5.0)
    core.ensure_terms(6)
    core.weigh(np.arange(6, dtype=np.int32), draw.random(6) * 5 + 0.1)
    count = 40
    lengths = draw.integers(1, 7, count)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    terms = np.concatenate([np.sort(draw.permutation(6)[:n]) for n in lengths]).astype(np.int32)
    alphas = draw.choice([0.0, 1.0, 0.5, draw.random()], count)
    points = draw.random((count, 2)) * [3, 4]
    point, said = draw.random((1, 2)) * [3, 4], np.sort(draw.permutation(6)[:3]).astype(np.int32)
    message = (np.array([0, 3]), said, draw.integers(1, 4, 3).astype(np.int32))
    ks = np.ones(count, np.int32)
    core.subscribe(points, alphas, ks, starts, terms)
    first = core.publish(point, np.zeros(1), *message)
    again = TopK(Window(1), 0.0, 0.0, 5.0)
    again.ensure_terms(6)
    again.weigh(np.arange(6, dtype=np.int32), core._state.idf[:6])
    again.publish(point, np.zeros(1), *message)
    again.subscribe(points, alphas, ks, starts, terms)
    # With k = 1 and a full buffer of one kind of message, a copy displaces the one before it.
    for _ in range(10):
        changes = again.publish(point, np.zeros(1), *message)
        added = changes.ops == ADD
        assert set(changes.subscriptions[added]) == set(first.subscriptions)
        assert sorted(changes.scores[added]) == sorted(first.scores)
