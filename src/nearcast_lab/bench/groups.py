"""Groups of messages, short or long, at points or over areas, against one population."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np

from nearcast.errors import InvalidValue
from nearcast.index import Batch
from nearcast.index.registry import named_options
from nearcast_lab.bench.agreement import check_agreement, check_sample
from nearcast_lab.bench.match import MatchSetup, table_for, warm_up
from nearcast_lab.bench.matching import (
    Contestant,
    add_to_table,
    calibrate,
    known_terms,
    rounds,
    slices_of,
)
from nearcast_lab.progress import Progress
from nearcast_lab.workloads.registry import array_workload

_LENGTHS = {"short": (6, 20), "long": (100, 1000)}
_SLICE = 50
_EXPECTED = "short, long or a number of terms, each with area=SHARE or without: long:area=0.01"


class MessageGroup(NamedTuple):
    """Messages of `fewest` to `most` terms, at points or over a share of the space."""

    label: str
    fewest: int
    most: int
    area: float


class GroupReport(TypedDict):
    """What one index did with one group of messages; times are CPU."""

    group: str
    index: str
    subscriptions: int
    messages: int
    us_per_message: float
    of_first: float
    """How many times as long as the index named first."""
    matches_per_message: float
    candidates_per_message: float
    checked: bool


def read_groups(text: str) -> list[MessageGroup]:
    """Read groups as in `short,long:area=0.01,1000`."""
    groups = []
    for name, options in named_options(text, "--groups"):
        if not (name in _LENGTHS or name.isdecimal()) or options.keys() - {"area"}:
            raise InvalidValue("--groups", text, _EXPECTED)
        try:
            area = float(options.get("area", 0.0))
        except ValueError:
            area = -1.0
        fewest, most = _LENGTHS[name] if name in _LENGTHS else (int(name), int(name))
        if not 0 <= area <= 1 or fewest < 1:
            raise InvalidValue("--groups", text, _EXPECTED)
        groups.append(MessageGroup(f"{name}:area={area:g}" if area else name, fewest, most, area))
    return groups


def measure_groups(
    plan: MatchSetup,
    groups: Sequence[MessageGroup],
    kind: str,
    seed: int,
    options: dict[str, Any],
    populations: Sequence[int],
    progress: Progress,
) -> list[GroupReport]:
    """Match all groups with all chosen indexes, on populations of each size."""
    progress("making subscriptions and messages")
    workload = array_workload(kind, seed=seed, **options)
    everyone = workload.subscriptions(0, max(populations) + 1)
    warm_up(plan, workload, everyone, progress)
    reports = []
    for population in populations:
        table = table_for(workload)
        add_to_table(table, everyone, 0, population)
        contestants = [Contestant(choice, table) for choice in plan.choices]
        for contestant in contestants:
            progress(f"{population:,} subscriptions: building {contestant.choice.label}")
            contestant.build()
        for group in groups:
            progress(f"{population:,} subscriptions: matching {group.label}")
            wanted = {"min_terms": group.fewest, "max_terms": group.most}
            wanted = options | wanted | {"message_area": group.area}
            batch = array_workload(kind, seed=seed, **wanted).messages(0, plan.messages)
            batch = known_terms(batch, everyone, len(table.frequency))
            reports += _measure(plan, group, contestants, batch, population)
            if plan.check:
                check_sample(contestants, batch, everyone, np.arange(population))
    return reports


def _measure(
    plan: MatchSetup,
    group: MessageGroup,
    contestants: Sequence[Contestant],
    batch: Batch,
    population: int,
) -> list[GroupReport]:
    slices = slices_of(batch, _SLICE)
    calibrate(contestants, slices, plan.budget_s)
    measured = rounds(contestants, slices, 1, plan.rounds)
    labels = [contestant.choice.label for contestant in contestants]
    tallies = [tally for _, tally in measured]
    if plan.check:
        check_agreement(labels, tallies)
    taken = [seconds / tally.messages * 1e6 for seconds, tally in measured]
    return [
        GroupReport(
            group=group.label,
            index=label,
            subscriptions=population,
            messages=tally.messages,
            us_per_message=us,
            of_first=us / taken[0],
            matches_per_message=tally.matches / tally.messages,
            candidates_per_message=tally.candidates / tally.messages,
            checked=plan.check,
        )
        for label, us, tally in zip(labels, taken, tallies, strict=True)
    ]
