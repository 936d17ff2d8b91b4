"""What every system gets: people who look for words in a box, and messages at points.

Words follow a Zipf law with a flattened head; places are around 200 towns. Boxes have sides of 1
to 40 km, so that many people share a town and few a street.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

VOCABULARY = 5_000
TOWNS = 200


class Workload(NamedTuple):
    """Subscriptions and messages, with words as numbers: `w17` is the word 17."""

    boxes: list[tuple[float, float, float, float]]
    wanted: list[list[str]]
    points: list[tuple[float, float]]
    texts: list[list[str]]


def make(subscriptions: int, messages: int, seed: int = 1, *, fences: bool = False) -> Workload:
    """Draw a workload; the same seed gives the same one. Fences want no words."""
    random = np.random.default_rng(seed)
    towns = np.column_stack([random.uniform(-120, -70, TOWNS), random.uniform(28, 47, TOWNS)])
    weights = 1 / (np.arange(VOCABULARY) + 50.0)
    weights /= weights.sum()

    def around(count: int) -> np.ndarray:
        spread = random.normal(0, 0.1, (count, 2))
        return np.round(towns[random.integers(TOWNS, size=count)] + spread, 6)

    def words(count: int, least: int, most: int) -> list[list[str]]:
        sizes = random.integers(least, most + 1, size=count)
        drawn = random.choice(VOCABULARY, size=int(sizes.sum()), p=weights)
        ends = np.cumsum(sizes)
        return [
            sorted({f"w{word}" for word in drawn[end - size : end].tolist()})
            for end, size in zip(ends.tolist(), sizes.tolist(), strict=True)
        ]

    centres = around(subscriptions)
    half = random.uniform(1, 40, subscriptions) / 222  # of a side, in degrees
    boxes = np.round(np.column_stack([centres - half[:, None], centres + half[:, None]]), 6)
    return Workload(
        [tuple(box) for box in boxes.tolist()],
        [[] for _ in boxes] if fences else words(subscriptions, 1, 3),
        [tuple(point) for point in around(messages).tolist()],
        words(messages, 9, 9),
    )
