"""Sixteen lanes at once say the same as a loop over them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from nearcast._jit import kernel
from nearcast.arrays import lanes
from nearcast.index.rarest_term._split import best_part

Array = npt.NDArray[Any]
small = st.sampled_from([-np.inf, -2, -1, 0, 1, 2, np.inf]).map(np.float32)
planes = arrays(np.float32, 70, elements=small)
side = st.integers(-2, 2).map(np.float32)
f32 = np.float32


@kernel
def both(boxes: Any, at: int, w: float, s: float, e: float, n: float) -> tuple[int, ...]:
    return (
        lanes.meets(boxes, at, w, s, e, n), lanes.meets_plain(boxes, at, w, s, e, n),
        lanes.overlaps(boxes, at, w, s, e, n), lanes.overlaps_plain(boxes, at, w, s, e, n),
    )  # fmt: skip


@settings(deadline=None)  # the first call compiles
@given(planes, st.integers(0, 6), side, side, side, side)
def test_tests_of_boxes_agree(
    boxes: Array, at: int, west: float, south: float, east: float, north: float
) -> None:
    meets, meets_plain, overlaps, overlaps_plain = both(boxes, at, west, south, east, north)
    assert meets == meets_plain
    assert overlaps == overlaps_plain
    x0, y0, x1, y1 = boxes[at : at + 64].reshape(4, 16)
    passed = (x0 <= east) & (y0 <= north) & (x1 >= west) & (y1 >= south)
    assert meets == sum(1 << int(lane) for lane in np.flatnonzero(passed))


@kernel
def folds(numbers: Any, at: int) -> tuple[float, float]:
    return lanes.least(numbers, at), lanes.greatest(numbers, at)


@settings(deadline=None)  # the first call compiles
@given(planes, st.integers(0, 54))
def test_folds_find_the_least_and_the_greatest(numbers: Array, at: int) -> None:
    some = numbers[at : at + 16]
    assert folds(numbers, at) == (some.min(), some.max())


@kernel
def empty_lane(boxes: Any, at: int) -> Any:
    return lanes.first_empty(boxes, at)


@settings(deadline=None)  # the first call compiles
@given(planes, st.integers(0, 54))
def test_the_first_empty_lane_is_found(numbers: Array, at: int) -> None:
    """A box that begins at plus infinity is an empty one."""
    numbers[at + 15] = np.inf
    assert empty_lane(numbers, at) == numbers[at : at + 16].tolist().index(np.inf)


@kernel
def parted(boxes: Any, at: int, w: Any, s: Any, e: Any, n: Any) -> Any:
    return best_part(boxes, at, w, s, e, n, f32(0.5))


def area(boxes: Array) -> float:
    """The area of what bounds all of some boxes, with the margin used here."""
    low, high = boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)
    return float(np.prod(high - low + 0.5))


@settings(deadline=None)  # the first call compiles
@given(arrays(np.float32, 68, elements=st.integers(-9, 9).map(np.float32)))
def test_a_full_block_is_parted_where_both_parts_are_smallest(numbers: Array) -> None:
    """No order and no place to cut is better, and neither part has too few of the boxes."""
    sides = numbers.reshape(17, 2, 2)
    boxes = np.concatenate((sides.min(axis=2), sides.max(axis=2)), axis=1)
    block = np.ascontiguousarray(boxes[:16].T).reshape(-1)
    bits, together = parted(block, 0, *boxes[16])
    part = (bits >> np.arange(17) & 1).astype(bool)
    assert 6 <= part.sum() <= 11
    least = np.inf
    keys = boxes[:, 0] + boxes[:, 2], boxes[:, 1] + boxes[:, 3], boxes @ [-1.0, -1.0, 1.0, 1.0]
    for key in keys:
        order = np.lexsort((np.arange(17), key))
        for cut in range(6, 12):
            if order[cut - 1] != 16:  # the new one is not tried as the last of the first part
                least = min(least, area(boxes[order[:cut]]) + area(boxes[order[cut:]]))
    assert area(boxes[part]) + area(boxes[~part]) == least == together


@kernel
def home(boxes: Any, at: int, w: Any, s: Any, e: Any, n: Any) -> Any:
    return lanes.least_growth(boxes, at, w, s, e, n, f32(0.5), 0)


@settings(deadline=None)  # the first call compiles
@given(arrays(np.float32, 64, elements=side), st.integers(1, 16), side, side)
def test_a_box_finds_its_best_home(numbers: Array, filled: int, x: float, y: float) -> None:
    """The least growth wins, then the smaller area, then the first; empty lanes never do."""
    planes = numbers.reshape(4, 16)
    planes = np.concatenate(
        (np.minimum(planes[:2], planes[2:]), np.maximum(planes[:2], planes[2:]))
    )
    planes[:2, filled:], planes[2:, filled:] = np.inf, -np.inf
    cost = []
    for lane in range(filled):
        x0, y0, x1, y1 = planes[:, lane].tolist()
        area = (x1 - x0 + 0.5) * (y1 - y0 + 0.5)
        grown = (max(x1, x + 1) - min(x0, x) + 0.5) * (max(y1, y) - min(y0, y - 1) + 0.5)
        cost.append((grown - area, area, lane))
    assert home(planes.ravel(), 0, x, f32(y - 1), f32(x + 1), y) == min(cost)[2]


@kernel
def packed(numbers: Any, at: int, mask: int, out: Any, where: int) -> tuple[int, int, int]:
    lanes.pack(numbers, at, mask, out, where)
    return lanes.not_negative(numbers, at), lanes.bit_count(mask), lanes.lowest(mask)


@settings(deadline=None)  # the first call compiles
@given(arrays(np.int32, 20, elements=st.integers(-9, 9)), st.integers(0, 4), st.integers(1, 65535))
def test_packing_writes_the_chosen_and_nothing_else(numbers: Array, at: int, mask: int) -> None:
    out = np.full(24, -99, np.int32)
    bits, count, lowest = packed(numbers, at, mask, out, 3)
    chosen = [int(numbers[at + lane]) for lane in range(16) if mask >> lane & 1]
    assert out.tolist() == [-99] * 3 + chosen + [-99] * (21 - len(chosen))
    assert count == len(chosen)
    assert lowest == (mask & -mask).bit_length() - 1
    assert bits == sum(1 << lane for lane in range(16) if numbers[at + lane] >= 0)


@kernel
def repeated(value: int, out: Any, where: int) -> None:
    lanes.repeat(value, out, where)


def test_repeating_fills_sixteen_places() -> None:
    out = np.zeros(20, np.int32)
    repeated(7, out, 2)
    assert out.tolist() == [0, 0] + [7] * 16 + [0, 0]


@kernel
def rounded(value: float) -> Any:
    return lanes.rounded_down(value), lanes.rounded_up(value)


@pytest.mark.parametrize("value", [0.0, 0.5, 180.0, -180.0])
def test_numbers_with_a_32_bit_form_are_not_rounded(value: float) -> None:
    assert rounded(value) == (value, value)


@settings(deadline=None)  # the first call compiles
@given(st.floats(-180, 180))
def test_rounding_encloses_and_is_tight(value: float) -> None:
    low, high = rounded(value)
    assert f32(low) == low <= value <= high == f32(high)
    assert low == high == value or np.nextafter(f32(low), f32(np.inf)) == high


@pytest.mark.skipif("NUMBA_CPU_NAME" in os.environ, reason="this is the other processor")
def test_a_processor_without_wide_vectors_agrees(tmp_path: Path) -> None:
    """All of the above, compiled for the plainest processor of this kind."""
    plain = {
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NEARCAST_KERNELS": str(tmp_path),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | plain, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout
    assert "passed" in ran.stdout


def test_rounding_outward_gives_the_nearest_numbers_on_either_side() -> None:
    """Of numbers of 32 bits themselves, of their neighbours in 64, of zeros and of the largest."""
    rng = np.random.default_rng(3)
    tiny, large = float(np.finfo(f32).smallest_subnormal), float(np.finfo(f32).max)
    exact = np.concatenate([rng.uniform(-180, 180, 500), [0.0, -0.0, tiny, -tiny, large, -large]])
    exact = exact.astype(f32).astype(np.float64)
    above, below = np.nextafter(exact, np.inf), np.nextafter(exact, -np.inf)
    values = np.concatenate([exact, above, below, [1e300, -1e300, 1e-300, np.inf, -np.inf]])
    found = [rounded(value) for value in values.tolist()]
    with np.errstate(over="ignore"):
        near = values.astype(f32)
        wanted_down = np.where(near > values, np.nextafter(near, f32(-np.inf)), near)
        wanted_up = np.where(near < values, np.nextafter(near, f32(np.inf)), near)
    assert found == list(zip(wanted_down.tolist(), wanted_up.tolist(), strict=True))
