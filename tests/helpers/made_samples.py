"""Small random samples to plan with."""

from __future__ import annotations

import numpy as np

from nearcast.partition.grid import Grid
from nearcast.partition.sample import Sample, messages_of, rows_of, sample_of

GRID = Grid(0.0, 0.0, 32.0, 16.0, 32, 16)


def made_sample(
    seed: int, rows: int = 400, messages: int = 600, terms: int = 30, boxes: bool = False
) -> Sample:
    """Messages that crowd in one corner, and rows of 1 to 3 terms around such places.

    Low term numbers are frequent. With `boxes` every third message has an extent.
    """
    draw = np.random.default_rng(seed)

    def places(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
        return np.asarray(draw.random((count, 2)) ** 2 * (32.0, 16.0))

    def lists(count: int, longest: int) -> tuple[list[int], list[int]]:
        starts, chosen = [0], list[int]()
        for _ in range(count):
            drawn = (draw.random(draw.integers(1, longest + 1)) ** 3 * terms).astype(int)
            chosen += sorted(set(drawn.tolist()))
            starts.append(len(chosen))
        return starts, chosen

    row_starts, row_terms = lists(rows, 3)
    message_starts, message_terms = lists(messages, 6)
    low = places(rows)
    corners = np.hstack((low, low + draw.random((rows, 2)) * (3.0, 2.0)))
    points = places(messages)
    extents = draw.random((messages, 2)) * (np.arange(messages) % 3 == 0)[:, None] * boxes
    owners = np.sort(draw.integers(0, max(rows // 2, 1), rows)).astype(np.int32)
    return sample_of(
        rows_of(corners, np.array(row_starts), np.array(row_terms), owners),
        messages_of(
            np.hstack((points, points + extents)), np.array(message_starts), np.array(message_terms)
        ),
        operations=messages // 5,
    )
