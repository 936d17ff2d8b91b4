"""What movement adds to the cost of a spatial node (AP+-Tree, section 4.3.1)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast._jit import inner_counting
from nearcast.arrays.types import Floats, Int32s

SAMPLE = 1024
"""How many rows of a node, evenly spread, are used to estimate when it will have drifted."""
_DRIFT = 0.001  # theta_KL


class Motion(NamedTuple):
    """How rows move. Without speeds nothing does, and the cost is that of the AP-Tree."""

    speed: Floats  # (rows, 2): degrees east and north in one timestamp
    rate: float  # r_m: messages in one timestamp
    every: float  # T_upd: timestamps between two reports of a place
    horizon: int  # T_max: the most timestamps until a reconstruction


STILL = Motion(np.empty((0, 2)), 1.0, 1.0, 1)


@inner_counting
def steps_until_drift(
    box: Floats, chosen: Int32s, work: Int32s, start: int, stop: int, bounds: Floats, columns: int,
    lines: int, motion: Motion,
) -> int:  # fmt: skip
    """Estimate T_delta (Algorithm 8): when the rows will be distributed differently over a grid.

    The grid is uniform, as in the paper; rows that have left the node are counted at its border.
    """
    step = max(1, (stop - start) // SAMPLE)
    cells = columns * lines
    before, now = np.zeros(cells), np.zeros(cells)
    width, height = max(bounds[2] - bounds[0], 1e-9), max(bounds[3] - bounds[1], 1e-9)
    for time in range(motion.horizon + 1):
        for cell in range(cells):
            now[cell] = 0.5
        total = 0.5 * cells
        for at in range(start, stop, step):
            row = chosen[work[at]]
            lon = (box[row, 0] + box[row, 2]) / 2 + motion.speed[row, 0] * time
            lat = (box[row, 1] + box[row, 3]) / 2 + motion.speed[row, 1] * time
            column = min(columns - 1, max(0, int((lon - bounds[0]) / width * columns)))
            line = min(lines - 1, max(0, int((lat - bounds[1]) / height * lines)))
            now[line * columns + column] += 1.0
            total += 1.0
        if time == 0:
            for cell in range(cells):
                before[cell] = now[cell]
            continue
        divergence = 0.0
        for cell in range(cells):
            share = before[cell] / total
            divergence += share * np.log(before[cell] / now[cell])
        if divergence > _DRIFT:
            return time
    return motion.horizon


@inner_counting
def moving_cost(
    box: Floats, chosen: Int32s, work: Int32s, start: int, stop: int, bounds: Floats, depth: int,
    columns: int, lines: int, terms: int, fanout: int, capacity: int, motion: Motion,
) -> float:  # fmt: skip
    """Give C_slu + C_irc of a spatial node (equations 9 and 13), in verifications."""
    number = stop - start
    logf = np.log2(fanout)
    width, height = max(bounds[2] - bounds[0], 1e-9), max(bounds[3] - bounds[1], 1e-9)
    updates = 0.0
    for at in range(start, stop):
        row = chosen[work[at]]
        passed = abs(motion.speed[row, 0]) / width + abs(motion.speed[row, 1]) / height
        updates += 2.0 * min(1.0, passed) * depth * logf
    height_of_tree = max(0.0, np.log(max(1.0, number / capacity)) / np.log(fanout))
    remaking = number * logf
    remaking += (number * np.sqrt(fanout) + fanout * terms) * (height_of_tree + 1.0)
    until = steps_until_drift(box, chosen, work, start, stop, bounds, columns, lines, motion)
    return float(updates / motion.every + remaking / until)
