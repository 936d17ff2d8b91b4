"""Reads a step from the state of its pipeline: messages, operations, the window."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int64s
from nearcast.events.flat import mask_of
from nearcast.spark.io.files import Files
from nearcast.spark.operations import GONE, RANKED, of_kind, ranks
from nearcast.spark.topk.dskype.clock import Timeline, moment
from nearcast.spark.topk.dskype.messages import Wanted, WindowMessages
from nearcast.spark.topk.dskype.requests import Operations
from nearcast.spark.topk.dskype.terms import terms_of
from nearcast.spark.topk.reading import NO_OWNER, RankedSubscriptions
from nearcast.spark.topk.shared import StateReader, ranked_work, weights_of
from nearcast.spark.topk.window import read_messages, window_messages
from nearcast.spark.workers.ranked_work import MessageFile
from nearcast.spark.workers.task import TaskInput


class StepReader:
    """One step; what a worker asks for is read on first use."""

    def __init__(self, work: TaskInput, files: Files) -> None:
        self.work, self.ranked, self.files = work, ranked_work(work), files
        self.number = work.steps[-1].number

    @cached_property
    def idf(self) -> Callable[[str], float] | None:
        """The weight of a term, or None if all weigh 1."""
        return weights_of(self.work)

    @cached_property
    def rows(self) -> pa.Table:
        """The events of the step that change the window."""
        return read_messages(self.files, self.ranked.files[-1])

    @cached_property
    def _log(self) -> pa.Table:
        log = StateReader(self.work, self.files, 0).logged(f"log/{self.number:09}.arrow")
        return log.filter(pa.array(ranks(log)))

    @cached_property
    def timeline(self) -> Timeline:
        """The events that concern the window or a top-k subscription."""
        ranked, rows = self.ranked, self.rows
        seq, numbers = rows["seq"].to_numpy(), rows["number"].to_numpy()
        everything = np.union1d(seq, self._log["seq"].to_numpy())
        following = np.maximum.accumulate(np.append(ranked.next, numbers + 1))
        first = np.append(ranked.first, rows["first"].to_numpy())
        place = np.searchsorted(seq, everything, "right")
        return Timeline(everything, first[place], following[place], ranked.first, ranked.next)

    @property
    def before(self) -> Timeline:
        """The moment before the step."""
        return moment(self.ranked.first, self.ranked.next)

    @cached_property
    def again(self) -> Int64s:
        """Events that bring a message with the id of one that leaves the window with them."""
        seq: Int64s = self.rows["seq"].to_numpy()
        again = mask_of(self.rows["again"].combine_chunks())
        return seq[again]

    def messages(self, rows: pa.Table) -> WindowMessages:
        """The messages among some rows."""
        numbers = rows["number"].to_numpy()
        some = rows.filter(pa.array(numbers >= 0)).combine_chunks()
        terms, counts = terms_of(_one(some, "text"), self.work.settings, self.idf)
        return WindowMessages.read(some, terms, counts)

    def part_of_step(self, span: MessageFile, part: int, parts: int) -> WindowMessages:
        """The messages of a step that belong to one part of the window."""
        rows = read_messages(self.files, span)
        return self.messages(_every(rows, part, parts))

    def part_of_window(self, part: int, parts: int) -> WindowMessages:
        """The messages of the window before the step that belong to one part of it."""
        ranked = self.ranked
        rows = window_messages(self.files, ranked.before, ranked.first, ranked.next)
        return self.messages(_every(rows, part, parts))

    def wanted(self, begun: pa.Table) -> Wanted:
        """The subscriptions of a log."""
        terms, _ = terms_of(_one(begun, "query"), self.work.settings, self.idf)
        return RankedSubscriptions.read(begun, terms)

    def operations(self, home: int) -> Operations:
        """The versions that begin in a buffer shard, and all that end, in whatever shard."""
        own = StateReader(self.work, self.files, home).own(self._log)
        begun, gone = of_kind(own, RANKED).sort_by("seq").combine_chunks(), of_kind(own, GONE)
        seq, ends = begun["seq"].to_numpy(), gone["seq"].to_numpy()
        ended = gone["owner"].to_numpy()
        order = np.argsort(ends, kind="stable")
        place = np.searchsorted(ends[order], seq)
        was = np.full(len(seq), NO_OWNER, np.int32)
        inside = place < len(ends)
        same = np.zeros(len(seq), np.bool_)
        same[inside] = ends[order][place[inside]] == seq[inside]
        was[same] = ended[order][place[same]]
        events = self.timeline.events_of
        return Operations(self.wanted(begun), events(seq), was, ended, events(ends))

    def standing(self, home: int, portion: int, portions: int) -> Wanted:
        """One portion of the subscriptions that a buffer shard had before the step."""
        buckets = self.ranked.buckets
        mine = (buckets == home) & (np.arange(len(buckets)) % portions == portion)
        return self.wanted(StateReader(self.work, self.files, home).standing(mine))


def _one(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _every(rows: pa.Table, part: int, parts: int) -> pa.Table:
    numbers = rows["number"].to_numpy()
    return rows.filter(pa.array((numbers >= 0) & (numbers % parts == part)))
