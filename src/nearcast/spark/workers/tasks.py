"""Matching, as the tasks of a job: in one stage if nothing is split, or else dispatched first."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Int32s
from nearcast.events.flat import mask_of
from nearcast.partition.owners import owns
from nearcast.partition.plan import Plan
from nearcast.partition.routing import route_messages
from nearcast.spark.readers.slices import MESSAGE_COLUMNS
from nearcast.spark.workers.messages import MessageBatch, messages_of
from nearcast.spark.workers.packets import pack, unpack
from nearcast.spark.workers.shard import Shard, ShardMessages
from nearcast.spark.workers.task import (
    EventSlice,
    Laps,
    Packets,
    Stage,
    TaskInput,
    TaskNode,
    TaskReport,
    UpdateFile,
)
from nearcast.text import Analyser

_AT_ONCE = 1 << 16  # messages matched together


def matching_stages(work: TaskInput, plan: Plan) -> list[Stage]:
    """The stages in which the messages of a step are matched."""
    if plan.kind == "shared":
        return [Stage(len(work.parts), match_shared)]
    return [Stage(len(work.parts), dispatch), Stage(plan.workers, match_dispatched)]


def read_messages(parts: list[EventSlice], analyser: Analyser) -> MessageBatch:
    """Read the messages of some slices."""
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
    return messages_of(
        pa.concat_tables(tables), np.concatenate(seqs), np.concatenate(masks), analyser
    )


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


def match_into(
    file: UpdateFile, shard: Shard, texts: MessageBatch, plan: Plan, worker: int | None
) -> tuple[int, int]:
    """Match messages, write the updates, and give how many and how many candidates."""
    messages, candidates = texts.messages, 0
    for start, stop in _edges(messages.number):
        some = _cut(messages, start, stop)
        found = shard.match(some)
        candidates += found.candidates
        places, owners = found.places, found.owners
        if worker is not None and plan.kind == "grid":
            mine = owns(
                plan, worker, some.boxes, shard.table.rows.box, shard.keys, places, found.rows
            )
            places, owners = places[mine], owners[mine]
        numbers = some.number[places]
        file.write(messages.seq[numbers], shard.names_of(owners), texts.ids.take(pa.array(numbers)))
    return file.rows, candidates


def changes_into(
    file: UpdateFile, shard: Shard, plan: Plan, worker: int | None, part: slice = slice(None)
) -> int:
    """Write what the changes of the step added and removed, and give how many updates there are.

    Of a pair that several workers know, the one writes that answers for it as it is, or was.
    """
    found = shard.changed(part)
    mine = shard.answers_for(found.rows)
    if worker is not None and plan.kind == "grid":
        rows = shard.table.rows.box
        mine &= owns(plan, worker, shard.held.boxes, rows, shard.keys, found.slots, found.rows)
    names, ids = shard.names_of(found.owners[mine]), shard.held.names_of(found.slots[mine])
    file.write(found.seq[mine], names, ids, found.ops[mine])
    return file.rows


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
    _, candidates = match_into(file, shard, texts, node.plan, worker)
    share = slice(task, None, len(work.parts)) if worker is None else slice(None)
    updates = changes_into(file, shard, node.plan, worker, share)
    name = file.close()
    if worker is not None or task == 0:
        node.save(worker)
    stats = shard.stats()
    laps.lap("match")
    return TaskReport(
        task,
        laps.seconds,
        laps.cpu_s,
        messages=len(texts.ids),
        updates=updates,
        candidates=candidates,
        rows=int(stats["rows"]),
        bytes=int(stats["bytes"]),
        active=int(stats["active"]),
        name=name,
    )


def match_shared(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Match the messages of some slices against everything there is."""
    del packets
    report = _match(
        work, task, None, lambda: read_messages(work.parts[task], work.analyser), attempt
    )
    yield task, report.to_packet()


def dispatch(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Read messages, and give for each worker those that may concern it, packed."""
    del packets, attempt
    node = TaskNode(work)
    texts = read_messages(work.parts[task], work.analyser)
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
