"""What workers and cells had to do lately, as the driver hears of it, and some recent messages.

That is all that is needed to even a plan out. It is written down now and then, only to be looked
at, and for whoever evens the plan out by hand; it is never waited for.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.errors import SourceError
from nearcast.index.table import Floats
from nearcast.partition.adjust.meter import Meter
from nearcast.partition.grid import count_cells
from nearcast.partition.plan import Plan
from nearcast.partition.sample import SampleMessages, joined_messages
from nearcast.spark.messages import Texts
from nearcast.spark.report import WorkerReport
from nearcast.spark.sealed import seal, unseal
from nearcast.spark.state import State, packed

MOST_OF_A_STEP = 2_000
"""So many messages of a step are kept at most, evenly spread over it."""

_MOST_MESSAGES = 10_000
_MOST_S = 60.0  # older messages say little about what comes
_EVERY_S = 5.0
_HALF_LIFE_S = 30.0
_MOST_TIMES = 4.0
_LOADS, _RECENT = "loads.json", "recent.arrow"
_MESSAGES = pa.schema([("box", pa.list_(pa.float64(), 4)), ("terms", pa.list_(pa.uint64()))])


class Measured(NamedTuple):
    """What was measured: for the version of a plan, and messages that came lately."""

    plan: int
    workers: Meter
    cells: Meter
    messages: SampleMessages


class Loads:
    """Counters for the workers and cells of a plan; those of workers begin anew with a version."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._plan = -1
        self._at = 0.0
        self._written = -np.inf
        self.workers, self.cells = Meter(1), Meter(1)
        self._lately: Floats = np.empty(0)  # by worker: the CPU of a step, in nanoseconds
        self._recent: deque[tuple[float, SampleMessages]] = deque()

    def recall(self, plan: Plan) -> None:
        """Take up what was written last, as far as it is about this plan."""
        found = read_loads(self._state)
        if found is None:
            return
        if len(found.workers) == plan.workers and len(found.cells) == plan.grid.cells:
            if found.plan == plan.number:
                self._plan, self.workers = found.plan, found.workers
            self.cells = found.cells
        self._recent.append((-np.inf, found.messages))

    def observe(
        self,
        plan: Plan,
        at: float,
        workers: Sequence[WorkerReport],
        boxes: Floats,
        sample: Texts | None,
    ) -> None:
        """Count a step: what its workers did, where its messages were, and some of those."""
        self._at = max(at, self._at)
        if self._plan != plan.number or len(self.workers) != plan.workers:
            self._plan, self.workers = plan.number, Meter(plan.workers, _HALF_LIFE_S)
        if len(self.cells) != plan.grid.cells:
            self.cells = Meter(plan.grid.cells, _HALF_LIFE_S)
        counts = np.zeros((4, plan.workers))
        for one in workers:
            counts[:, one.worker] += one.messages, one.candidates, one.operations, 1e9 * one.load
        messages, candidates, operations, busy_ns = counts
        busy_ns = self._usual(busy_ns)
        self.workers.add(
            self._at, messages=messages, candidates=candidates, operations=operations,
            busy_ns=busy_ns,
        )  # fmt: skip
        came = np.zeros(plan.grid.cells, np.int64)
        count_cells(plan.grid, boxes, came)
        self.cells.add(self._at, messages=came.astype(np.float64))
        if sample is not None:
            fresh = SampleMessages(sample.messages.boxes, *sample.messages.texts)
            self._recent.append((self._at, fresh))
            self._forget()

    def _usual(self, busy_ns: Floats) -> Floats:
        """What workers took, but of a worker at most a few times what it took lately.

        Once in a while one has to load or compile something; that is no load that cells have.
        """
        if len(self._lately) != len(busy_ns):
            self._lately = busy_ns
        known = self._lately > 0
        busy_ns = np.where(known, np.minimum(busy_ns, _MOST_TIMES * self._lately), busy_ns)
        self._lately = np.where(known, 0.8 * self._lately + 0.2 * busy_ns, busy_ns)
        return busy_ns

    def _forget(self) -> None:
        """Forget messages that are old, or of which there are enough later ones."""
        count = sum(some.size for _, some in self._recent)
        while len(self._recent) > 1:
            at, oldest = self._recent[0]
            if count - oldest.size < _MOST_MESSAGES and self._at - at < _MOST_S:
                return
            self._recent.popleft()
            count -= oldest.size

    def measured(self) -> Measured:
        """All that is known."""
        return Measured(self._plan, self.workers, self.cells, self._messages())

    def _messages(self) -> SampleMessages:
        return _joined([some for _, some in self._recent])

    def write(self) -> None:
        """Write it down, if that was not done just now."""
        now = time.monotonic()
        if now - self._written < _EVERY_S:
            return
        self._written = now
        told = {"plan": self._plan, "workers": self.workers.to_json()}
        busy = np.flatnonzero(self.cells.counted("messages") > 0)
        told["cells"] = {
            "of": len(self.cells),
            "cell": busy.tolist(),
            "messages": self.cells.counted("messages")[busy].round(3).tolist(),
        }
        self._state.files.write(_LOADS, seal(told), lasting=False)
        data = packed([_table(self._messages())], _MESSAGES)
        self._state.files.write(_RECENT, data, lasting=False)


def read_loads(state: State) -> Measured | None:
    """What was written last, or nothing if there is nothing, or nothing whole."""
    try:
        told: dict[str, Any] = unseal(state.files.read(_LOADS))
        with pa.ipc.open_file(state.files.map(_RECENT)) as reader:
            messages = _messages(reader.read_all())
        counts = np.zeros(told["cells"]["of"])
        counts[told["cells"]["cell"]] = told["cells"]["messages"]
        cells = Meter(len(counts))
        workers = Meter.from_json(told["workers"])
        cells.add(told["workers"]["at"], messages=counts)
    except (SourceError, OSError, ValueError, KeyError, TypeError, pa.ArrowInvalid):
        return None
    return Measured(told["plan"], workers, cells, messages)


def _joined(parts: Sequence[SampleMessages]) -> SampleMessages:
    nothing = SampleMessages(np.empty((0, 4)), np.zeros(1, np.int64), np.empty(0, np.uint64))
    return joined_messages([nothing, *parts])


def _table(messages: SampleMessages) -> pa.Table:
    lists = pa.ListArray.from_arrays(
        pa.array(messages.starts.astype(np.int32)), pa.array(messages.terms)
    )
    boxes = pa.FixedSizeListArray.from_arrays(pa.array(messages.boxes.reshape(-1)), 4)
    return pa.Table.from_arrays([boxes, lists], schema=_MESSAGES)


def _messages(table: pa.Table) -> SampleMessages:
    table = table.combine_chunks()
    if not len(table):
        return _joined([])
    lists = table["terms"].chunk(0)
    starts = lists.offsets.to_numpy().astype(np.int64)
    return SampleMessages(
        table["box"].chunk(0).flatten().to_numpy().reshape(-1, 4).copy(),
        starts - starts[0],
        lists.values.to_numpy()[starts[0] : starts[-1]].copy(),
    )
