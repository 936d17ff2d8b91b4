"""Ranking with a shared window: every worker has all of it, and the subscriptions of some buckets.

Workers need nothing from each other: arrivals, expiries and re-evaluations are handled where the
subscription is. This is the fastest scheme if all workers are on one machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from nearcast.spark.io.files import Files
from nearcast.spark.operations import GONE, RANKED, completed
from nearcast.spark.operations import LOG as LOGGED
from nearcast.spark.reports.build_progress import reporting_progress
from nearcast.spark.topk.holder import RankedShard, RankingRules
from nearcast.spark.topk.steps import Mask, RankedStep
from nearcast.spark.topk.walk import RankedHolder
from nearcast.spark.topk.window import read_messages, window_messages
from nearcast.spark.workers.node import LogStep, Recipe
from nearcast.spark.workers.node_folders import make_sure_of_room
from nearcast.spark.workers.ranked_work import FIRST_TASK, RankedWork, buckets_of
from nearcast.spark.workers.task import (
    Laps,
    Packets,
    Stage,
    TaskInput,
    TaskNode,
    TaskReport,
    UpdateFile,
)
from nearcast.text import Vocabulary

_COLUMNS = ["kind", "owner", "seq", "id", "query", "top", "definition", "end"]

MESSAGE_BYTES, _SUBSCRIPTION = 500, 1000  # bytes that each takes, approximately


def shared_stages(work: TaskInput) -> list[Stage]:
    """Ranking in one stage, with one task for each worker."""
    return [Stage(ranked_work(work).workers, _rank)]


def ranked_work(work: TaskInput) -> RankedWork:
    """The work of the tasks that rank, in a step that has some."""
    assert work.ranked is not None  # noqa: S101 - these tasks run for such a step only
    return work.ranked


def _rank(work: TaskInput, worker: int, packets: Iterator[bytes], attempt: int) -> Packets:
    del packets
    laps, ranked, node = Laps(), ranked_work(work), TaskNode(work)
    source = StateReader(work, node.files, worker)
    recipe = Recipe(node.files, f"ranked-{worker:05}", None, ranked.steps, source.start)
    shard = node.cache.get(partial(RankedHolder, rules=source.rules()), recipe, source.step)
    laps.lap("catch up")
    file = UpdateFile(work, FIRST_TASK + worker, attempt)
    for updates in shard.updates():
        file.write_table(updates)
    name, messages = file.close(), ranked.files[-1].next - ranked.files[-1].first
    done = laps.report(worker, messages=messages, updates=file.rows, **shard.stats())
    yield worker, TaskReport(done, name, ranked=True).to_packet()


class StateReader:
    """Reads what a worker needs from the state of its pipeline."""

    def __init__(self, work: TaskInput, files: Files, worker: int) -> None:
        self._work, self._ranked = work, ranked_work(work)
        self._files = files
        self._worker = worker
        self.mine: Mask = self._ranked.buckets == worker
        """The buckets of the worker."""

    def rules(self) -> RankingRules:
        """What scores depend on."""
        work, ranked = self._work, self._ranked
        return RankingRules(
            ranked.window, ranked.space, work.analyser, weights_of(work), work.secret
        )

    def step(self, step: LogStep) -> RankedStep:
        """What a step, one of `RankedWork.steps`, changes for the worker."""
        place = self._ranked.steps.index(step)
        messages = read_messages(self._files, self._ranked.files[place - 1])
        log = self.logged(f"log/{step.number:09}.arrow")
        return RankedStep(messages, self.own(log), self.mine, self.standing)

    def start(self, shard: RankedShard) -> int:
        """Build the shard as of before the last step; return how many steps it includes."""
        ranked = self._ranked
        messages = window_messages(self._files, ranked.before, ranked.first, ranked.next)
        begun = self.standing(self.mine)
        make_sure_of_room(
            shard.file.parent, MESSAGE_BYTES * len(messages) + _SUBSCRIPTION * len(begun)
        )
        with reporting_progress(self._files, self._worker) as progress:
            shard.build(messages, begun, self.mine, progress)
        return len(ranked.steps) - 1

    def standing(self, buckets: Mask) -> pa.Table:
        """The subscriptions of some buckets before the last step."""
        steps = self._work.steps[:-1]
        names = [f"definitions/{steps[0].number:09}.arrow"] if steps[0].number else []
        names += [f"log/{step.number:09}.arrow" for step in steps[1:]]
        parts = [LOGGED.empty_table().select(_COLUMNS), *map(self.logged, names)]
        where: dict[int, int] = {}
        begun, total = [], 0
        for part in parts:
            own = self._within(part, buckets)
            kinds, owners = own["kind"].to_numpy(), own["owner"].to_numpy()
            came = own.filter(pa.array(kinds == RANKED))
            numbers = range(total, total + len(came))
            where.update(zip(came["owner"].to_pylist(), numbers, strict=True))
            for owner in owners[kinds == GONE].tolist():
                where.pop(owner, None)
            begun.append(came)
            total += len(came)
        rows = np.sort(np.fromiter(where.values(), np.int64, len(where)))
        return pa.concat_tables(begun).take(pa.array(rows)).combine_chunks()

    def logged(self, name: str) -> pa.Table:
        """The columns of a log that ranking needs."""
        with pa.ipc.open_file(self._files.map(name)) as reader:
            return completed(reader.read_all(), LOGGED).select(_COLUMNS)

    def own(self, log: pa.Table) -> pa.Table:
        """The rows of a log that begin in the worker's buckets, and all that end."""
        return self._within(log, self.mine)

    def _within(self, log: pa.Table, buckets: Mask) -> pa.Table:
        """The rows of a log that begin in some buckets, and all that end."""
        kinds = log["kind"].to_numpy()
        inside = kinds == GONE
        rows = np.flatnonzero(kinds == RANKED)
        ids = log["id"].take(pa.array(rows)).combine_chunks()
        inside[rows] = buckets[buckets_of(ids, self._work.secret)]
        return log.filter(pa.array(inside)).combine_chunks()


def weights_of(work: TaskInput) -> Callable[[str], float] | None:
    """The weight of a term by the history of the pipeline, or None if all weigh 1."""
    vocabulary = vocabulary_of(work)
    return None if vocabulary is None else vocabulary.idf


def vocabulary_of(work: TaskInput) -> Vocabulary | None:
    """The history of the pipeline, or None if all terms weigh 1."""
    name = ranked_work(work).vocabulary
    return None if name is None else _vocabulary(work.state, name)


@lru_cache(maxsize=1)
def _vocabulary(state: str, name: str) -> Vocabulary:
    """The history in a state, read once by each process."""
    files = Files(state)
    if files.local is not None:
        return Vocabulary.load(files.local / name)
    with TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(files.read(name))
        return Vocabulary.load(path)
