"""Where things are measured: one population, several indexes over it, messages in turn.

All indexes of a point match the same messages in interleaved rounds of one process, in CPU time;
before that their answers to some messages are compared, so that no figure rests on a wrong one.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from statistics import median
from typing import Any, NamedTuple

from nearcast.index import Batch, Index, IndexChoice, Table, match, read_index
from nearcast_lab.bench.agreement import check_agreement
from nearcast_lab.bench.match import table_for
from nearcast_lab.bench.matching import add_to_table, known_terms, run
from nearcast_lab.progress import Progress
from nearcast_lab.timing import cpu_of, in_turns
from nearcast_lab.workloads.arrays import ArrayWorkload, Subscriptions
from nearcast_lab.workloads.registry import array_workload

_LEARNS = ("ap-tree", "iq-tree", "rq-tree")
"""Indexes that the papers let learn from a history of messages."""
TWEETS = "local-tweets"
"""The workload that stands for the papers' tweets."""
_HISTORY = 20_000
_LATER = 10_000_000
_TRIAL = 16
_FEWEST = 60


class BooleanScale(NamedTuple):
    """How large and how thorough."""

    name: str
    subscriptions: int
    populations: tuple[int, ...]
    messages: int
    rounds: int
    budget_s: float
    """CPU seconds that the slowest index of a point may take for a round."""


class IndexRun(NamedTuple):
    """What was measured of an index on some messages, a message."""

    us: float
    matches: float
    candidates: float


class BuiltIndex(NamedTuple):
    """An index, and what it took to build it."""

    made: Index
    seconds: float
    bytes: float


class BooleanWorld(NamedTuple):
    """A population, and where its messages come from."""

    workload: ArrayWorkload
    subscriptions: Subscriptions
    table: Table


class Lab:
    """Makes populations, builds indexes, and times them."""

    def __init__(self, scale: BooleanScale, seed: int, progress: Progress) -> None:
        self.scale, self.seed = scale, seed
        self._progress, self._title = progress, ""
        self._compiled: set[str] = set()
        self.used: dict[str, str] = {}
        """All options of each index that was made, those that are not in its label too."""

    def begin(self, title: str) -> None:
        """Report what is measured next."""
        self._title = title
        self._progress(title)

    def report(self, text: str) -> None:
        """Report how far it is."""
        self._progress(f"{self._title}: {text}")

    def workload(self, kind: str = TWEETS, **options: Any) -> ArrayWorkload:
        """Make a workload with something varied."""
        written = {name: str(value) for name, value in options.items()}
        return array_workload(kind, seed=self.seed, **written)

    def world(self, count: int, kind: str = TWEETS, **options: Any) -> BooleanWorld:
        """Make a population of `count` subscriptions."""
        self.report(f"making {count:,} subscriptions")
        workload = self.workload(kind, **options)
        subscriptions = workload.subscriptions(0, count)
        table = table_for(workload)
        add_to_table(table, subscriptions, 0, count)
        return BooleanWorld(workload, subscriptions, table)

    def messages(self, world: BooleanWorld, count: int | None = None, **options: Any) -> Batch:
        """Make messages for a population; options may make them others than its workload's."""
        made = self.workload(**options) if options else world.workload
        batch = made.messages(0, count or self.scale.messages)
        return known_terms(batch, world.subscriptions, len(world.table.frequency))

    def make(self, label: str, world: BooleanWorld) -> Index:
        """Make an empty index over a population, with a history where the papers give one."""
        choice = read_index(label)
        if choice.name in _LEARNS:
            history = world.workload.messages(_LATER, _LATER + _HISTORY)
            choice = choice._replace(options=choice.options | {"history": history})
        self._compile(choice, world)
        self.used[label] = _options_of(choice)
        return choice.make(world.table)

    def build(self, label: str, world: BooleanWorld) -> BuiltIndex:
        """Build an index over a population."""
        index = self.make(label, world)
        self.report(f"building {label} for {world.table.live:,} subscriptions")
        _, seconds = cpu_of(index.build)
        return BuiltIndex(index, seconds, float(index.stats()["bytes"]))

    def build_all(self, labels: Sequence[str], world: BooleanWorld) -> dict[str, BuiltIndex]:
        """Build several indexes over the same population."""
        return {label: self.build(label, world) for label in labels}

    def times(self, indexes: dict[str, Index], batch: Batch) -> dict[str, IndexRun]:
        """Let all indexes match the same messages in turn; the median of the rounds of each."""
        self.report("matching")
        trial = [batch.part(0, min(_TRIAL, len(batch)))]
        tallies = [run(index, trial, 1) for index in indexes.values()]
        check_agreement(list(indexes), tallies)
        slowest = max(tally.cpu_s for tally in tallies) / max(1, len(trial[0]))
        fits = int(self.scale.budget_s / max(slowest, 1e-9))
        part = batch.part(0, min(len(batch), max(fits, _FEWEST)))
        taken: dict[str, list[float]] = {label: [] for label in indexes}
        found = dict.fromkeys(indexes, (0, 0))
        for _, label in in_turns(list(indexes), self.scale.rounds):
            answer, seconds = cpu_of(match, indexes[label], part)
            taken[label].append(seconds)
            found[label] = len(answer.owners), answer.candidates
        count = len(part)
        return {
            label: IndexRun(
                median(times) / count * 1e6, found[label][0] / count, found[label][1] / count
            )
            for label, times in taken.items()
        }

    def measure(
        self, labels: Sequence[str], world: BooleanWorld, batch: Batch | None = None
    ) -> tuple[dict[str, BuiltIndex], dict[str, IndexRun]]:
        """Build indexes over a population, and time them on messages."""
        built = self.build_all(labels, world)
        messages = self.messages(world) if batch is None else batch
        return built, self.times({name: one.made for name, one in built.items()}, messages)

    def runs(
        self, labels: Sequence[str], world: BooleanWorld, batch: Batch | None = None
    ) -> dict[str, IndexRun]:
        """Time indexes on messages, and keep none of them."""
        return self.measure(labels, world, batch)[1]

    def _compile(self, choice: IndexChoice, world: BooleanWorld) -> None:
        """Let an index do everything once on a few rows, before it is timed."""
        if choice.label in self._compiled:
            return
        self._compiled.add(choice.label)
        self.report(f"compiling {choice.label}")
        table = table_for(world.workload)
        few = min(300, len(world.subscriptions) - 1)
        add_to_table(table, world.subscriptions, 0, few)
        index = choice.make(table)
        index.build()
        index.insert(add_to_table(table, world.subscriptions, few, few + 1))
        match(index, world.workload.messages(0, 4))


def _options_of(choice: IndexChoice) -> str:
    """Write the options of an index, with the defaults of those that were not given."""
    known = signature(choice.kind.__init__).parameters.values()
    options = {each.name: each.default for each in known if each.kind is each.KEYWORD_ONLY}
    options |= choice.options
    if options.get("history") is not None:
        options["history"] = f"{len(options['history']):,} messages"
    return ", ".join(f"{name}={value}" for name, value in options.items()) or "no options"


def insert_rest(
    indexes: dict[str, Index], world: BooleanWorld, first: int, step: int
) -> dict[str, float]:
    """Add the subscriptions from `first` on to table and indexes; microseconds a row of each."""
    taken = dict.fromkeys(indexes, 0.0)
    end = len(world.subscriptions)
    for start in range(first, end, step):
        rows = add_to_table(world.table, world.subscriptions, start, min(start + step, end))
        for label, index in indexes.items():
            taken[label] += cpu_of(index.insert, rows)[1]
    count = max(1, end - first)
    return {label: 1e6 * total / count for label, total in taken.items()}
