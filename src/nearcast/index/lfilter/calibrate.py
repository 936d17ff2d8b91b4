"""The constants of the cost model, measured on the machine with an index's own rows.

Sample messages are made of the terms of random rows, at the centres of others. They are matched by
each way that LFilter can choose, in CPU time. It takes some tenths of a second at a million rows.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log2
from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.index.base import Batch
from nearcast.index.lfilter.cost import LENGTHS, SearchCosts, Shape, lists_met
from nearcast.index.table import Rows

_MESSAGES = 12
_SHARE = 0.1  # of each side of the space, for a sample box


class MatchMethod(NamedTuple):
    """How to match sample messages."""

    by_quadtree: bool
    costs: SearchCosts


Timed = Callable[[Batch, MatchMethod], tuple[float, int]]
"""Matches messages in some way, and gives the nanoseconds it took and the rows it verified."""


def calibrate(
    rows: Rows, chosen: Int32s, shape: Shape, width: int, timed: Timed
) -> tuple[SearchCosts, Floats]:
    """Measure the costs of single operations, and the prices of whole messages.

    Prices are, in a line for each of `LENGTHS`: a message by the trie, a point message by the
    quadtree, and each leaf more that a range message meets.
    """
    random = np.random.default_rng(1)
    samples = [_sample(rows, chosen, length, random) for length in LENGTHS]
    short, far = samples[0], _elsewhere(samples[-1], shape)
    none = SearchCosts(1.0, 1.0, 1.0)
    text_ns, verified = timed(short, MatchMethod(True, none._replace(place=2.0)))
    text = text_ns / max(1, verified)
    place_ns, verified = timed(short, MatchMethod(False, none))
    place = min(place_ns / max(1, verified), 0.9 * text)
    steps = len(far.terms) * log2(width + 1.0)
    costs = SearchCosts(timed(far, MatchMethod(False, none))[0] / max(1.0, steps), place, text)
    prices = np.empty((len(LENGTHS), 3))
    for line, points in zip(prices, samples, strict=True):
        boxes = _widened(points, shape)
        leaves = sum(lists_met(shape, *box) - 1.0 for box in boxes.boxes.tolist())
        point = timed(points, MatchMethod(True, costs))[0]
        more = max(0.0, timed(boxes, MatchMethod(True, costs))[0] - point)
        line[:] = (
            timed(points, MatchMethod(False, costs))[0],
            point,
            more * len(points) / max(1.0, leaves),
        )
    return costs, prices / _MESSAGES


def _sample(rows: Rows, chosen: Int32s, length: int, random: np.random.Generator) -> Batch:
    """Make messages of up to that many terms, drawn as rows have them."""
    starts, terms = [0], []
    for _ in range(_MESSAGES):
        drawn: set[int] = set()
        for row in random.choice(chosen, length).tolist():
            drawn.update(
                rows.terms[rows.first[row] : rows.first[row] + rows.required[row]].tolist()
            )
            if len(drawn) >= length:
                break
        terms += list(drawn)[:length]
        starts.append(len(terms))
    boxes = rows.box[random.choice(chosen, _MESSAGES)]
    centres = np.tile((boxes[:, :2] + boxes[:, 2:]) / 2, 2)
    return Batch(np.array(starts, np.int64), np.array(terms, np.int32), centres)


def _widened(points: Batch, shape: Shape) -> Batch:
    """Make range messages of point messages."""
    half = np.tile(shape.extent[2:] * _SHARE / 2, 2) * np.array([-1, -1, 1, 1])
    return Batch(points.starts, points.terms, points.boxes + half)


def _elsewhere(points: Batch, shape: Shape) -> Batch:
    """Put messages where no row is, so that nothing but the children of the root is looked at."""
    west, south, width, height = shape.extent.tolist()
    corner = np.array([west + 2 * width + 1, south + 2 * height + 1] * 2)
    return Batch(points.starts, points.terms, np.tile(corner, (len(points), 1)))
