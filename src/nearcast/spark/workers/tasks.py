"""Matching, as the tasks of a job: in one stage if nothing is split, or else dispatched first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.events.fields import ADD, CHANGE, REMOVE
from nearcast.events.flat import mask_of
from nearcast.partition.owners import owns
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_messages
from nearcast.spark.asking import ExactMatching
from nearcast.spark.included import has_messages
from nearcast.spark.operations import PAST, REPLACING, of_kind
from nearcast.spark.readers.slices import MESSAGE_COLUMNS
from nearcast.spark.workers.messages import (
    MessageBatch,
    ShardMessages,
    WantedOfMessages,
    messages_in,
    messages_of,
)
from nearcast.spark.workers.packets import pack, unpack
from nearcast.spark.workers.shard import Shard, ShardMatches
from nearcast.spark.workers.task import (
    Laps,
    Packets,
    Stage,
    TaskInput,
    TaskNode,
    TaskReport,
    UpdateFile,
)

_AT_ONCE = 1 << 16  # messages matched together


def matching_stages(work: TaskInput, plan: Plan) -> list[Stage]:
    """The stages in which the messages of a step are matched."""
    if plan.kind == "shared":
        return [Stage(len(work.parts), match_shared, pinned=False)]
    return [Stage(len(work.parts), dispatch, pinned=False), Stage(plan.workers, match_dispatched)]


def read_messages(work: TaskInput, task: int) -> MessageBatch:
    """Read the messages of the slices of a task."""
    parts, more = (
        work.parts[task],
        WantedOfMessages(work.everyone, work.asks or has_messages(work.include)),
    )
    tables, seqs, masks = [], [], []
    for part in parts:
        table, seq = part.slice.read(MESSAGE_COLUMNS)
        mask = mask_of(pc.equal(table["op"], "publish").combine_chunks())
        if len(part.left_out):
            mask = mask.copy()
            mask[part.left_out] = False
        tables.append(table)
        seqs.append(seq)
        masks.append(mask)
    times = [part.times for part in parts if part.times is not None]
    return messages_of(
        pa.concat_tables(tables), np.concatenate(seqs), np.concatenate(masks), work.settings, more,
        np.concatenate(times) if times else None,
    )  # fmt: skip


def _cut(messages: ShardMessages, start: int, stop: int) -> ShardMessages:
    """Messages from one place to another."""
    if start == 0 and stop == len(messages.boxes):
        return messages
    starts, hashes = messages.texts
    texts = messages.texts._replace(
        starts=starts[start : stop + 1] - starts[start], hashes=hashes[starts[start] : starts[stop]]
    )
    return ShardMessages(
        texts, messages.boxes[start:stop], messages.number[start:stop], messages.seq
    )


def _edges(number: Int32s) -> Iterator[tuple[int, int]]:
    """Cut places into stretches that are matched together, never between those of one message."""
    start = 0
    while start < len(number):
        stop = min(start + _AT_ONCE, len(number))
        while stop < len(number) and number[stop] == number[stop - 1]:
            stop += 1
        yield start, stop
        start = stop


class ShardMatching(NamedTuple):
    """A shard as a task uses it: what it finds goes to a file."""

    file: UpdateFile
    shard: Shard
    plan: Plan
    worker: int | None  # None for one of the tasks that share everything
    decide: ExactMatching

    def find(self, texts: MessageBatch, some: ShardMessages) -> ShardMatches:
        """Match some of the messages of a batch, exactly."""
        found = self.shard.match(some)
        numbers = some.number[found.places]
        true = self.shard.exact(
            self.decide, found.owners, found.rows, texts.shaped[numbers],
            lambda pairs: texts.bodies.take(pa.array(numbers[pairs])),
        )  # fmt: skip
        if true.all():
            return found
        places, rows, owners, candidates = found
        return ShardMatches(places[true], rows[true], owners[true], candidates)

    def owned(self, boxes: Floats, places: Int32s, rows: Int32s) -> npt.NDArray[np.bool_]:
        """Which pairs of places of messages and rows the worker answers for."""
        if self.worker is None or self.plan.kind != "grid":
            return np.ones(len(rows), np.bool_)
        table, keys = self.shard.table.rows.box, self.shard.keys
        return owns(self.plan, self.worker, boxes, table, keys, places, rows)

    def write(
        self,
        seq: Int64s,
        owners: Int32s,
        ids: pa.Array,
        ops: npt.NDArray[np.int8],
        bodies: Callable[[], pa.Array],
    ) -> None:
        """Write updates that are asked for."""
        asked = self.shard.asked_for(owners, ops)
        if not asked.all():
            some = pa.array(np.flatnonzero(asked))
            ids, texts = ids.take(some), bodies
            seq, owners, ops = seq[asked], owners[asked], ops[asked]
            bodies = lambda: texts().take(some)  # noqa: E731 - a part of what the other gives
        names = self.shard.names_of(owners)
        if self.file.includes:
            self.file.write(seq, names, ids, ops, bodies(), self.shard.metas_of(owners))
        else:
            self.file.write(seq, names, ids, ops)

    def match(self, texts: MessageBatch) -> int:
        """Match messages, write the updates, and give how many candidates there were."""
        messages, candidates = texts.messages, 0
        for start, stop in _edges(messages.number):
            some = _cut(messages, start, stop)
            found = self.find(texts, some)
            candidates += found.candidates
            mine = self.owned(some.boxes, found.places, found.rows)
            places, owners = found.places[mine], found.owners[mine]
            numbers = pa.array(some.number[places])
            self.write(
                messages.seq[some.number[places]], owners, texts.ids.take(numbers),
                np.full(len(owners), ADD, np.int8), partial(texts.bodies.take, numbers),
            )  # fmt: skip
        return candidates

    def change(self, part: slice) -> None:
        """Write what the changes of the step added and removed.

        Of a pair that several workers know, the one writes that answers for it as it is, or was.
        """
        held = self.shard.held
        found = self.shard.changed(self.decide, part)
        mine = self.shard.answers_for(found.rows)
        mine &= self.owned(held.boxes, found.slots, found.rows)
        slots = found.slots[mine]
        self.write(
            found.seq[mine], found.owners[mine], held.names_of(slots), found.ops[mine],
            partial(held.bodies_of, slots),
        )  # fmt: skip

    def replace(self, operations: pa.Table, part: slice) -> None:
        """Write what changes for those who had a message that was replaced or retracted.

        Every worker that may answer for the old message or for the new one knows both. The one
        writes that answers for the new one or, if that is no result, for the old one.
        """
        past, new = (messages_in(of_kind(operations, kind)) for kind in (PAST, REPLACING))
        if not len(past.ids):
            return
        before, after = self.find(past, past.messages), self.find(new, new.messages)
        both = []
        for texts, found in ((past, before), (new, after)):
            number = texts.messages.number[found.places]
            mine = self.owned(texts.messages.boxes, found.places, found.rows)
            both.append((texts.messages.seq[number], found.owners, number, mine))
        wanted = np.unique(past.messages.seq)[part]
        was, now = (_pair(seq, owners) for seq, owners, _, _ in both)
        for texts, (seq, owners, number, mine), others, ops in (
            (new, both[1], was, (CHANGE, ADD)),
            (past, both[0], now, (REMOVE, REMOVE)),
        ):
            stays = np.isin(_pair(seq, owners), others)
            kept = mine & np.isin(seq, wanted) & (~stays if texts is past else True)
            op = np.where(stays[kept], *ops).astype(np.int8)
            rows = pa.array(number[kept])
            self.write(
                seq[kept], owners[kept], texts.ids.take(rows), op, partial(texts.bodies.take, rows)
            )


def _pair(seq: Int64s, owners: Int32s) -> Any:
    """Pairs of events and owners as one value each."""
    pairs = np.empty(len(seq), [("seq", np.int64), ("owner", np.int64)])
    pairs["seq"], pairs["owner"] = seq, owners
    return pairs


def _match(
    work: TaskInput, task: int, worker: int | None, read: Callable[[], MessageBatch], attempt: int
) -> TaskReport:
    """Match messages as a worker, or as one of the tasks that share everything."""
    laps, node = Laps(), TaskNode(work)
    texts = read()
    laps.lap("read")
    shard = node.shard(worker)
    laps.lap("catch up")
    file = UpdateFile(work, task, attempt)
    matching = ShardMatching(file, shard, node.plan, worker, ExactMatching(work.analyser))
    candidates = matching.match(texts)
    share = slice(task, None, len(work.parts)) if worker is None else slice(None)
    matching.change(share)
    matching.replace(node.operations(worker), share)
    name = file.close()
    if worker is not None or task == 0:
        node.save(worker)
    counts = {"messages": len(texts.ids), "updates": file.rows, "candidates": candidates}
    return TaskReport(laps.report(task, **counts, **shard.stats()), name)


def match_shared(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Match the messages of some slices against everything there is."""
    del packets
    report = _match(work, task, None, lambda: read_messages(work, task), attempt)
    yield task, report.to_packet()


def dispatch(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Read messages, and give for each worker those that may concern it, packed."""
    del packets, attempt
    node = TaskNode(work)
    texts = read_messages(work, task)
    messages = texts.messages
    wanted = node.router().wanted
    slots = None if wanted is None else wanted.slots
    numbers, workers = route_messages(node.plan, slots, messages.boxes, *messages.texts)
    for worker in range(node.plan.workers):
        places = numbers[workers == worker]
        if len(places) or (task == 0 and worker in work.asked):
            yield worker, pack(texts, places)


def match_dispatched(
    work: TaskInput, worker: int, packets: Iterator[bytes], attempt: int
) -> Packets:
    """Match what was dispatched to a worker."""
    report = _match(work, worker, worker, lambda: unpack(packets), attempt)
    yield worker, report.to_packet()
