"""What a pipeline remembers from step to step, and how it finds it again after a stop.

The history is a base, the subscriptions and active messages as they were after one step, and the
logs of the steps since. From it the registrar and every shard can be made again. When the logs have
grown as long as the base, it is written anew and they go.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Int32s
from nearcast.engine.settings import Settings
from nearcast.errors import SourceError
from nearcast.partition.plan import Plan
from nearcast.spark.actives import Actives
from nearcast.spark.carrying import Carried, carry
from nearcast.spark.census import Census
from nearcast.spark.ledger import Ledger
from nearcast.spark.node import LogStep
from nearcast.spark.operations import (
    BEGUN,
    END,
    LASTING,
    LOG,
    RANKED,
    BegunSubscriptions,
    begins,
    begun_in,
    completed,
    ended_in,
    of_kind,
    ranks,
    unranked,
)
from nearcast.spark.placing import PlacedStep, place, place_base, place_whole
from nearcast.spark.ranked.window import WindowLog
from nearcast.spark.recent import RecentIds
from nearcast.spark.registrar import Reading, Registrar, hash_ids
from nearcast.spark.state import Commit, PipelineState
from nearcast.spark.versions import Meeting, differing, line_of, started

FIRST = LogStep(0, "start")
_ALL = 2**62

Reread = Callable[[Commit, Registrar, int], Reading]
"""Reads the events of a step once more, those from a sequence number on, to make its log again."""


@dataclass(frozen=True)
class Upkeep:
    """When a pipeline makes its state shorter."""

    snapshot_every: int = 250_000
    """Operations after which shards are written as they are."""
    rebase_every: int = 100_000
    """Operations after which all subscriptions are written, if there are not even more of them."""
    most_steps: int = 2_000
    """Steps after which they are written in any case: each step leaves some files behind."""


def next_step(before: LogStep, sums: list[int], version: int | None = None) -> LogStep:
    """The step after another, told from any that might have had its number by what it did.

    A step with which another version of the routing table takes over is told by that too.
    """
    text = f"{before.key} {sums}{'' if version is None else f' {version}'}".encode()
    return LogStep(before.number + 1, hashlib.blake2b(text, digest_size=8).hexdigest())


class History:
    """The registrar, the plan, and the steps since the base."""

    def __init__(
        self, state: PipelineState, settings: Settings, reread: Reread, upkeep: Upkeep | None = None
    ) -> None:
        self.state = state
        self.settings = settings
        self.upkeep = upkeep or Upkeep()
        self.recent = RecentIds(state.files, settings.window)
        self.window = WindowLog(state.files)
        self._oldest = self._newest = 0  # of the window after the last step, as `before` has them
        self.registrar = Registrar(settings)
        self.plan: Plan | None = None
        self.steps: list[LogStep] = [FIRST]
        self.last: Commit | None = None
        self._alive: npt.NDArray[np.bool_] = np.zeros(1024, np.bool_)  # by owner
        self._ranked: npt.NDArray[np.bool_] = np.zeros(1024, np.bool_)  # those that are top-k
        self.since_base = 0
        self._ended: Int32s = np.empty(0, np.int32)  # owners that ended in the last step
        self.actives = Actives()
        self._gone = BEGUN.empty_table()  # and what they were: their numbers are used again
        self.census: Census | None = None  # of a plan with cells
        self._changes = BEGUN.empty_table()  # of the step that was placed last
        self.pending = state.pending()
        state.sweep()
        self.last = self._last_commit()
        if self.last is not None:
            self._recover(self.last, reread)
        if self.pending is not None and self.pending.step != self.step.number + 1:
            self.pending = None  # it is done

    @property
    def step(self) -> LogStep:
        """The last step that is done."""
        return self.steps[-1]

    def _last_commit(self) -> Commit | None:
        """The last step that is done; if its commit is damaged, the one before it.

        That may be done if the step can be taken again, with the same events.
        """
        numbers = self.state.commits()
        if not numbers:
            return None
        try:
            return self.state.commit(numbers[-1])
        except SourceError:
            known = self.pending is not None and self.pending.step == numbers[-1]
            if not known or numbers[-1] in self.state.definitions():
                raise
        return self.state.commit(numbers[-2]) if len(numbers) > 1 else None

    def _recover(self, last: Commit, reread: Reread) -> None:
        base, found = self._base(last.step)
        self.registrar.remember(found)
        self._begin(found)
        self.actives.follow(found)
        before = self.state.commit(base) if base else None
        self.steps = [LogStep(base, before.key) if before else FIRST]
        for number in range(base + 1, last.step + 1):
            commit = self.state.commit(number)
            log = self.state.read_log(number, commit.log)
            if log is None or self.recent.damaged(number) or self.window.damaged(number):
                log = self._read_again(commit, before, reread)
            else:
                self.registrar.remember(log)
            self._follow(log, LogStep(number, commit.key))
            before = commit
        self._gone = unranked(self.registrar.definitions(self._ended))
        self.registrar.ledger = self._ledger(last.step, last)
        self._oldest, self._newest = self.registrar.ledger.first, self.registrar.ledger.next
        if not last.messages and self._newest:
            self.window.skip(last.step, self._newest)
        self.window.recover(last.step, self._oldest, self._newest, self.ranked > 0)
        if last.plan:
            self._find_plan(last.plan)

    def _find_plan(self, number: int) -> None:
        """Take up the plan of the last step; without one, another is made with the next step."""
        try:
            self.plan = self.state.plan(number)
        except SourceError as error:
            logging.getLogger("nearcast.spark").warning("%s; it is made anew", error)
            return
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

    def _read_again(self, commit: Commit, before: Commit | None, reread: Reread) -> pa.Table:
        """Make a log that was lost from the events it came from, and the ids of its messages."""
        name = f"{self.state.path}/log/{commit.step:09}.arrow"
        self.registrar.ledger = self._ledger(commit.step - 1, before)
        try:
            reading = reread(commit, self.registrar, before.next_seq if before else 0)
        except SourceError as error:
            raise SourceError(
                f"{name}, or what belongs to it, is damaged, and the events it was made from are "
                f"gone ({error}); restore one of them, or start again with an empty folder as state"
            ) from None
        if self.state.write_log(commit.step, reading.log) != commit.log:
            raise SourceError(
                f"{name}: damaged, and the events it was made from have changed since; restore one "
                "of them, or start again with an empty folder as state"
            )
        self.keep_messages(commit.step, reading)
        return reading.log

    def keep_messages(self, step: int, reading: Reading) -> None:
        """Write the messages of a step that was just read, and their ids."""
        ledger, count = self.registrar.ledger, reading.points
        if count:
            self.recent.keep(step, ledger.recent(count))
        self.window.keep(step, reading, ledger.first, ledger.next, self.ranks_in(reading.log))

    @property
    def before(self) -> tuple[int, int]:
        """The messages of the window after the last step that is done: from which to before which.

        The registrar may have read the step that follows.
        """
        return self._oldest, self._newest

    def ranks_in(self, log: pa.Table) -> bool:
        """Whether there are top-k subscriptions before or in a step with this log."""
        return self.ranked > 0 or RANKED in log["kind"].to_numpy()

    def _ledger(self, step: int, last: Commit | None) -> Ledger:
        window, now = self.settings.window, None if last is None else last.now
        entries = self.recent.entries(step)
        times = np.ascontiguousarray(entries[:, 2]).view(np.float64)
        if window.seconds is None:
            entries = entries[max(0, len(entries) - (window.count or 0)) :]
        elif now is not None:
            entries = entries[times > now - window.seconds]
        ids = hash_ids(self.registrar.definitions(self.live)["id"].combine_chunks())
        active = self.actives.at(-np.inf if now is None else now)
        kept = {
            "active": hash_ids(active["id"].combine_chunks()),
            "until": active["end"].to_numpy().copy(),
            "now": np.array([np.nan if now is None else now]),
            "next": np.array([0 if last is None else last.messages]),
            "ring": np.ascontiguousarray(entries[:, :2]),
            "ring_times": np.ascontiguousarray(entries[:, 2]).view(np.float64),
        }
        ranked = np.flatnonzero(self._alive & self._ranked).astype(np.int32)
        return Ledger.restored(window, kept, ids, self.live, self._ended, ranked)

    def _follow(self, log: pa.Table, step: LogStep) -> None:
        self._ended = ended_in(log)
        self._begin(log)
        self._alive[self._ended] = False
        self.actives.follow(log)
        self.since_base += len(log)
        self.steps.append(step)

    def _begin(self, log: pa.Table) -> None:
        begun = begun_in(log)
        owners, kinds = begun["owner"].to_numpy(), begun["kind"].to_numpy()
        more = int(owners.max(initial=-1)) + 1 - len(self._alive)
        if more > 0:
            room = np.zeros(max(more, len(self._alive)), np.bool_)
            self._alive = np.concatenate([self._alive, room])
            self._ranked = np.concatenate([self._ranked, room])
        self._alive[owners] = True
        self._ranked[owners] = kinds == RANKED

    @property
    def live(self) -> Int32s:
        """The owners of all subscriptions there are."""
        return np.flatnonzero(self._alive).astype(np.int32)

    @property
    def booleans(self) -> Int32s:
        """The owners of those that are not top-k."""
        return np.flatnonzero(self._alive & ~self._ranked).astype(np.int32)

    @property
    def is_ranked(self) -> npt.NDArray[np.bool_]:
        """By owner, whether it is that of a top-k subscription."""
        return self._alive & self._ranked

    @property
    def ranked(self) -> int:
        """How many top-k subscriptions there are."""
        return int(self.is_ranked.sum())

    def count(self, log: pa.Table) -> int:
        """How many subscriptions there will be after a step with this log."""
        return int(self._alive.sum() + begins(log).sum()) - len(ended_in(log))

    def count_ranked(self, log: pa.Table) -> int:
        """How many of them are top-k."""
        some = log.filter(pa.array(ranks(log)))
        begun = int((some["kind"].to_numpy() == RANKED).sum())
        return self.ranked + 2 * begun - len(some)

    @property
    def _now(self) -> float:
        """The time after the last step that is done."""
        return -np.inf if self.last is None or self.last.now is None else self.last.now

    @property
    def active(self) -> int:
        """How many messages are active after the last step that is done."""
        return self.actives.count(self._now)

    def follow_with(self, plan: Plan) -> Carried:
        """Let another version of the line take over with the next step; say what is carried."""
        before = self.plan
        assert before is not None  # noqa: S101 - a version follows another
        self.state.write_plan(plan)
        self.plan = plan
        cells = differing(before, plan)
        met = Meeting(plan.grid, cells)
        begun = self.registrar.definitions(self.registrar.known.near(self.booleans, met))
        return carry(before, plan, len(cells), begun, self.actives.at(self._now))

    def placed(
        self, log: pa.Table, changes: BegunSubscriptions, carried: Carried | None = None
    ) -> PlacedStep:
        """Cut up the log of the next step by the plan; what is carried comes before it."""
        assert self.plan is not None  # noqa: S101 - steps are placed once there is a plan
        log = unranked(log)
        if not self.active and LASTING not in log["kind"].to_numpy():
            changes = BegunSubscriptions.none()  # nothing was a result, nor is
        if self.plan.kind == "shared":
            return place_whole(self.plan, log, changes)
        owners = of_kind(log, END)["owner"].to_numpy()
        ended = self.registrar.definitions(owners)
        placed = place(self.plan, log, ended, self._gone, changes)
        self._gone = ended
        self._changes = placed.changes
        return placed if carried is None else placed.after(carried.shards)

    def done(self, commit: Commit, log: pa.Table, key: str) -> None:
        """Take note of a step that is committed."""
        # Ids go one step late, so that the last step could be taken once more.
        if self.last is not None:
            then = self.last.now
            self.recent.forget(self.last.step, np.nan if then is None else then)
        self.window.forget(self._oldest)  # and so do messages
        self._oldest, self._newest = self.registrar.ledger.first, self.registrar.ledger.next
        self.last = commit
        self._follow(log, LogStep(commit.step, key))
        self.actives.forget(self._now)
        if self.census is not None:
            self.census.change(self._changes)
            self.census.write(self.state, lambda: self.actives.boxes(self._now))

    def adopt(self, plan: Plan) -> None:
        """Go on by another plan: all shards are cut anew, from what there is now."""
        self.plan = plan
        self.state.write_plan(plan)
        self._write_base(self.registrar.definitions(self.live))

    def rebase(self) -> None:
        """Write all there is, so that older logs are not needed any more."""
        begun = self.registrar.definitions(self.live)
        self._write_base(begun)
        self.registrar.start_from(begun)
        self.recent.keep_whole(self.step.number, self.registrar.ledger.recent(_ALL))
        assert self.last is not None  # noqa: S101 - there is a step
        self.state.forget_commits(self.last.step, self.last.batch)
        self.forget_versions()

    def forget_versions(self) -> None:
        """Remove plans that are not used any more, also not if the last commit is damaged."""
        assert self.plan is not None  # noqa: S101 - there is a step
        commits = [self.state.commit(number) for number in self.state.commits()[-2:]]
        self.state.forget_plans({line_of(self.plan), *(commit.plan for commit in commits)})

    def _write_base(self, begun: pa.Table) -> None:
        assert self.plan is not None  # noqa: S101 - a base is for a plan
        number = self.step.number
        everything = pa.concat_tables([completed(begun, LOG), self.actives.at(self._now)])
        if self.plan.kind == "shared":
            placed = place_whole(self.plan, unranked(everything))
        else:
            # What ended with the last step is wanted until the next one says that it is not.
            placed = place_base(self.plan, unranked(everything), self._gone)
        self._count(placed.changes)
        self.state.write_routed(line_of(self.plan), f"base-{number:09}", placed, self._gone)
        if number:
            self.state.write_definitions(number, everything)
            self.state.forget_before(number)
        self.steps = [self.step]
        self.since_base = 0

    def _count(self, *changes: pa.Table) -> None:
        """Count what is in each cell anew; the messages are kept while the plan is."""
        plan, before = self.plan, self.census
        if plan is None or plan.kind != "grid":
            self.census = None
            return
        line = line_of(plan)
        self.census = Census(plan.grid, line)
        if before is None:
            self.census.recall(self.state)
        elif before.plan == line:
            self.census.messages = before.messages
        for change in changes:
            self.census.change(change)

    def worth_rebasing(self) -> bool:
        """Whether the logs have become as long as what they change, or very many."""
        return len(self.steps) > self.upkeep.most_steps or (
            self.since_base > max(self.upkeep.rebase_every, int(self._alive.sum()) + self.active)
        )

    def snapshots(self) -> dict[str, int]:
        """The last snapshot of each shard of the plan that the history can go on from."""
        if self.plan is None:
            return {}
        numbers = {step.number for step in self.steps}
        found = {}
        for holder in self.state.files.names("snapshots"):
            if holder.split("-")[0] == str(line_of(self.plan)):
                names = self.state.files.names(f"snapshots/{holder}")
                steps = [int(name) for name in names if name.isdigit() and int(name) in numbers]
                if steps:
                    found[holder] = max(steps)
        return found

    def _check_routed(self) -> None:
        """Cut logs up again whose parts for the shards are not whole."""
        assert self.plan is not None  # noqa: S101 - called when there is one
        number = line_of(self.plan)
        names = [f"base-{self.steps[0].number:09}", *(f"{s.number:09}" for s in self.steps[1:])]
        if all(self.state.has_routed(number, name) for name in names):
            if len(names) == 1:  # no log tells what the base has although it had ended
                self._gone = self.state.read_gone(number, names[0])
            self._count(*(self.state.read_changes(number, name) for name in names))
            return
        # The parts only follow from the history: start from here instead of mending each.
        self.adopt(started(self.plan, max(self.state.plans()) + 1))
