"""Recent loads of workers and cells, as measured by the driver, and some recent messages.

That is all that is needed to balance a plan. It is written to the state now and then, for display
and for adjustments by hand, without waiting for the disk.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats
from nearcast.errors import SourceError
from nearcast.partition.adjust.meter import FIELDS, Meter
from nearcast.partition.grid import count_cells
from nearcast.partition.plan import Plan
from nearcast.partition.sample import SampleMessages, joined_messages
from nearcast.spark.driver.planning import COSTS
from nearcast.spark.driver.state import PipelineState, packed
from nearcast.spark.operations import boxes_in, fixed_lists, hash_lists, lists_in
from nearcast.spark.packed import SAMPLE
from nearcast.spark.reports.report import WorkerReport
from nearcast.spark.sealed import seal, unseal

MOST_OF_A_STEP = 5_000
"""At most how many messages of a step are kept, evenly spread over it."""

_MOST_MESSAGES = 20_000
_MOST_S = 60.0  # older messages say little about what comes
_EVERY_S = 5.0
_HALF_LIFE_S = 30.0
_LOADS, _RECENT = "loads.json", "recent.arrow"


class Measured(NamedTuple):
    """Loads measured with one version of a plan, and a sample of the messages in that time.

    `came` is how many messages there were.
    """

    plan: int
    workers: Meter
    cells: Meter
    messages: SampleMessages
    came: float

    @property
    def share(self) -> float:
        """The share of the messages that is in the sample."""
        return min(self.messages.size / max(self.came, 1.0), 1.0)


class _Some(NamedTuple):
    """A sample of the messages of a step."""

    at: float
    step: int
    came: int
    messages: SampleMessages


class _Window(NamedTuple):
    """The loads of workers in consecutive steps."""

    first: int
    workers: Meter


class LoadCounters:
    """Counters for the workers and cells of a plan; those of workers restart with each version.

    They are kept twice: fading with time, for display, and window by window, for decisions. A
    window lasts until enough messages have arrived, so its loads are recent and yet no accident,
    whether batches are large or small.
    """

    def __init__(self, state: PipelineState) -> None:
        self._state = state
        self._plan = -1
        self._at = 0.0
        self._step = 0
        self._windows: list[_Window] = []  # the last ones that are full, and the one being filled
        self._written = -np.inf
        self.workers, self.cells = Meter(1), Meter(1)
        self._recent: deque[_Some] = deque()

    def recall(self, plan: Plan) -> None:
        """Restore what was written last, as far as it is about this plan."""
        found = read_loads(self._state)
        if found is None:
            return
        if len(found.workers) == plan.workers and len(found.cells) == plan.grid.cells:
            if found.plan == plan.number:
                self._plan, self.workers = found.plan, found.workers
            self.cells = found.cells
        self._recent.append(_Some(-np.inf, -1, found.messages.size, found.messages))

    def observe(
        self,
        plan: Plan,
        at: float,
        workers: Sequence[WorkerReport],
        boxes: Floats,
        sample: SampleMessages | None,
    ) -> None:
        """Count a step: what its workers did, where its messages were, and some of those."""
        self._at = max(at, self._at)
        self._step += 1
        if self._plan != plan.number or len(self.workers) != plan.workers:
            self._plan, self.workers = plan.number, Meter(plan.workers, _HALF_LIFE_S)
            self._windows.clear()
        if not self._windows:
            self._windows.append(_Window(self._step, Meter(plan.workers, np.inf)))
        if len(self.cells) != plan.grid.cells:
            self.cells = Meter(plan.grid.cells, _HALF_LIFE_S)
        counted = {name: np.zeros(plan.workers) for name in FIELDS}
        for one in workers:
            for name in FIELDS[:-1]:
                counted[name][one.worker] += getattr(one, name)
            counted["busy_ns"][one.worker] += 1e9 * one.load
        for meter in (self.workers, self._windows[-1].workers):
            meter.add(self._at, **counted)
        came = np.zeros(plan.grid.cells, np.int64)
        count_cells(plan.grid, boxes, came)
        self.cells.add(self._at, messages=came.astype(np.float64))
        if sample is not None:
            self._recent.append(_Some(self._at, self._step, len(boxes), sample))
            self._forget()

    def _forget(self) -> None:
        """Drop messages that are old, or that are not needed because enough newer ones are kept."""
        count = sum(some.messages.size for some in self._recent)
        while len(self._recent) > 1:
            oldest = self._recent[0]
            fewer = count - oldest.messages.size
            if fewer < _MOST_MESSAGES and self._at - oldest.at < _MOST_S:
                return
            self._recent.popleft()
            count = fewer

    def full_window(self, messages: float) -> Floats | None:
        """The loads of workers in a window of `messages` messages; None until it is full.

        Each window is given once, and the next begins.
        """
        if not self._windows:
            return None
        now = self._windows[-1].workers
        if now.counted("messages").sum() < messages:
            return None
        following = _Window(self._step + 1, Meter(len(now), np.inf))
        self._windows = [*self._windows[-2:], following]
        return now.loads(COSTS)

    def lately(self) -> Measured:
        """What was measured in the last full windows; earlier loads no longer count."""
        first, workers = self._windows[0]
        for _, more in self._windows[1:]:
            workers = workers.merged(more)
        some = [each for each in self._recent if each.step >= first]
        messages = _joined([each.messages for each in some])
        came = float(sum(each.came for each in some))
        return Measured(self._plan, workers, self.cells, messages, came)

    def messages_by_cell(self, plan: Plan) -> Floats:
        """How many messages arrived recently, by cell of a plan."""
        if len(self.cells) != plan.grid.cells:
            return np.zeros(plan.grid.cells)
        return self.cells.counted("messages")

    def write(self) -> None:
        """Write the loads to the state, at most every few seconds."""
        now = time.monotonic()
        if now - self._written < _EVERY_S:
            return
        self._written = now
        stored = {"plan": self._plan, "workers": self.workers.to_json()}
        busy = np.flatnonzero(self.cells.counted("messages") > 0)
        stored["cells"] = {
            "of": len(self.cells),
            "cell": busy.tolist(),
            "messages": self.cells.counted("messages")[busy].round(3).tolist(),
        }
        self._state.files.write(_LOADS, seal(stored), durable=False)
        messages = _joined([some.messages for some in self._recent])
        columns = [fixed_lists(messages.boxes), hash_lists(messages.starts, messages.terms)]
        data = packed([pa.Table.from_arrays(columns, schema=SAMPLE)], SAMPLE)
        self._state.files.write(_RECENT, data, durable=False)


def read_loads(state: PipelineState) -> Measured | None:
    """What was written last, or None if there is nothing, or it is damaged."""
    try:
        stored: dict[str, Any] = unseal(state.files.read(_LOADS))
        with pa.ipc.open_file(state.files.map(_RECENT)) as reader:
            messages = messages_in(reader.read_all())
        counts = np.zeros(stored["cells"]["of"])
        counts[stored["cells"]["cell"]] = stored["cells"]["messages"]
        cells = Meter(len(counts))
        workers = Meter.from_json(stored["workers"])
        cells.add(stored["workers"]["at"], messages=counts)
    except (SourceError, OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid):
        return None
    return Measured(stored["plan"], workers, cells, messages, float(counts.sum()))


def _joined(parts: Sequence[SampleMessages]) -> SampleMessages:
    nothing = SampleMessages(np.empty((0, 4)), np.zeros(1, np.int64), np.empty(0, np.uint64))
    return joined_messages([nothing, *parts])


def messages_in(sample: pa.Table) -> SampleMessages:
    """The messages of a sample, as readers pack it."""
    return SampleMessages(boxes_in(sample), *lists_in(sample["terms"]))
