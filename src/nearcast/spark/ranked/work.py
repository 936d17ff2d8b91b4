"""What the tasks that rank are told of a step, and the stages in which they do it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.slots import hash_strings
from nearcast.geo import Box
from nearcast.spark.node import LogStep
from nearcast.spark.ranked.window import MessageFile
from nearcast.text.columns import buffers
from nearcast.topk import Window

if TYPE_CHECKING:
    from nearcast.spark.tasks import TaskInput

BUCKETS = 1024
"""Top-k subscriptions are dealt out by the bucket that their id falls into."""

Buckets = npt.NDArray[np.int16]
"""By bucket: the worker that has it."""


@dataclass
class RankedWork:
    """One step, as the tasks that rank are told; `TaskInput` has the rest.

    A worker's state after a step follows from what is in the state of the pipeline: subscriptions
    from `definitions` of the base and the `log` of each step since, messages from files.
    """

    scheme: str
    workers: int
    buckets: Buckets
    window: Window
    space: Box
    vocabulary: str | None  # the file with the history that weighs terms
    steps: list[LogStep]  # that one who has taken the first of them can follow, up to this one
    files: list[MessageFile]  # of each of these steps but the first: all that concerns the window
    before: list[MessageFile]  # that have the messages of the window as it was before this step
    first: int  # of them are in it: those from `first`
    next: int  # to before `next`
    extra: dict[str, Any] = field(default_factory=dict)  # what a scheme tells its own tasks


Packets = Iterator[tuple[int, bytes]]
"""What a task sends: each packet to a task of the stage that follows."""


class Stage(NamedTuple):
    """So many tasks, each run with its number, the packets sent to it, and the attempt's number.

    All tasks of the first stage are run, of a later one those that something was sent to. What the
    last stage sends are reports (`tasks.Report.to_packet`), to nobody in particular.
    """

    width: int
    run: Callable[[TaskInput, int, Iterator[bytes], int], Packets]


class Ranker(Protocol):
    """One way to rank on Spark."""

    def stages(self, work: TaskInput) -> list[Stage]:
        """Say in which stages the tasks of a step are run; the same on the driver and in tasks."""
        ...


def buckets_of(ids: pa.Array) -> npt.NDArray[np.int64]:
    """The bucket of each id."""
    hashes = np.empty((len(ids), 2), np.uint64)
    hash_strings(*buffers(ids), hashes)
    return (hashes[:, 1] >> np.uint64(40)).astype(np.int64) % BUCKETS


def evenly(workers: int) -> Buckets:
    """Deal all buckets out to so many workers."""
    return (np.arange(BUCKETS) * workers // BUCKETS).astype(np.int16)
