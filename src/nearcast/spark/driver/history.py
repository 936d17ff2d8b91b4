"""The history of a pipeline: what it keeps from step to step, and how it recovers after a stop.

The history is a base, the subscriptions and active messages as they were after one step, and the
logs of the steps since. The registrar and every shard can be rebuilt from it. When the logs have
grown as long as the base, a new base is written and the logs are removed.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.slots import as_secret
from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.settings import Settings
from nearcast.errors import SourceError
from nearcast.partition.adjust.versions import Meeting, differing, line_of, started
from nearcast.partition.grid import weigh_cells
from nearcast.partition.plan import Plan
from nearcast.spark.driver.actives import Actives
from nearcast.spark.driver.carrying import Carried, carry
from nearcast.spark.driver.placing import (
    PlacedStep,
    past_messages,
    place,
    place_base,
    place_whole,
)
from nearcast.spark.driver.recent import RecentIds
from nearcast.spark.driver.state import Commit, PipelineState
from nearcast.spark.driver.window_log import LivingMessages, WindowLog
from nearcast.spark.ledger import Ledger, StandingIds
from nearcast.spark.operations import (
    BEGUN,
    END,
    EVERYONE,
    LASTING,
    LOG,
    RANKED,
    BegunSubscriptions,
    begins,
    begun_in,
    boxes_in,
    completed,
    ended_in,
    of_kind,
    ranks,
    unranked,
)
from nearcast.spark.reading import hash_ids
from nearcast.spark.registrar import Reading, Registrar
from nearcast.spark.workers.node import LogStep

FIRST = LogStep(0, "start")

Reread = Callable[[Commit, Registrar, int], Reading]
"""Reads the events of a step from a sequence number on again, to rebuild its log."""


@dataclass(frozen=True)
class Upkeep:
    """When a pipeline compacts its state."""

    snapshot_every: int = 250_000
    """Operations after which shards are written as snapshots."""
    rebase_every: int = 100_000
    """Operations after which a base is written, unless there are even more subscriptions."""
    most_steps: int = 2_000
    """Steps after which a base is written in any case, because each step leaves files behind."""


def next_step(before: LogStep, sums: list[int], version: int | None = None) -> LogStep:
    """The step after another, with a key that depends on what it did.

    So another step that might have had the same number has another key. The version of the routing
    table that takes over with the step is part of the key too.
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
        self.recent = RecentIds(state.files)
        self.window = WindowLog(state.files)
        self._oldest = self._newest = 0  # of the window after the last step, as `before` has them
        self._living: LivingMessages | None = None
        self.uneven = False
        """Whether the core of the engine alone cannot rank all there is, or was."""
        self.everyone = self.asks = False
        """Whether a subscription asks, or asked, for every message, or for more than terms."""
        self.registrar = Registrar(settings)
        self.plan: Plan | None = None
        self.steps: list[LogStep] = [FIRST]
        self.last: Commit | None = None
        self._alive: npt.NDArray[np.bool_] = np.zeros(1024, np.bool_)  # by owner
        self._ranked: npt.NDArray[np.bool_] = np.zeros(1024, np.bool_)  # those that are top-k
        self.since_base = 0
        self._ended: Int32s = np.empty(0, np.int32)  # owners that ended in the last step
        self.actives = Actives()
        self._gone = BEGUN.empty_table()  # and their definitions, because their numbers are reused
        self.cell_bytes: Int64s | None = None
        """About how many bytes subscriptions take in each cell, of a plan with cells."""
        self._changes = BEGUN.empty_table()  # of the step that was placed last
        self.pending = state.pending()
        state.sweep()
        self.last = self._last_commit()
        if self.last is not None:
            self._recover(self.last, reread)
        if self.pending is not None and self.pending.step != self.step.number + 1:
            self.pending = None  # that step is committed

    @property
    def step(self) -> LogStep:
        """The last committed step."""
        return self.steps[-1]

    def _last_commit(self) -> Commit | None:
        """The last committed step; if its commit is damaged, the one before it.

        That is allowed if the step can be repeated with the same events.
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
        # One of an earlier version does not say so.
        self.uneven = last.uneven or LivingMessages.of(self.registrar.ledger).some_end
        self._note_window()
        if not last.messages and self._newest:
            self.window.skip(last.step, self._newest)
        self.window.recover(last.step, self._oldest, self._newest, self.ranked > 0)
        if last.plan:
            self._find_plan(last.plan)

    def _find_plan(self, number: int) -> None:
        """Load the plan of the last step; without one, a plan is made with the next step."""
        try:
            self.plan = self.state.plan(number)
        except SourceError as error:
            logging.getLogger("nearcast.spark").warning("%s; a new plan is made", error)
            return
        if self.state.is_earlier:  # whose shards lack what messages have since
            self.adopt(started(self.plan, max(self.state.plans()) + 1))
            return
        self._check_routed()

    def _base(self, last: int) -> tuple[int, pa.Table]:
        """The latest base that is whole; 0, before the first step, if the logs go back to it."""
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
        """Rebuild a lost log, and the ids of its messages, from its events."""
        name = f"{self.state.path}/log/{commit.step:09}.arrow"
        self.registrar.ledger = self._ledger(commit.step - 1, before)
        try:
            reading = reread(commit, self.registrar, before.next_seq if before else 0)
        except SourceError as error:
            raise SourceError(
                f"{name}, or what belongs to it, is damaged, and the events it was made from are "
                f"gone ({error}); restore one of them, or start again with an empty folder as state"
            ) from None
        sums, written = self.state.write_log(commit.step, reading.log)
        if sums != commit.log:
            raise SourceError(
                f"{name}: damaged, and the events it was made from have changed since; restore one "
                "of them, or start again with an empty folder as state"
            )
        self.registrar.settle(written)
        self.uneven = commit.uneven
        self.keep_messages(commit.step, reading)
        return reading.log

    def note(self, reading: Reading) -> None:
        """Take note of what a step brings that needs more than terms, boxes and the last messages.

        Nothing of it is taken back: it costs some time where it is no longer needed.
        """
        self.uneven |= reading.uneven or reading.log["definition"].null_count < len(reading.log)
        self._note_asking(reading.log)

    def _note_asking(self, log: pa.Table) -> None:
        self.asks |= log["asks"].null_count < len(log)
        if not self.everyone:
            begun = log.filter(pa.array(begins(log)))
            lists = [begun["terms"], pc.list_flatten(begun["required"])]
            self.everyone = any(EVERYONE in pc.list_flatten(each).to_numpy() for each in lists)

    def _note_window(self) -> None:
        ledger = self.registrar.ledger
        self._oldest, self._newest = ledger.first, ledger.next
        self._living = LivingMessages.of(ledger) if self.uneven else None

    def keep_messages(self, step: int, reading: Reading) -> None:
        """Write the messages of a step that was just read, and their ids."""
        ledger, ranking = self.registrar.ledger, self.ranks_in(reading.log)
        start = ledger.next - reading.points
        taken = reading.taken[(reading.taken >= 0) & (reading.taken < start)]
        if reading.points or len(taken):
            self.recent.keep(step, ledger.recent(start), taken)
        self.window.keep(step, reading, ledger.first, ledger.next, ranking, self.uneven)

    @property
    def before(self) -> tuple[int, int]:
        """The messages of the window after the last committed step: the first, and the next one.

        The registrar may already have read the following step.
        """
        return self._oldest, self._newest

    @property
    def living_before(self) -> LivingMessages | None:
        """The messages there were then; None if they are all from the first on."""
        return self._living

    def ranks_in(self, log: pa.Table) -> bool:
        """Whether there are top-k subscriptions before or in a step with this log."""
        return self.ranked > 0 or RANKED in log["kind"].to_numpy()

    def _ledger(self, step: int, last: Commit | None) -> Ledger:
        window, now = self.settings.window, None if last is None else last.now
        next = 0 if last is None else last.messages
        entries = self.recent.entries(step, next)
        times = np.ascontiguousarray(entries[:, 2:4]).view(np.float64)
        if now is not None:
            entries = entries[~(times[:, 1] <= now)]
        if last is not None and last.oldest is not None:
            entries = entries[entries[:, 4] >= last.oldest]
        elif window.seconds is None:
            entries = entries[max(0, len(entries) - (window.count or 0)) :]
        elif now is not None:
            entries = entries[entries[:, 2].copy().view(np.float64) > now - window.seconds]
        # An earlier release did not count messages.
        next = max(next, int(entries[-1, 4]) + 1 if len(entries) else 0)
        standing = self.registrar.definitions(self.live)
        lapses = standing["until"].to_numpy().copy()
        lapses[np.isnan(lapses)] = np.inf
        active = self.actives.at(-np.inf if now is None else now)
        secret = as_secret(self.settings.secret)
        kept = {
            "active": hash_ids(active["id"].combine_chunks(), secret),
            "until": active["end"].to_numpy().copy(),
            "active_seq": active["seq"].to_numpy().copy(),
            "now": np.array([np.nan if now is None else now]),
            "next": np.array([next]),
            "ring": entries,
        }
        hashes = hash_ids(standing["id"].combine_chunks(), secret)
        ids = StandingIds(hashes, self.live, lapses, self._ranked[self.live])
        return Ledger.restored(window, kept, ids, self._ended)

    def _follow(self, log: pa.Table, step: LogStep) -> None:
        self._ended = ended_in(log)
        self._begin(log)
        self._alive[self._ended] = False
        self.actives.follow(log)
        self.since_base += len(log)
        self.steps.append(step)

    def _begin(self, log: pa.Table) -> None:
        begun = begun_in(log)
        self._note_asking(log)
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
        """The owners of all boolean subscriptions."""
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
        """The time after the last committed step."""
        return -np.inf if self.last is None or self.last.now is None else self.last.now

    @property
    def active(self) -> int:
        """How many messages are active after the last committed step."""
        return self.actives.count(self._now)

    def follow_with(self, plan: Plan) -> Carried:
        """Switch to another version of the line with the next step; return what is carried."""
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
        """Route the log of the next step by the plan; what is carried comes before it."""
        assert self.plan is not None  # noqa: S101 - steps are placed once there is a plan
        log = unranked(log)
        if not self.active and LASTING not in log["kind"].to_numpy():
            changes = BegunSubscriptions.none()  # nothing was a result, nor is
        past = past_messages(log, self.actives.of)
        if self.plan.kind == "shared":
            return place_whole(self.plan, log, changes, past)
        owners = of_kind(log, END)["owner"].to_numpy()
        ended = self.registrar.definitions(owners)
        placed = place(self.plan, log, ended, self._gone, changes, past)
        self._gone = ended
        self._changes = placed.changes
        return placed if carried is None else placed.after(carried.shards)

    def done(self, commit: Commit, log: pa.Table, key: str) -> None:
        """Record a committed step."""
        # Ids are removed one step late, so that the last step can be repeated.
        if self.last is not None:
            self.recent.forget(self.last.step, self._oldest)
        living = None if self._living is None else self._living.numbers
        self.window.forget(self._oldest, living)  # and so are messages
        self._note_window()
        self.last = commit
        self._follow(log, LogStep(commit.step, key))
        self.actives.forget(self._now)
        self._weigh(self._changes)

    def adopt(self, plan: Plan) -> None:
        """Switch to another plan, and rebuild all shards from the current subscriptions."""
        self.plan = plan
        self.state.write_plan(plan)
        self._write_base(self.registrar.definitions(self.live))

    def rebase(self) -> None:
        """Write a base, so that older logs are no longer needed."""
        begun = self.registrar.definitions(self.live)
        self._write_base(begun)
        written = self.state.read_definitions(self.step.number)
        self.registrar.start_from(begun if written is None else written)
        self.recent.keep_whole(self.step.number, self.registrar.ledger.recent())
        assert self.last is not None  # noqa: S101 - there is a step
        self.state.forget_commits(self.last.step, self.last.batch)
        self.forget_versions()

    def forget_versions(self) -> None:
        """Remove plans that are unused, and not needed either if the last commit is damaged."""
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
            # What ended with the last step stays in the routing table until the next step.
            placed = place_base(self.plan, unranked(everything), self._gone)
        self._weigh_anew(placed.changes)
        self.state.write_routed(line_of(self.plan), f"base-{number:09}", placed, self._gone)
        if number:
            self.state.write_definitions(number, everything)
            self.state.forget_before(number)
        self.steps = [self.step]
        self.since_base = 0

    def _weigh_anew(self, *changes: pa.Table) -> None:
        """Add up what subscriptions take in each cell of the plan, from nothing on."""
        plan, self.cell_bytes = self.plan, None
        if plan is not None and plan.kind == "grid":
            self.cell_bytes = np.zeros(plan.grid.cells, np.int64)
        for change in changes:
            self._weigh(change)

    def _weigh(self, changes: pa.Table) -> None:
        """Add what rows take that begin, in each cell that they meet; subtract that of others."""
        if self.plan is not None and self.cell_bytes is not None and len(changes):
            sizes = changes["delta"].to_numpy().astype(np.int64) * changes["bytes"].to_numpy()
            weigh_cells(self.plan.grid, boxes_in(changes), sizes, self.cell_bytes)

    def worth_rebasing(self) -> bool:
        """Whether the logs are as long as the base, or there are very many."""
        return len(self.steps) > self.upkeep.most_steps or (
            self.since_base > max(self.upkeep.rebase_every, int(self._alive.sum()) + self.active)
        )

    def snapshots(self) -> dict[str, int]:
        """The last snapshot of each shard of the plan from which the logs continue."""
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
        """Route logs again whose parts for the shards are not whole."""
        assert self.plan is not None  # noqa: S101 - called when there is one
        number = line_of(self.plan)
        names = [f"base-{self.steps[0].number:09}", *(f"{s.number:09}" for s in self.steps[1:])]
        if all(self.state.has_routed(number, name) for name in names):
            if len(names) == 1:  # no log has the subscriptions that end right after the base
                self._gone = self.state.read_gone(number, names[0])
            self._weigh_anew(*(self.state.read_changes(number, name) for name in names))
            return
        # The parts follow from the history: start from here instead of repairing each.
        self.adopt(started(self.plan, max(self.state.plans()) + 1))
