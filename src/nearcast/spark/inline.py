"""Runs the tasks of a pipeline in this process, one after the other, without Spark."""

from __future__ import annotations

from collections import defaultdict

from nearcast.partition.plan import Plan
from nearcast.spark.packed import ReadInput
from nearcast.spark.reading import read_part
from nearcast.spark.topk.registry import chains_of
from nearcast.spark.workers.task import Stage, TaskInput, TaskReport


class InlineRunner:
    """What Spark would run, run here: for tests, and to look at a pipeline with a debugger."""

    def __init__(self, tasks: int = 2) -> None:
        self.tasks = tasks

    def read(self, work: ReadInput) -> None:
        """Read the events of a step."""
        for task in range(len(work.parts)):
            read_part(work, task)

    def run(self, work: TaskInput, plan: Plan) -> list[TaskReport]:
        """Match the messages of a step, and rank them."""
        return [report for chain in chains_of(work, plan) for report in _run(work, chain)]


def _run(work: TaskInput, chain: list[Stage]) -> list[TaskReport]:
    packets: dict[int, list[bytes]] = {task: [] for task in range(chain[0].width)}
    for stage in chain:
        sent = defaultdict[int, list[bytes]](list)
        for task in sorted(packets):
            for to, packet in stage.run(work, task, iter(packets[task]), 0):
                sent[to].append(packet)
        packets = sent
    return [TaskReport.from_packet(packet) for task in sorted(packets) for packet in packets[task]]
