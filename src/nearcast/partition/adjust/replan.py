"""A global adjustment (PS2Stream, section V-B): a new plan from what was recent, if that pays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from nearcast.partition.auto import auto
from nearcast.partition.grid import Grid
from nearcast.partition.load import MEASURED, WorkCosts
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample
from nearcast.partition.simulate import Simulator, population_of

THRESHOLD = 0.1
"""The gain in the bound of messages a second from which on a new plan is worth its carrying."""


class Proposal(NamedTuple):
    """A new plan, and what it gains on messages that neither plan was made from."""

    plan: Plan
    gain: float  # 0.1: a tenth more messages a second
    worthwhile: bool


def propose(
    plan: Plan,
    sample: Sample,
    workers: int | None = None,
    threshold: float = THRESHOLD,
    costs: WorkCosts = MEASURED,
    partitioner: Callable[[Sample, int, Grid], Plan] = auto,
    whole: bool = False,
) -> Proposal:
    """Make a new plan for a recent sample, and compare on its held-out messages.

    `whole` says that workers hold subscriptions of several rows whole (`simulate`). Another number
    of `workers` is always worthwhile: the caller has decided.
    """
    count = plan.workers if workers is None else workers
    if not sample.held_out.size:
        sample = replace(sample, held_out=sample.messages)
    after = partitioner(sample, count, plan.grid).changed(number=plan.number + 1)
    arrived = max(sample.messages.size + sample.held_out.size, 1)
    operations = sample.operations * sample.held_out.size / arrived
    population = population_of(sample.rows, sample.held_out, operations)
    simulator = Simulator(population, costs, whole=whole)
    before, then = (simulator.run(each).report["messages_per_s"] for each in (plan, after))
    gain = then / before - 1.0 if 0 < before < float("inf") else 0.0
    return Proposal(after, gain, count != plan.workers or gain >= threshold)
