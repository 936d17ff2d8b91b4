"""The work of the tasks that rank in a step, and the buckets by which it is assigned to workers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.slots import Secret, hash_with
from nearcast.arrays.types import Floats, Int64s
from nearcast.geo import Box
from nearcast.spark.workers.node import LogStep
from nearcast.text.columns import buffers
from nearcast.topk import Window

BUCKETS = 1024
"""Top-k subscriptions are assigned to workers by the bucket of their id."""

Buckets = npt.NDArray[np.int16]
"""By bucket: the worker that has it."""

FIRST_TASK = 1 << 20
"""Added to the numbers of tasks that rank, so that their files have names of their own."""


FOLDER, ENDING = "messages", ".arrow"
"""Where in the state files with messages are, and how their names end."""


class MessageFile(NamedTuple):
    """A file with messages: its step, the numbers from `first` to before `next`.

    It is `whole` if it has all that concerned the window in its step.
    """

    step: int
    first: int
    next: int
    whole: bool

    @property
    def name(self) -> str:
        """The name of its file in the state."""
        kind = "whole" if self.whole else "part"
        return f"{FOLDER}/{self.step:09}-{self.first}-{self.next}-{kind}{ENDING}"


@dataclass
class RankedWork:
    """One step for the tasks that rank; `TaskInput` has the rest.

    A worker's state after a step follows from what is in the state of the pipeline: subscriptions
    from `definitions` of the base and the `log` of each step since, messages from files.
    """

    scheme: str
    workers: int
    buckets: Buckets
    window: Window
    space: Box
    vocabulary: str | None  # the file with the history from which terms get their weights
    steps: list[LogStep]  # a worker that has taken the first of them can take the others
    files: list[MessageFile]  # of each of these steps but the first: all that concerns the window
    before: list[MessageFile]  # that have the messages of the window as it was before this step
    first: int  # the window before this step has the messages from `first`
    next: int  # to before `next`
    living: Int64s | None  # those of them that it has; None if it has all
    ends: Floats | None  # when those end, or NaN


def buckets_of(ids: pa.Array, secret: Secret) -> npt.NDArray[np.int64]:
    """The bucket of each id."""
    hashes = np.empty((len(ids), 2), np.uint64)
    hash_with(secret, *buffers(ids), hashes)
    return (hashes[:, 1] >> np.uint64(40)).astype(np.int64) % BUCKETS


def evenly(workers: int) -> Buckets:
    """Assign all buckets evenly to `workers` workers."""
    return (np.arange(BUCKETS) * workers // BUCKETS).astype(np.int16)
