"""What a pipeline remembers from step to step, and how it finds it again after a stop.

The history is a base, the subscriptions as they were after one step, and the logs of the steps
since. From it the registrar and every shard can be made again. When the logs have grown as long as
the base, it is written anew and they go.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.engine.settings import Settings
from nearcast.errors import SourceError
from nearcast.index.table import Int32s
from nearcast.partition.plan import Plan
from nearcast.spark.ledger import Ledger
from nearcast.spark.node import Step
from nearcast.spark.operations import END, LOG
from nearcast.spark.placing import Placed, place, place_base, place_whole
from nearcast.spark.registrar import Registrar, hash_ids
from nearcast.spark.state import Commit, State

FIRST = Step(0, "start")
_WORTH_REBASING = 100_000

Reread = Callable[[Commit, Registrar], pa.Table]
"""Reads the events of a step once more, to make its log again."""


def next_step(before: Step, sums: list[int]) -> Step:
    """The step after another, told from any that might have had its number by what it did."""
    text = f"{before.key} {sums}".encode()
    return Step(before.number + 1, hashlib.blake2b(text, digest_size=8).hexdigest())


class History:
    """The registrar, the plan, and the steps since the base."""

    def __init__(self, state: State, settings: Settings, reread: Reread) -> None:
        self.state = state
        self.settings = settings
        self.registrar = Registrar(settings)
        self.plan: Plan | None = None
        self.steps: list[Step] = [FIRST]
        self.last: Commit | None = None
        self._alive: npt.NDArray[np.bool_] = np.zeros(1024, np.bool_)  # by owner
        self.since_base = 0
        self._ended: Int32s = np.empty(0, np.int32)  # owners that ended in the last step
        self._gone = LOG.empty_table()  # and what they were: their numbers are used again
        if state.commits():
            self._recover(reread)

    @property
    def step(self) -> Step:
        """The last step that is done."""
        return self.steps[-1]

    def _recover(self, reread: Reread) -> None:
        commits = {number: self.state.commit(number) for number in self.state.commits()}
        self.last = last = commits[max(commits)]
        base, begun = self._base(last.step)
        self.registrar.remember(begun)
        self._begin(begun["owner"].to_numpy())
        self.steps = [Step(base, commits[base].key) if base else FIRST]
        for number in range(base + 1, last.step + 1):
            commit = commits[number]
            log = self.state.read_log(number, commit.log)
            if log is None:
                log = self._read_again(commit, reread)
            self.registrar.remember(log)
            self._follow(log, Step(number, commit.key))
        self._gone = self.registrar.definitions(self._ended)
        self.registrar.ledger = self._ledger(last.step, last.now)
        if last.plan:
            self.plan = self.state.plan(last.plan)
            self._check_routed()

    def _base(self, last: int) -> tuple[int, pa.Table]:
        """The latest base that is whole; the beginning of all if the logs go back to it."""
        for step in reversed([step for step in self.state.definitions() if step <= last]):
            begun = self.state.read_definitions(step)
            if begun is not None:
                return step, begun
        if self.state.commits()[0] > 1:
            raise SourceError(
                f"{self.state.path}: the subscriptions it held are damaged and older logs are "
                "gone; restore the folder definitions, or start again with an empty folder"
            )
        return 0, LOG.empty_table()

    def _read_again(self, commit: Commit, reread: Reread) -> pa.Table:
        """Make a log that was lost from the events it came from."""
        before = commit.step - 1
        then = self.state.commit(before).now if before else np.nan
        self.registrar.ledger = self._ledger(before, then)
        log = reread(commit, self.registrar)
        if self.state.write_log(commit.step, log) != commit.log:
            raise SourceError(
                f"{self.state.path}/log/{commit.step:09}.arrow: damaged, and the events it was "
                "made from have changed since; restore one of them"
            )
        return log

    def _ledger(self, step: int, now: float | None) -> Ledger:
        window = self.settings.window
        parts = [self.state.read_window(n) for n in self.state.windows() if n <= step]
        entries = np.concatenate([np.empty((0, 3), np.uint64), *parts])
        if window.seconds is None:
            entries = entries[max(0, len(entries) - (window.count or 0)) :]
        ids = hash_ids(self.registrar.definitions(self.live)["id"].combine_chunks())
        kept = {
            "now": np.array([np.nan if now is None else now]),
            "ring": np.ascontiguousarray(entries[:, :2]),
            "ring_times": np.ascontiguousarray(entries[:, 2]).view(np.float64),
        }
        return Ledger.restored(window, kept, ids, self.live, self._ended)

    def _follow(self, log: pa.Table, step: Step) -> None:
        ends = pc.equal(log["kind"], END)
        self._ended = log.filter(ends)["owner"].to_numpy()
        begun = log.filter(pc.invert(ends))["owner"].to_numpy()
        self._begin(begun)
        self._alive[self._ended] = False
        self.since_base += len(log)
        self.steps.append(step)

    def _begin(self, owners: Int32s) -> None:
        most = int(owners.max(initial=-1)) + 1
        if most > len(self._alive):
            more = np.zeros(max(most, 2 * len(self._alive)) - len(self._alive), np.bool_)
            self._alive = np.concatenate([self._alive, more])
        self._alive[owners] = True

    @property
    def live(self) -> Int32s:
        """The owners of all subscriptions there are."""
        return np.flatnonzero(self._alive).astype(np.int32)

    def count(self, log: pa.Table) -> int:
        """How many subscriptions there will be after a step with this log."""
        ends = int(pc.sum(pc.equal(log["kind"], END)).as_py() or 0)
        return int(self._alive.sum()) + len(log) - 2 * ends

    def placed(self, log: pa.Table) -> Placed:
        """Cut up the log of the next step by the plan."""
        assert self.plan is not None  # noqa: S101 - steps are placed once there is a plan
        if self.plan.kind == "shared":
            return place_whole(self.plan, log)
        owners = log.filter(pc.equal(log["kind"], END))["owner"].to_numpy()
        ended = self.registrar.definitions(owners)
        placed = place(self.plan, log, ended, self._gone)
        self._gone = ended
        return placed

    def done(self, commit: Commit, log: pa.Table, key: str) -> None:
        """Take note of a step that is committed."""
        self.last = commit
        self._follow(log, Step(commit.step, key))

    def adopt(self, plan: Plan) -> None:
        """Go on by another plan: all shards are cut anew, from what there is now."""
        self.plan = plan
        self.state.write_plan(plan)
        self._write_base(self.registrar.definitions(self.live))

    def rebase(self) -> None:
        """Write all subscriptions, so that older logs are not needed any more."""
        begun = self.registrar.definitions(self.live)
        self._write_base(begun)
        self.registrar.start_from(begun)

    def _write_base(self, begun: pa.Table) -> None:
        assert self.plan is not None  # noqa: S101 - a base is for a plan
        number = self.step.number
        if self.plan.kind == "shared":
            placed = place_whole(self.plan, begun)
        else:
            # What ended with the last step is wanted until the next one says that it is not.
            placed = place_base(self.plan, begun, self._gone)
        self.state.write_routed(self.plan.number, f"base-{number:09}", placed)
        if number:
            self.state.write_definitions(number, begun)
            self.state.forget_before(number)
        self.steps = [self.step]
        self.since_base = 0

    def worth_rebasing(self) -> bool:
        """Whether the logs have become as long as what they change."""
        return self.since_base > max(_WORTH_REBASING, int(self._alive.sum()))

    def _check_routed(self) -> None:
        """Cut logs up again whose parts for the shards are not whole."""
        assert self.plan is not None  # noqa: S101 - called when there is one
        number = self.plan.number
        names = [f"base-{self.steps[0].number:09}", *(f"{s.number:09}" for s in self.steps[1:])]
        if all(self.state.has_routed(number, name) for name in names):
            return
        # The parts only follow from the history: start from here instead of mending each.
        self.adopt(self.plan.changed(number=max(self.state.plans()) + 1))
