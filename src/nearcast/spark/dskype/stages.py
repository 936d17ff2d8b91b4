"""A step of distributed top-k as the tasks of one job: five stages, one after the other.

    distribution -> finders -> homes -> message workers -> aggregation

A task sends packets to those of the next stage. Updates go to files, which the driver makes part of
the output; requests and refills go to files too, because many read them. What a step leaves to the
next one (fresh buffers, thresholds that rose) is named in the reports.

Buffers and thresholds are on nodes only. A task that does not find what it left there says so,
nobody after it does anything, and the driver lets everything be asked for again at the end of the
step before, in portions, before it takes the step once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from nearcast.spark.dskype.asking import silently
from nearcast.spark.dskype.columns import Requests
from nearcast.spark.dskype.desk import Desk
from nearcast.spark.dskype.holders import HomeStep, Lost
from nearcast.spark.dskype.packing import pack, unpack
from nearcast.spark.dskype.settling import settle
from nearcast.spark.dskype.spreading import deal_messages, deal_refills, flat
from nearcast.spark.dskype.telling import named
from nearcast.spark.ranked.work import Packets, Stage

if TYPE_CHECKING:
    from nearcast.spark.tasks import TaskInput


class Dskype:
    """Ranks in five stages; in three when buffers are asked for."""

    def stages(self, work: TaskInput) -> list[Stage]:
        """As the driver says: a step, or a portion of what is asked for."""
        assert work.ranked is not None  # noqa: S101 - called when somebody ranks
        workers = work.ranked.workers
        last = [Stage(workers, _answer), Stage(workers, _settle)]
        if work.ranked.extra["portion"] is not None:
            return [Stage(workers, _recall), *last]
        finders = work.ranked.extra["finders"]
        return [Stage(workers, _distribute), Stage(finders, _find), Stage(workers, _lead), *last]


def _distribute(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Send messages to the finders that must see them."""
    del packets
    desk = Desk(work, task, attempt)
    rows, workers = desk.step.rows, desk.workers
    edges = np.linspace(0, len(rows), workers + 1).round().astype(int)
    some = rows.slice(edges[task], edges[task + 1] - edges[task])
    messages = desk.step.messages(some)
    for finder, which in enumerate(deal_messages(desk.spread, messages)):
        if len(which) or task == 0:  # everybody must hear of the step
            yield finder, pack(messages=messages.of(which))


def _find(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Find whom messages concern, and send that to their homes."""
    desk = Desk(work, task, attempt)
    try:
        finder = desk.finder()
    except Lost:
        yield from _all_lost(desk)
        return
    desk.ready()
    messages = pairs_found = 0
    found: list[list[Any]] = [[] for _ in range(desk.workers)]
    for packet in packets:
        coming = unpack(packet)["messages"]
        pairs = finder.find(coming)
        messages += len(coming.numbers)
        pairs_found += len(pairs.owners)
        for home, part in enumerate(finder.by_home(pairs, desk.workers)):
            found[home].append(part)
    report = desk.report(
        "finder", messages=messages, candidates=pairs_found, rows=len(finder), bytes=finder.nbytes
    )
    for home, parts in enumerate(found):
        reports = [report] if home == task % desk.workers else []
        yield home, pack(pairs=parts, reports=reports)


def _lead(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Lead a home through the step; ask message workers for what it cannot say."""
    desk = Desk(work, task, attempt)
    told = [unpack(packet) for packet in packets]
    if any("lost" in each for each in told):
        yield from _all_lost(desk)
        return

    def step(refills: list[Any]) -> HomeStep:
        return HomeStep(
            refills,
            desk.step.timeline,
            [pairs for each in told for pairs in each["pairs"]],
            desk.step.operations(task),
            desk.ids(),
            desk.step.again,
        )

    try:
        home = desk.home(step)
    except Lost:
        yield from _all_lost(desk)
        return
    desk.ready()
    file = desk.update_file(0)
    for table in home.updates():
        file.write_table(table)
    outcome = home.outcome()
    name = desk.keep("outcome", outcome)
    asked = len(unpack(outcome)["requests"].since)
    report = desk.report(
        "home", name=file.close(), updates=file.rows, bytes=home.nbytes,
        left=[["outcome", task, name]],
    )  # fmt: skip
    yield from _ask(desk, name if asked else None, [r for t in told for r in t["reports"]], report)


def _recall(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Ask for the buffers of some of the subscriptions of a home, at the end of the step before."""
    del packets
    desk = Desk(work, task, attempt)
    wanted = desk.step.standing(task, *work.ranked.extra["portion"])  # type: ignore[union-attr]
    name = desk.keep("outcome", pack(requests=silently(wanted)))
    report = desk.report("home")
    yield from _ask(desk, name if len(wanted.owners) else None, [], report)


def _ask(desk: Desk, name: str | None, reports: list[Any], report: dict[str, Any]) -> Packets:
    for part in range(desk.workers):
        told = [*reports, report] if part == desk.task % desk.workers else []
        yield part, pack(home=desk.task, requests=name, reports=told)


def _answer(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Answer the requests of all homes from one part of the window."""
    desk = Desk(work, task, attempt)
    told = [unpack(packet) for packet in packets]
    if any("lost" in each for each in told):
        yield 0, pack(lost=True)
        return
    part = desk.part()
    desk.ready()
    replies, asked = [], 0
    for each in told:
        found = None
        if each["requests"] is not None:
            requests: Requests = unpack(desk.files.map(each["requests"]))["requests"]
            found = part.answer(requests, desk.timeline)
            asked += len(requests.since)
        replies.append(found)
    report = desk.report("window", candidates=asked, active=len(part), bytes=part.nbytes)
    for each, found in zip(told, replies, strict=True):
        reports = each["reports"] + ([report] if each["home"] == task % desk.workers else [])
        yield each["home"], pack(requests=each["requests"], replies=found, reports=reports)


def _settle(work: TaskInput, task: int, packets: Iterator[bytes], attempt: int) -> Packets:
    """Put the answers together: updates, and the buffers with which the next step begins."""
    from nearcast.spark.tasks import TaskReport

    desk = Desk(work, task, attempt)
    told = [unpack(packet) for packet in packets]
    if any("lost" in each for each in told):
        yield task, TaskReport(**desk.report("lost")).to_packet()
        return
    desk.ready()
    for each in told:
        for report in each["reports"]:
            yield task, TaskReport(**report).to_packet()
    names = {each["requests"] for each in told} - {None}
    if not names:
        return
    requests: Requests = unpack(desk.files.map(names.pop()))["requests"]
    settled = settle(requests, [each["replies"] for each in told], desk.timeline)
    file = desk.update_file(1)
    if (
        work.ranked is not None
        and work.ranked.extra["portion"] is None
        and len(settled.updates.seq)
    ):
        ids = desk.ids()
        wanted = requests.wanted
        place = np.argsort(wanted.owners)

        def names_of(owners: Any) -> Any:
            return wanted.ids.take(place[np.searchsorted(wanted.owners[place], owners)])

        for table in named(settled.updates, names_of, ids, desk.step.again):
            file.write_table(table)
    starts, dealt = flat(deal_refills(desk.spread, settled.refills))
    name = desk.keep("refills", pack(refills=settled.refills, starts=starts, dealt=dealt))
    report = desk.report(
        "aggregation", name=file.close(), updates=file.rows,
        left=[["refills", task, name]],
    )  # fmt: skip
    yield task, TaskReport(**report).to_packet()


def _all_lost(desk: Desk) -> Packets:
    for worker in range(desk.workers):
        yield worker, pack(lost=True)
