"""`nearcast bench topk`: the core beside the methods of Skype, on one stream in one process."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, TypedDict

import numpy as np

from nearcast.errors import InvalidValue
from nearcast.topk.core import TopK
from nearcast.topk.skype import DISSEMINATIONS, REEVALUATIONS, Skype
from nearcast.topk.window import Window
from nearcast_lab.bench.topk_check import WindowCheck
from nearcast_lab.progress import Progress
from nearcast_lab.timing import cpu_of, least_cpu_of
from nearcast_lab.workloads.topk_arrays import MessageArrays, QueryArrays, TopkArrays

OURS, LAZY = "ours", "ours-lazy"
_CHUNK = 20_000
_INITIAL = 50_000  # subscriptions made at a time
_PROBES = 3
_PHASES = ("match", "buffer", "expiry", "window")


class Matching(TypedDict):
    """What finding the affected subscriptions costs one method, at thresholds equal for all."""

    method: str
    us_per_message: float
    candidates_per_message: float
    visited_per_message: float
    skipped_cells_per_message: float
    affected_per_message: float
    candidates_per_affected: float
    index_bytes_per_subscription: float


class TopkRun(TypedDict):
    """What a stream costs one method: CPU, what was done, and what is kept."""

    method: str
    subscriptions: int
    window: int
    messages: int
    initial_us_per_subscription: float
    messages_per_cpu_s: float
    arriving_us: float
    expiring_us: float
    match_us: float
    buffer_us: float
    window_us: float
    updates_per_message: float
    affected_per_message: float
    candidates_per_message: float
    visited_per_message: float
    scanned_per_message: float
    reevaluations_per_1000: float
    buffer_size: float
    bytes_per_subscription: float
    bytes_per_message: float
    checked: int


class TopkSetup(NamedTuple):
    """What to measure."""

    subscriptions: int
    window: int
    messages: int
    methods: Sequence[str]
    matching: Sequence[str] = ()
    sample: int = 500
    """Messages that each method of dissemination is asked about."""
    check: int = 0
    """How many times, at random moments, results are compared with a plain evaluation."""
    timed: bool = False
    """Whether the window is one of seconds: of as many as its messages take."""


def make(method: str, window: Window, workload: TopkArrays) -> TopK:
    """Make a method by its name: `ours`, `ours-lazy`, or `igpt+cskyband:traversal=term`."""
    place = (window, workload.west, workload.south, workload.diagonal)
    if method in (OURS, LAZY):
        return TopK(*place, lazy=method == LAZY)
    name, _, rest = method.partition(":")
    dissemination, _, reevaluation = name.partition("+")
    options: dict[str, Any] = {}
    for part in filter(None, rest.split(";")):
        option, _, value = part.partition("=")
        if option == "without":
            options[option] = tuple(value.split("/"))
        elif option in ("groups", "capacity", "parameter") and value.isdecimal():
            options[option] = int(value)
        elif option == "traversal":
            options[option] = value
        elif option == "as_printed":
            options[option] = value == "true"
        else:
            known = "groups, capacity, parameter, traversal, without, as_printed"
            raise InvalidValue("--method", method, f"options of {known}, as in groups=20")
    if dissemination not in DISSEMINATIONS or (reevaluation or "kmax") not in REEVALUATIONS:
        expected = f"{OURS}, {LAZY}, or one of {', '.join(DISSEMINATIONS)} and one of "
        raise InvalidValue("--method", method, f"{expected}{', '.join(REEVALUATIONS)} with a +")
    return Skype(
        *place, dissemination=dissemination, reevaluation=reevaluation or "cskyband", **options
    )


def _filled(core: TopK, workload: TopkArrays, window: int) -> None:
    core.ensure_terms(len(workload.idf))
    core.weigh(np.arange(len(workload.idf), dtype=np.int32), workload.idf)
    for first in range(0, window, _CHUNK):
        core.publish(*workload.messages(first, min(first + _CHUNK, window)))


def _some(queries: QueryArrays, first: int, end: int) -> QueryArrays:
    starts = queries.starts[first : end + 1]
    terms = queries.terms[starts[0] : starts[-1]]
    return QueryArrays(
        queries.points[first:end], queries.alphas[first:end], queries.ks[first:end],
        starts - starts[0], terms,
    )  # fmt: skip


def _subscribed(core: TopK, queries: QueryArrays, method: str, progress: Progress) -> float:
    """Enter all subscriptions; give the CPU seconds that took."""
    total, spent = len(queries.points), 0.0
    for first in range(0, total, _INITIAL):
        some = _some(queries, first, min(first + _INITIAL, total))
        spent += cpu_of(core.subscribe, *some)[1]
        done = first + len(some.points)
        progress(f"{method}: {_bar(done / total)} {done:,} of {total:,} subscriptions evaluated")
    return spent


def _bar(part: float) -> str:
    """Draw progress as twenty characters, of which a part is filled."""
    filled = round(20 * part)
    return "━" * filled + "╌" * (20 - filled)


def warm_up(method: str) -> None:
    """Compile what a method needs, on next to nothing."""
    from nearcast_lab.workloads.topk import TopkOptions

    small = TopkArrays(1, TopkOptions(vocabulary=50, cities=2))
    core = make(method, Window(20), small)
    _filled(core, small, 20)
    core.subscribe(*small.subscriptions(0, 30))
    core.publish(*small.messages(20, 60))
    core.members(np.arange(3, dtype=np.int32))
    posts = small.messages(60, 62)
    core.probe(posts.points, posts.starts, posts.terms, posts.counts)
    if isinstance(core, Skype):
        core.set_thetas(np.full(30, 0.5))


def measure_run(
    plan: TopkSetup, workload: TopkArrays, method: str, queries: QueryArrays, progress: Progress
) -> tuple[TopkRun, TopK]:
    """Run a whole stream through one method, from a full window on."""
    warm_up(method)
    progress(f"{method}: filling the window")
    core = make(method, _window(plan, workload), workload)
    _filled(core, workload, plan.window)
    initial = _subscribed(core, queries, method, progress)
    before, spent, updates = core.counters, 0.0, 0
    checks = WindowCheck(workload, queries, plan.window) if plan.check else None
    moments = _moments(plan)
    for first, end in pairwise(moments):
        posts = workload.messages(plan.window + first, plan.window + end)
        changes, seconds = cpu_of(core.publish, *posts)
        spent += seconds
        updates += len(changes.events)
        if checks is not None and not checks.agrees(core, core.next, seed=end):
            raise AssertionError(f"{method} and a plain evaluation differ after {end:,} messages")
        progress(f"{method}: {end:,} of {plan.messages:,} messages")
    after = core.counters
    done = {name: (after[name] - before[name]) / plan.messages for name in after}
    cycles = sum(done[f"{phase}_cycles"] for phase in _PHASES) or 1.0
    us = spent / plan.messages * 1e6
    cost = {phase: us * done[f"{phase}_cycles"] / cycles for phase in _PHASES}
    return {
        "method": method,
        "subscriptions": plan.subscriptions,
        "window": plan.window,
        "messages": plan.messages,
        "initial_us_per_subscription": initial / plan.subscriptions * 1e6,
        "messages_per_cpu_s": plan.messages / spent,
        "arriving_us": us - cost["expiry"],
        "expiring_us": cost["expiry"],
        "match_us": cost["match"],
        "buffer_us": cost["buffer"],
        "window_us": cost["window"],
        "updates_per_message": updates / plan.messages,
        "affected_per_message": done["affected"],
        "candidates_per_message": done["candidates"],
        "visited_per_message": done["visited"],
        "scanned_per_message": done["scanned"],
        "reevaluations_per_1000": 1000 * done["reevaluated"],
        "buffer_size": core.buffered,
        "bytes_per_subscription": core.subscription_bytes / plan.subscriptions,
        "bytes_per_message": core.message_bytes / plan.window,
        "checked": 0 if checks is None else checks.done,
    }, core


def _window(plan: TopkSetup, workload: TopkArrays) -> Window:
    return Window(seconds=plan.window / workload.rate) if plan.timed else Window(plan.window)


def _moments(plan: TopkSetup) -> list[int]:
    """Where to stop and look: evenly, or at as many random moments as there are checks."""
    if not plan.check:
        return [*range(0, plan.messages, _CHUNK), plan.messages]
    between = np.arange(1, plan.messages)
    count = min(plan.check - 1, len(between))
    draws = np.random.default_rng(1).choice(between, count, replace=False)
    return sorted((0, *draws.tolist(), plan.messages))


def measure_matching(
    plan: TopkSetup, workload: TopkArrays, core: TopK, queries: QueryArrays, progress: Progress
) -> list[Matching]:
    """Ask every method of dissemination about the same messages, with the thresholds of `core`."""
    at = plan.window + plan.messages
    posts = workload.messages(at, at + plan.sample)
    reports = [_probed(OURS, core, posts, core.subscription_bytes)]
    thetas, expected = core.thetas, core.probe(posts.points, posts.starts, *posts[3:])
    for method in plan.matching:
        warm_up(method)
        progress(f"{method}: entering subscriptions")
        other = make(method, Window(1), workload)
        other.ensure_terms(len(workload.idf))
        other.weigh(np.arange(len(workload.idf), dtype=np.int32), workload.idf)
        other.subscribe(*queries)
        assert isinstance(other, Skype)  # noqa: S101 - every other method is one of the paper
        other.set_thetas(thetas)
        progress(f"{method}: matching")
        reports.append(_probed(method, other, posts, other.index_bytes))
        if "as_printed=true" not in method:
            found = other.probe(posts.points, posts.starts, *posts[3:])
            if found != expected:
                raise AssertionError(f"{method} finds {found}, {OURS} {expected}: they differ")
    return reports


def _probed(method: str, core: TopK, posts: MessageArrays, size: int) -> Matching:
    count, subscriptions = len(posts.points), len(core.thetas)
    before, skipped = core.counters, _skipped(core)
    asked = posts.points, posts.starts, posts.terms, posts.counts
    (found, _), best = least_cpu_of(_PROBES, core.probe, *asked)
    after = core.counters
    done = {name: (after[name] - before[name]) / (_PROBES * count) for name in after}
    return {
        "method": method,
        "us_per_message": best / count * 1e6,
        "candidates_per_message": done["candidates"],
        "visited_per_message": done["visited"],
        "skipped_cells_per_message": (_skipped(core) - skipped) / (_PROBES * count),
        "affected_per_message": found / count,
        "candidates_per_affected": done["candidates"] / max(found / count, 1e-9),
        "index_bytes_per_subscription": size / subscriptions,
    }


def _skipped(core: TopK) -> int:
    return core.skipped_cells if isinstance(core, Skype) else 0
