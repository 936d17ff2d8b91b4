"""A step of distributed top-k as the tasks of one job: five stages, one after the other.

    distribution -> finders -> buffer shards -> message workers -> aggregation

These are the bolts of DSkype (section 7 of the paper), with each subscription bolt in two halves: a
finder matches messages, a buffer shard holds the buffers. A buffer shard is called `home` in
packets and reports.

A task sends packets to those of the next stage. Updates go to files, which the driver adds to the
output; requests and refills go to files too, because many tasks read them. Reports name what a step
leaves for the next one: fresh buffers, and thresholds that rose.

Buffers and thresholds are on nodes only. A task that does not find its own there reports that, the
tasks after it do nothing, and the driver rebuilds all buffers as of the end of the previous step,
in portions, before it repeats the step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.spark.topk.dskype.aggregation import aggregate
from nearcast.spark.topk.dskype.columns import Requests
from nearcast.spark.topk.dskype.holders import BufferStep, NodeStateLost
from nearcast.spark.topk.dskype.naming import named_updates
from nearcast.spark.topk.dskype.packing import pack, unpack
from nearcast.spark.topk.dskype.ranking_context import RankingContext
from nearcast.spark.topk.dskype.requests import buffer_requests
from nearcast.spark.topk.dskype.spreading import assign_messages, assign_refills, flat
from nearcast.spark.topk.work import Packets, Stage

if TYPE_CHECKING:
    from nearcast.spark.workers.tasks import TaskInput


class DskypeRanker:
    """Ranks in five stages; rebuilds buffers in three."""

    def stages(self, work: TaskInput) -> list[Stage]:
        """The stages of a step, or of one portion of a rebuild."""
        assert work.ranked is not None  # noqa: S101 - called for work with top-k subscriptions
        workers = work.ranked.workers
        last = [Stage(workers, _answer), Stage(workers, _aggregate)]
        if work.ranked.extra["portion"] is not None:
            return [Stage(workers, _request_buffers), *last]
        finders = work.ranked.extra["finders"]
        first = [Stage(workers, _distribute), Stage(finders, _find)]
        return [*first, Stage(workers, _update_buffers), *last]


def _distribute(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Send messages to the finders that must match them."""
    del packets
    context = RankingContext(work, task, attempt)
    rows, workers = context.step.rows, context.workers
    edges = np.linspace(0, len(rows), workers + 1).round().astype(int)
    some = rows.slice(edges[task], edges[task + 1] - edges[task])
    messages = context.step.messages(some)
    for finder, which in enumerate(assign_messages(context.spread, messages)):
        if len(which) or task == 0:  # every finder must run, even without messages
            yield finder, pack(messages=messages.of(which))


def _find(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Find the subscriptions that messages reach, and send the pairs to their buffer shards."""
    context = RankingContext(work, task, attempt)
    try:
        finder = context.finder()
    except NodeStateLost:
        yield from _report_lost(context)
        return
    context.ready()
    messages = pairs_found = 0
    found: list[list[Any]] = [[] for _ in range(context.workers)]
    for packet in packets:
        incoming = unpack(packet)["messages"]
        pairs = finder.find(incoming)
        messages += len(incoming.numbers)
        pairs_found += len(pairs.owners)
        for shard, part in enumerate(finder.by_shard(pairs, context.workers)):
            found[shard].append(part)
    report = context.report(
        "finder", messages=messages, candidates=pairs_found, rows=len(finder), bytes=finder.nbytes
    )
    for shard, parts in enumerate(found):
        reports = [report] if shard == task % context.workers else []
        yield shard, pack(pairs=parts, reports=reports)


def _update_buffers(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Take a buffer shard through the step; request what it cannot know from message workers."""
    context = RankingContext(work, task, attempt)
    received = [unpack(packet) for packet in packets]
    if any("lost" in each for each in received):
        yield from _report_lost(context)
        return

    def step(refills: list[Any]) -> BufferStep:
        return BufferStep(
            refills,
            context.step.timeline,
            [pairs for each in received for pairs in each["pairs"]],
            context.step.operations(task),
            context.ids(),
            context.step.again,
        )

    try:
        shard = context.buffer_shard(step)
    except NodeStateLost:
        yield from _report_lost(context)
        return
    context.ready()
    file = context.update_file(0)
    for table in shard.updates():
        file.write_table(table)
    outcome = shard.outcome()
    name = context.keep("outcome", outcome)
    asked = len(unpack(outcome)["requests"].since)
    report = context.report(
        "home", name=file.close(), updates=file.rows, bytes=shard.nbytes,
        left=[["outcome", task, name]],
    )  # fmt: skip
    reports = [each for packet in received for each in packet["reports"]]
    yield from _send_requests(context, name if asked else None, reports, report)


def _request_buffers(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Request buffers for a portion of a shard's subscriptions, as of the previous step."""
    del packets
    context = RankingContext(work, task, attempt)
    wanted = context.step.standing(task, *work.ranked.extra["portion"])  # type: ignore[union-attr]
    name = context.keep("outcome", pack(requests=buffer_requests(wanted)))
    report = context.report("home")
    yield from _send_requests(context, name if len(wanted.owners) else None, [], report)


def _send_requests(
    context: RankingContext, name: str | None, reports: list[Any], report: dict[str, Any]
) -> Packets:
    """Send the name of a file with requests to all message workers, and reports to one of them."""
    for part in range(context.workers):
        some = [*reports, report] if part == context.task % context.workers else []
        yield part, pack(home=context.task, requests=name, reports=some)


def _answer(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Answer the requests of all buffer shards from one part of the window."""
    context = RankingContext(work, task, attempt)
    received = [unpack(packet) for packet in packets]
    if any("lost" in each for each in received):
        yield 0, pack(lost=True)
        return
    part = context.part()
    context.ready()
    replies, asked = [], 0
    for each in received:
        found = None
        if each["requests"] is not None:
            requests: Requests = unpack(context.files.map(each["requests"]))["requests"]
            found = part.answer(requests, context.timeline)
            asked += len(requests.since)
        replies.append(found)
    report = context.report("window", candidates=asked, active=len(part), bytes=part.nbytes)
    for each, found in zip(received, replies, strict=True):
        reports = each["reports"] + ([report] if each["home"] == task % context.workers else [])
        yield each["home"], pack(requests=each["requests"], replies=found, reports=reports)


def _aggregate(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Aggregate the answers into updates, and into the buffers with which the next step begins."""
    from nearcast.spark.workers.tasks import TaskReport

    context = RankingContext(work, task, attempt)
    received = [unpack(packet) for packet in packets]
    if any("lost" in each for each in received):
        yield task, TaskReport(**context.report("lost")).to_packet()
        return
    context.ready()
    for each in received:
        for report in each["reports"]:
            yield task, TaskReport(**report).to_packet()
    names = {each["requests"] for each in received} - {None}
    if not names:
        return
    requests: Requests = unpack(context.files.map(names.pop()))["requests"]
    aggregated = aggregate(requests, [each["replies"] for each in received], context.timeline)
    file = context.update_file(1)
    if (
        work.ranked is not None
        and work.ranked.extra["portion"] is None
        and len(aggregated.updates.seq)
    ):
        ids = context.ids()
        wanted = requests.wanted
        place = np.argsort(wanted.owners)

        def names_of(owners: Any) -> Any:
            return wanted.ids.take(place[np.searchsorted(wanted.owners[place], owners)])

        for table in named_updates(aggregated.updates, names_of, ids, context.step.again):
            file.write_table(table)
    starts, dealt = flat(assign_refills(context.spread, aggregated.refills))
    name = context.keep("refills", pack(refills=aggregated.refills, starts=starts, dealt=dealt))
    report = context.report(
        "aggregation", name=file.close(), updates=file.rows,
        left=[["refills", task, name]],
    )  # fmt: skip
    yield task, TaskReport(**report).to_packet()


def _report_lost(context: RankingContext) -> Packets:
    for worker in range(context.workers):
        yield worker, pack(lost=True)
