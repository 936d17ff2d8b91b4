"""Ranking with the rankings of the embedded engine, which know all there is in the contract.

Every worker has the whole window, and the subscriptions of some buckets. The cores of the other
schemes take only what is the same for all: messages that leave the window as the oldest, and
subscriptions that are a bag of words, a point, k and alpha. Once there is anything else in the
window or among the subscriptions, all workers rank in this way.

What a worker has is in the memory of its process only. A process that has not taken the steps
before rebuilds it, from the messages of the window and the current subscriptions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.engine.attributes import Attributes
from nearcast.engine.matching import ArrivedMessage, BooleanSubscription
from nearcast.engine.ranked import FastRankings
from nearcast.engine.settings import Settings
from nearcast.events import Message, Update
from nearcast.events.bodies import body_of
from nearcast.events.carried import carried_of
from nearcast.events.columns import updates_table
from nearcast.events.fields import UPDATE_OPS, WITHOUT_BODY
from nearcast.spark.asking import encoded
from nearcast.spark.included import has_messages
from nearcast.spark.operations import GONE, RANKED
from nearcast.spark.topk.reading import subscription_of
from nearcast.spark.topk.shared import StateReader, ranked_work, vocabulary_of
from nearcast.spark.topk.steps import RankedStep
from nearcast.spark.topk.window import window_messages
from nearcast.spark.workers.node import LogStep
from nearcast.spark.workers.ranked_work import FIRST_TASK
from nearcast.spark.workers.task import (
    Laps,
    Packets,
    Stage,
    TaskInput,
    TaskNode,
    TaskReport,
    UpdateFile,
)
from nearcast.text import EVERYTHING, parse_bag, parse_query

ENGINE = "engine"
"""The name of this scheme; a pipeline goes over to it by itself."""

Row = dict[str, Any]


class EngineRanking:
    """The top-k subscriptions of one worker, and the window."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._rankings = FastRankings(settings)
        self._attributes = Attributes()
        self._ids: dict[int, str] = {}  # by owner
        self._arrivals = 0

    def __len__(self) -> int:
        return len(self._ids)

    def build(self, messages: pa.Table, begun: pa.Table, ends: dict[int, float]) -> None:
        """Take in the messages of a window and subscriptions, without updates.

        `ends` says when messages end, by number: files of an earlier release do not.
        """
        for row in messages.to_pylist():
            if row["ttl"] is None and row["number"] in ends:
                row["ttl"] = ends[row["number"]] - row["at"]
            self._enter(row)
        for row in begun.to_pylist():
            self._put(row)
        self._rankings.changes()

    def apply(self, step: RankedStep, with_body: bool) -> RankedAnswer:
        """Take a step, event by event."""
        answer = RankedAnswer([], [], [], [])
        events: dict[int, tuple[Row | None, list[Row]]] = {}
        for row in step.messages.to_pylist():
            events[row["seq"]] = row, []
        for row in step.operations.to_pylist():
            if row["kind"] == RANKED or row["owner"] in self._ids or row["seq"] in events:
                events.setdefault(row["seq"], (None, []))[1].append(row)
            elif row["kind"] == GONE:  # it may have begun in this step
                events[row["seq"]] = None, [row]
        for seq in sorted(events):
            for update in self._attributes.asked_for(self._take(*events[seq])):
                answer.add(seq, update, self._attributes, self._body(update) if with_body else "")
        return answer

    def _take(self, message: Row | None, operations: list[Row]) -> list[Update]:
        """Take one event: time passes, then what it does, as `scan` has it."""
        ended = [row for row in operations if row["kind"] == GONE and row["owner"] in self._ids]
        for row in ended:
            if row["end"] is not None:
                self._drop(row["owner"])
        if message is not None:
            self._rankings.advance(message["at"])
        begun = [row for row in operations if row["kind"] == RANKED]
        if begun:
            for row in ended:
                self._ids.pop(row["owner"], None)  # the new version takes its place
            id = self._put(begun[0])
            return self._rankings.changes(rescored=id)
        for row in ended:
            if row["owner"] in self._ids:
                self._drop(row["owner"])
        replaced = None
        if message is not None:
            if message["taken"] >= 0 and self._rankings.take_out(message["id"]):
                replaced = message["id"]
            if message["number"] >= 0:
                self._enter(message)
        return self._rankings.changes(replaced=replaced)

    def _put(self, row: Row) -> str:
        given, analyser = subscription_of(row), self._settings.analyser
        wanted = None
        if given.filter is not None or given.region is not None:
            asked = given.filter
            query = EVERYTHING if asked is None else parse_query(asked, analyser)
            wanted = BooleanSubscription(given, query)
        self._ids[row["owner"]] = given.id
        bare = self._attributes.put(given, None)
        self._rankings.put(bare, parse_bag(given.query or "", analyser), wanted)
        return given.id

    def _drop(self, owner: int) -> None:
        id = self._ids.pop(owner)
        self._attributes.drop(id)
        self._rankings.drop(id)

    def _enter(self, row: Row) -> None:
        ttl = row["ttl"]
        message = Message(
            row["id"],
            row["text"] or "",
            (row["lon"], row["lat"]),
            at=row["at"],
            ttl=0.0 if ttl is None or np.isnan(ttl) else ttl,
            **carried_of(row),
        )
        arrived = ArrivedMessage(message, self._arrivals, row["at"], self._settings.analyser)
        self._rankings.enter(arrived)
        self._arrivals += 1

    def _body(self, update: Update) -> str:
        message = None if update.op in WITHOUT_BODY else self._rankings.message(update.message)
        return "" if message is None else encoded(body_of(message, message.at or 0.0))


@dataclass
class RankedAnswer:
    """The updates of a step."""

    seqs: list[int]
    updates: list[Update]
    bodies: list[str]
    metas: list[str]

    def add(self, seq: int, update: Update, attributes: Attributes, body: str) -> None:
        """Add an update of an event."""
        meta = attributes.metas.get(update.subscription)
        self.seqs.append(seq)
        self.updates.append(update)
        self.bodies.append(body)
        self.metas.append("" if meta is None else encoded(meta))

    def write(self, file: UpdateFile) -> None:
        """Write them."""
        ops = np.array([UPDATE_OPS.index(one.op) for one in self.updates], np.int8)
        table = updates_table(
            self.seqs, ops, [one.subscription for one in self.updates],
            [one.message for one in self.updates], [one.score for one in self.updates],
        )  # fmt: skip
        file.write_table(
            table, pa.array(self.bodies, pa.string()), pa.array(self.metas, pa.string())
        )


@dataclass
class _Kept:
    """What a process keeps of a worker: after which step, and the updates of that step."""

    step: LogStep
    buckets: bytes
    ranking: EngineRanking
    answer: RankedAnswer


_kept: dict[tuple[str, str, int], _Kept] = {}


def engine_stages(work: TaskInput) -> list[Stage]:
    """Ranking in one stage, with one task for each worker."""
    return [Stage(ranked_work(work).workers, _rank)]


def _rank(work: TaskInput, worker: int, packets: Iterator[bytes], attempt: int) -> Packets:
    del packets
    laps, ranked, node = Laps(), ranked_work(work), TaskNode(work)
    kept = _caught_up(work, worker, StateReader(work, node.files, worker), node)
    laps.lap("catch up")
    file = UpdateFile(work, FIRST_TASK + worker, attempt)
    kept.answer.write(file)
    name, messages = file.close(), ranked.files[-1].next - ranked.files[-1].first
    done = laps.report(worker, messages=messages, updates=file.rows, rows=len(kept.ranking))
    yield worker, TaskReport(done, name, ranked=True).to_packet()


def _caught_up(work: TaskInput, worker: int, source: StateReader, node: TaskNode) -> _Kept:
    """The ranking of a worker after the step, with the updates of the step."""
    ranked = ranked_work(work)
    key, buckets = (work.pipeline, work.run, worker), ranked.buckets.tobytes()
    for other in [each for each in _kept if each[:2] != key[:2]]:
        del _kept[other]
    kept = _kept.pop(key, None)  # while it is being changed, nobody else may find it
    if kept is None or kept.buckets != buckets or kept.step not in ranked.steps:
        history = vocabulary_of(work)
        settings = replace(work.settings, history=history)
        ranking = EngineRanking(settings)
        spans = ranked.before
        messages = window_messages(node.files, spans, ranked.first, ranked.next, ranked.living)
        ends: dict[int, float] = {}
        if ranked.living is not None and ranked.ends is not None:
            some = np.flatnonzero(~np.isnan(ranked.ends))
            ends = dict(zip(ranked.living[some].tolist(), ranked.ends[some].tolist(), strict=True))
        ranking.build(messages, source.standing(source.mine), ends)
        kept = _Kept(ranked.steps[-2], buckets, ranking, RankedAnswer([], [], [], []))
    with_body = has_messages(work.include)
    for step in ranked.steps[ranked.steps.index(kept.step) + 1 :]:
        answer = kept.ranking.apply(source.step(step), with_body)
        kept = _Kept(step, buckets, kept.ranking, answer)
    _kept[key] = kept
    return kept
