"""Runs the tasks of a pipeline in this process, one after the other, without Spark."""

from __future__ import annotations

from collections import defaultdict

from nearcast.partition.plan import Plan
from nearcast.spark.topk.registry import stages_of
from nearcast.spark.workers.tasks import (
    TaskInput,
    TaskReport,
    dispatch,
    match_dispatched,
    match_shared,
)


class InlineRunner:
    """What Spark would run, run here: for tests, and to look at a pipeline with a debugger."""

    def __init__(self, tasks: int = 2) -> None:
        self.tasks = tasks

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Match the messages of a step, and rank them."""
        return [*_match(work, plan), *_rank(work)]


def _match(work: TaskInput, plan: Plan) -> list[TaskReport]:
    numbers = range(len(work.parts))
    if plan.kind == "shared":
        return [match_shared(work, task, 0) for task in numbers]
    packets = defaultdict[int, list[bytes]](list)
    for task in numbers:
        for worker, packet in dispatch(work, task):
            packets[worker].append(packet)
    return [match_dispatched(work, worker, iter(packets[worker]), 0) for worker in sorted(packets)]


def _rank(work: TaskInput) -> list[TaskReport]:
    stages = stages_of(work)
    if not stages:
        return []
    packets: dict[int, list[bytes]] = {task: [] for task in range(stages[0].width)}
    for stage in stages:
        sent = defaultdict[int, list[bytes]](list)
        for task in sorted(packets):
            for to, packet in stage.run(work, task, iter(packets[task]), 0):
                sent[to].append(packet)
        packets = sent
    return [TaskReport.from_packet(packet) for task in sorted(packets) for packet in packets[task]]
