"""A step of distributed top-k as the tasks of one job: five stages, one after the other.

    distribution -> finders -> buffer shards -> message workers -> aggregation

These are the bolts of DSkype (section 7 of the paper), with each subscription bolt in two halves: a
finder matches messages, a buffer shard holds the buffers.

A task sends packets to those of the next stage. Updates go to files, which the driver adds to the
output; requests and refills go to files too, because many tasks read them. Reports name what a step
leaves for the next one: fresh buffers, and thresholds that rose.

Buffers and thresholds are on nodes only. A task that does not find its own there reports that, the
tasks after it do nothing, and the driver rebuilds all buffers as of the end of the previous step,
in portions, before it repeats the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int32s
from nearcast.spark.topk.dskype.aggregation import aggregate
from nearcast.spark.topk.dskype.holders import BufferStep
from nearcast.spark.topk.dskype.messages import (
    FreshBuffers,
    NodeStateLost,
    PairsFound,
    ReachedPairs,
    Refills,
    RequestsAnswered,
    RequestsMade,
    ShardOutcome,
    StateLost,
    WindowMessages,
    pack,
    received,
)
from nearcast.spark.topk.dskype.ranking_context import RankingContext, dskype_work
from nearcast.spark.topk.dskype.requests import buffer_requests
from nearcast.spark.topk.dskype.spreading import assign_messages, assign_refills, flat
from nearcast.spark.topk.updates import named_updates
from nearcast.spark.workers.task import Packets, Stage, TaskInput, TaskReport


def dskype_stages(work: TaskInput) -> list[Stage]:
    """The stages of a step, or of one portion of a rebuild."""
    ranked = dskype_work(work)
    last = [Stage(ranked.workers, _answer), Stage(ranked.workers, _aggregate)]
    if ranked.portion is not None:
        return [Stage(ranked.workers, _request_buffers), *last]
    first = [Stage(ranked.workers, _distribute), Stage(ranked.finders, _find)]
    return [*first, Stage(ranked.workers, _update_buffers), *last]


def _task(
    run: Callable[[RankingContext, Iterator[bytes]], Packets],
) -> Callable[[TaskInput, int, Iterator[bytes], int], Packets]:
    """Run a task in its context; if state turns out to be lost, tell all of the next stage."""

    @wraps(run)
    def run_in_context(
        work: TaskInput, task: int, packets: Iterator[bytes], attempt: int
    ) -> Packets:
        context = RankingContext(work, task, attempt)
        try:
            yield from run(context, packets)
        except NodeStateLost:
            for worker in range(context.workers):
                yield worker, pack(StateLost())

    return run_in_context


@_task
def _distribute(context: RankingContext, packets: Iterator[bytes]) -> Packets:
    """Send messages to the finders that must match them."""
    del packets
    rows, task = context.step.rows, context.task
    edges = np.linspace(0, len(rows), context.workers + 1).round().astype(int)
    some = rows.slice(edges[task], edges[task + 1] - edges[task])
    messages = context.step.messages(some)
    for finder, which in enumerate(assign_messages(context.spread, messages)):
        if len(which) or task == 0:  # every finder must run, even without messages
            yield finder, pack(messages.of(which))


@_task
def _find(context: RankingContext, packets: Iterator[bytes]) -> Packets:
    """Find the subscriptions that messages reach, and send the pairs to their buffer shards."""
    finder = context.finder()
    context.ready()
    messages = pairs_found = 0
    found: list[list[ReachedPairs]] = [[] for _ in range(context.workers)]
    for packet in packets:
        (incoming,) = received(iter([packet]), WindowMessages)
        pairs = finder.find(incoming)
        messages += len(incoming.numbers)
        pairs_found += len(pairs.owners)
        for shard, part in enumerate(finder.by_shard(pairs, context.workers)):
            found[shard].append(part)
    report = context.report(
        "finder", messages=messages, candidates=pairs_found, rows=len(finder), bytes=finder.nbytes
    )
    for shard, parts in enumerate(found):
        reports = [report] if shard == context.task % context.workers else []
        yield shard, pack(PairsFound(parts, reports))


@_task
def _update_buffers(context: RankingContext, packets: Iterator[bytes]) -> Packets:
    """Take a buffer shard through the step; request what it cannot know from message workers."""
    found = received(packets, PairsFound)

    def step(refills: list[Refills]) -> BufferStep:
        return BufferStep(
            refills,
            context.step.timeline,
            [pairs for each in found for pairs in each.pairs],
            context.step.operations(context.task),
            context.ids(),
            context.step.again,
        )

    shard = context.buffer_shard(step)
    context.ready()
    file = context.update_file(0)
    for table in shard.updates():
        file.write_table(table)
    outcome = shard.outcome()
    left = context.keep(outcome)
    report = context.report(
        "buffers", name=file.close(), updates=file.rows, bytes=shard.nbytes, left=[left]
    )
    reports = [each for sent in found for each in sent.reports]
    asked = left.name if len(outcome.requests.since) else None
    yield from _send_requests(context, asked, [*reports, report])


@_task
def _request_buffers(context: RankingContext, packets: Iterator[bytes]) -> Packets:
    """Request buffers for a portion of a shard's subscriptions, as of the previous step."""
    del packets
    portion = context.ranked.portion
    assert portion is not None  # noqa: S101 - a stage of a rebuild
    wanted = context.step.standing(context.task, *portion)
    none = np.empty(0, np.int32)
    left = context.keep(ShardOutcome(buffer_requests(wanted), none, none, np.empty(0)))
    asked = left.name if len(wanted.owners) else None
    yield from _send_requests(context, asked, [context.report("buffers")])


def _send_requests(context: RankingContext, name: str | None, reports: list[TaskReport]) -> Packets:
    """Send the name of a file with requests to all message workers, and reports to one of them."""
    for part in range(context.workers):
        some = reports if part == context.task % context.workers else []
        yield part, pack(RequestsMade(context.task, name, some))


@_task
def _answer(context: RankingContext, packets: Iterator[bytes]) -> Packets:
    """Answer the requests of all buffer shards from one part of the window."""
    made = received(packets, RequestsMade)
    part = context.part()
    context.ready()
    replies, asked = [], 0
    for each in made:
        found = None
        if each.requests is not None:
            requests = context.read(each.requests, ShardOutcome).requests
            found = part.answer(requests, context.timeline)
            asked += len(requests.since)
        replies.append(found)
    report = context.report("window", candidates=asked, active=len(part), bytes=part.nbytes)
    for each, found in zip(made, replies, strict=True):
        own = [report] if each.shard == context.task % context.workers else []
        yield each.shard, pack(RequestsAnswered(each.requests, found, [*each.reports, *own]))


@_task
def _aggregate(context: RankingContext, packets: Iterator[bytes]) -> Packets:
    """Aggregate the answers into updates, and into the buffers with which the next step begins."""
    task = context.task
    try:
        answered = received(packets, RequestsAnswered)
    except NodeStateLost:
        yield task, context.report("lost").to_packet()
        return
    context.ready()
    for each in answered:
        for sent in each.reports:
            yield task, sent.to_packet()
    names = {each.requests for each in answered if each.requests is not None}
    if not names:
        return
    requests = context.read(names.pop(), ShardOutcome).requests
    replies = [each.replies for each in answered if each.replies is not None]
    aggregated = aggregate(requests, replies, context.timeline)
    file = context.update_file(1)
    if context.ranked.portion is None and len(aggregated.updates.seq):
        wanted = requests.wanted
        place = np.argsort(wanted.owners)

        def names_of(owners: Int32s) -> pa.Array:
            return wanted.ids.take(place[np.searchsorted(wanted.owners[place], owners)])

        again = context.step.again
        for table in named_updates(aggregated.updates, names_of, context.ids(), again):
            file.write_table(table)
    dealt = flat(assign_refills(context.spread, aggregated.refills, context.work.secret))
    left = context.keep(FreshBuffers(aggregated.refills, *dealt))
    report = context.report("aggregation", name=file.close(), updates=file.rows, left=[left])
    yield task, report.to_packet()
