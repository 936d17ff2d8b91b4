"""ComputeNumberPartitions of PS2Stream (section IV-B): how many parts each node is cut into."""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue


def number_partitions(costs: Floats, total: int) -> list[int]:
    """Share `total` parts out to nodes so that the sum of their loads is least.

    `costs[i, k - 1]` is the load of node i cut into k parts, C[i, k] in the paper; each node gets
    at least one part. L[i, j] = min over k of L[i - 1, j - k] + C[i, k], and the choices are
    followed back.

    >>> number_partitions(np.array([[9.0, 5.0, 4.0], [7.0, 6.0, 1.0]]), 4)
    [1, 3]
    """
    nodes, most = costs.shape
    if not nodes <= total <= nodes * most:
        raise InvalidValue("total", total, f"from {nodes} to {nodes * most} parts")
    least = np.full((nodes + 1, total + 1), np.inf)
    choice = np.zeros((nodes + 1, total + 1), np.int64)
    least[0, 0] = 0.0
    for i in range(1, nodes + 1):
        for j in range(i, total + 1):
            k = np.arange(1, min(j - i + 1, most) + 1)
            sums = least[i - 1, j - k] + costs[i - 1, k - 1]
            best = int(np.argmin(sums))
            least[i, j], choice[i, j] = sums[best], k[best]
    parts, left = [], total
    for i in range(nodes, 0, -1):
        parts.append(int(choice[i, left]))
        left -= parts[-1]
    return parts[::-1]
