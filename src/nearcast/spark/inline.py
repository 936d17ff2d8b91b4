"""Runs the tasks of a pipeline in this process, one after the other, without Spark."""

from __future__ import annotations

from collections import defaultdict

from nearcast.partition.plan import Plan
from nearcast.spark.tasks import Report, Work, dispatch, match_dispatched, match_shared


class InlineRunner:
    """What Spark would run, run here: for tests, and to look at a pipeline with a debugger."""

    def __init__(self, tasks: int = 2) -> None:
        self.tasks = tasks

    def run(self, work: Work, plan: Plan) -> list[Report]:
        """Match the messages of a step."""
        numbers = range(len(work.parts))
        if plan.kind == "shared":
            return [match_shared(work, task, 0) for task in numbers]
        packets = defaultdict[int, list[bytes]](list)
        for task in numbers:
            for worker, packet in dispatch(work, task):
                packets[worker].append(packet)
        return [
            match_dispatched(work, worker, iter(packets[worker]), 0) for worker in sorted(packets)
        ]
