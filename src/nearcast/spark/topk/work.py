"""The work of the tasks that rank in a step, and the stages in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.slots import hash_strings
from nearcast.geo import Box
from nearcast.spark.topk.window import MessageFile
from nearcast.spark.workers.node import LogStep
from nearcast.text.columns import buffers
from nearcast.topk import Window

if TYPE_CHECKING:
    from nearcast.spark.workers.tasks import TaskInput

BUCKETS = 1024
"""Top-k subscriptions are assigned to workers by the bucket of their id."""

Buckets = npt.NDArray[np.int16]
"""By bucket: the worker that has it."""


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
    extra: dict[str, Any] = field(default_factory=dict)  # for the tasks of one scheme


Packets = Iterator[tuple[int, bytes]]
"""What a task sends: each packet to a task of the stage that follows."""


class Stage(NamedTuple):
    """`width` tasks, each run with its number, the packets sent to it, and the attempt's number.

    All tasks of the first stage are run, and those of a later one that were sent a packet. The last
    stage sends reports (`TaskReport.to_packet`), whose target does not matter.
    """

    width: int
    run: Callable[[TaskInput, int, Iterator[bytes], int], Packets]


class Ranker(Protocol):
    """A ranking scheme on Spark."""

    def stages(self, work: TaskInput) -> list[Stage]:
        """The stages in which the tasks of a step run; the same on the driver and in tasks."""
        ...


def buckets_of(ids: pa.Array) -> npt.NDArray[np.int64]:
    """The bucket of each id."""
    hashes = np.empty((len(ids), 2), np.uint64)
    hash_strings(*buffers(ids), hashes)
    return (hashes[:, 1] >> np.uint64(40)).astype(np.int64) % BUCKETS


def evenly(workers: int) -> Buckets:
    """Assign all buckets evenly to `workers` workers."""
    return (np.arange(BUCKETS) * workers // BUCKETS).astype(np.int16)
