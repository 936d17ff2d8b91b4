"""`nearcast bench operands`: what queries cost that ask for more than terms.

Populations that differ in one thing are matched with the same messages in turns, in one process, a
batch of each at a time, on one thread. A sample of subscriptions is evaluated one by one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import NamedTuple, TypedDict

import msgspec
import numpy as np
import pyarrow as pa

from nearcast import Engine, Message
from nearcast.geo import region_from_json
from nearcast.text import Content, parse_query
from nearcast.text.analyser import DEFAULT
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.bench.checks import Check, at_least, at_most
from nearcast_lab.bench.geofences import PeerReport, measure_peers
from nearcast_lab.progress import Progress
from nearcast_lab.timing import cpu_of
from nearcast_lab.workloads.interests import Interests, InterestsWorkload, Stream

_BATCH = 1900  # messages, fewer than a second thread is used for
_SAMPLE, _SAMPLED_MESSAGES = 1000, 300
_SINGLE = 2000
_TTL_S = 600.0

PARTS = ("properties", "phrases", "prefixes", "geofences", "deals")
"""What can be measured."""


class OperandReport(TypedDict):
    """What one population costs; times are CPU, the best of all rounds."""

    population: str
    subscriptions: int
    messages: int
    us_per_message: float
    messages_per_cpu_s: float
    matches_per_message: float
    matches_per_cpu_s: float
    load_us: float


class OperandsReport(TypedDict):
    """All that was measured, and the limits beside it."""

    seed: int
    populations: list[OperandReport]
    single_p50_us: float | None
    peers: list[PeerReport]
    checks: list[Check]


class OperandsSetup(NamedTuple):
    """What to measure, and how thoroughly."""

    subscriptions: int
    batches: int = 5
    rounds: int = 3
    seed: int = 1
    parts: Sequence[str] = PARTS


class _Contestant:
    """An engine with one population, and what matching took so far."""

    def __init__(self, name: str, interests: Interests) -> None:
        self.name, self.interests = name, interests
        self.engine = Engine(index="rarest-term")
        _, seconds = cpu_of(self.engine.subscribe_table, interests.table())
        self.load_us = seconds / len(interests.ids) * 1e6
        self.best = float("inf")
        self.messages = self.matches = 0

    def publish(self, table: pa.Table) -> pa.Table:
        """Publish a batch, and note what it took."""
        updates, seconds = cpu_of(self.engine.publish_table, table)
        self.best = min(self.best, seconds / len(table))
        self.messages += len(table)
        self.matches += len(updates)
        return updates

    def report(self) -> OperandReport:
        """What was measured."""
        each = self.matches / self.messages
        return OperandReport(
            population=self.name,
            subscriptions=len(self.interests.ids),
            messages=self.messages,
            us_per_message=self.best * 1e6,
            messages_per_cpu_s=1 / self.best,
            matches_per_message=each,
            matches_per_cpu_s=each / self.best,
            load_us=self.load_us,
        )


def measure_operands(plan: OperandsSetup, progress: Progress) -> OperandsReport:
    """Measure the chosen parts, each with its populations in turns."""
    run = _Run(plan, progress)
    measures = {
        "properties": run.properties,
        "phrases": run.phrases,
        "prefixes": run.prefixes,
        "geofences": run.geofences,
        "deals": run.deals,
    }
    for part in plan.parts:
        measures[part]()
    return OperandsReport(
        seed=plan.seed,
        populations=run.reports,
        single_p50_us=run.single_p50_us,
        peers=run.peers,
        checks=run.checks,
    )


class _Run:
    def __init__(self, plan: OperandsSetup, progress: Progress) -> None:
        self._plan, self._progress = plan, progress
        self._made = InterestsWorkload(plan.seed)
        self._batches = 0
        self.reports: list[OperandReport] = []
        self.peers: list[PeerReport] = []
        self.checks: list[Check] = []
        self.single_p50_us: float | None = None

    def properties(self) -> None:
        """Plain terms, and the same with a comparison each."""
        plain = self._made.plain(self._plan.subscriptions)
        found = self._compare(
            {"terms": plain, "terms and a property": self._made.with_property(plain)}, True
        )
        self.checks.append(at_most("a property, of plain terms", _ratio(*found), 1.5))

    def phrases(self) -> None:
        """Two terms, and the same as a phrase."""
        both, phrase = self._made.pairs(self._plan.subscriptions, self._made.messages(5000))
        found = self._compare({"two terms": both, "a phrase": phrase}, False)
        self.checks.append(at_most("phrases, of their terms", _ratio(*found), 1.5))

    def prefixes(self) -> None:
        """Terms, and prefixes that are about as frequent."""
        terms, prefixes = self._made.prefixes(self._plan.subscriptions)
        found = self._compare({"one term": terms, "a prefix": prefixes}, False)
        self.checks.append(at_most("prefixes, of terms as frequent", _ratio(*found), 3.0))

    def geofences(self) -> None:
        """Circles alone: messages at points, and objects that move."""
        interests = self._made.geofences(self._plan.subscriptions)
        (fences,) = self._compare({"geofences": interests}, False, silent=True)
        fast = fences["messages_per_cpu_s"] / 120_000, fences["matches_per_cpu_s"] / 10_000_000
        self.checks.append(at_least("geofences, of 120,000 messages or 10 M", max(fast), 1.0))
        moving = self._moving(interests)
        fast = moving["messages_per_cpu_s"] / 60_000, moving["matches_per_cpu_s"] / 5_000_000
        self.checks.append(at_least("objects that move, of half of that", max(fast), 1.0))
        self._progress("geofences: an STRtree, and looking at all of them")
        self.peers = measure_peers(interests, self._made.messages(_BATCH).points)

    def _moving(self, interests: Interests) -> OperandReport:
        """Objects that report where they are again and again."""
        self._progress("objects that move: loading")
        one = _Contestant("objects that move", interests)
        stream = self._made.messages(_BATCH, "object")
        stream = stream._replace(texts=[""] * _BATCH)
        one.engine.publish_table(stream.table(ttl=_TTL_S))
        sampled = _Sample(interests)
        before = sampled.pairs(stream)
        for step in range(self._plan.batches * self._plan.rounds):
            self._progress(f"objects that move: step {step}")
            stream = stream._replace(points=stream.points + np.array([1e-4, 5e-5]))
            updates = one.publish(stream.table(ttl=_TTL_S))
            after = sampled.pairs(stream)
            expected = {(*pair, "remove") for pair in before - after}
            expected |= {(*pair, "change" if pair in before else "add") for pair in after}
            sampled.check(one.name, updates, expected)
            before = after
        self.reports.append(one.report())
        return self.reports[-1]

    def deals(self) -> None:
        """A deal service: all kinds of queries and regions, in tables and one by one."""
        interests = self._made.deals(self._plan.subscriptions)
        engines = self._engines({"deals": interests})
        (found,) = self._rounds(engines, True)
        self.checks.append(at_least("deals, 400,000 a second", found["messages_per_cpu_s"], 4e5))
        self._progress("deals: one message after the other")
        stream, taken = self._made.messages(_SINGLE, "single"), []
        for id, text, point in zip(stream.ids, stream.texts, stream.points.tolist(), strict=True):
            start = perf_counter()
            engines[0].engine.publish(id, text, (point[0], point[1]))
            taken.append(perf_counter() - start)
        self.single_p50_us = float(np.median(taken)) * 1e6
        self.checks.append(at_most("one publish, median in us", self.single_p50_us, 20.0))

    def _compare(
        self, all_of: Mapping[str, Interests], properties: bool, silent: bool = False
    ) -> list[OperandReport]:
        return self._rounds(self._engines(all_of), properties, silent)

    def _engines(self, all_of: Mapping[str, Interests]) -> list[_Contestant]:
        engines = []
        for name, interests in all_of.items():
            self._progress(f"{name}: loading {len(interests.ids):,}")
            engines.append(_Contestant(name, interests))
        return engines

    def _rounds(
        self, engines: Sequence[_Contestant], properties: bool, silent: bool = False
    ) -> list[OperandReport]:
        """Let engines match the same batches in turns, and check a sample of each.

        With `silent` messages have no text.
        """
        warm = self._stream(silent).table(properties)
        for one in engines:
            one.engine.publish_table(warm)
        samples = [_Sample(one.interests) for one in engines]
        for turn in range(self._plan.rounds * self._plan.batches):
            stream = self._stream(silent)
            table = stream.table(properties)
            for one, sample in zip(engines, samples, strict=True):
                self._progress(f"{one.name}: batch {turn}")
                updates = one.publish(table)
                if turn == 0:
                    pairs = sample.pairs(stream.part(0, _SAMPLED_MESSAGES), properties)
                    sample.check(one.name, updates, {(*pair, "add") for pair in pairs})
        self.reports += [one.report() for one in engines]
        return self.reports[-len(engines) :]

    def _stream(self, silent: bool) -> Stream:
        self._batches += 1
        stream = self._made.messages(_BATCH, f"batch{self._batches}-")
        return stream._replace(texts=[""] * _BATCH) if silent else stream


def _ratio(one: OperandReport, other: OperandReport) -> float:
    return other["us_per_message"] / one["us_per_message"]


class _Sample:
    """Some subscriptions, evaluated one by one as the definition says."""

    def __init__(self, interests: Interests) -> None:
        step = max(1, len(interests.ids) // _SAMPLE)
        decode = msgspec.json.decode
        self._some = {
            interests.ids[n]: (
                parse_query(interests.queries[n] or "*"),
                region_from_json(decode(interests.regions[n])),
            )
            for n in range(0, len(interests.ids), step)
        }

    def pairs(self, stream: Stream, properties: bool = False) -> set[tuple[str, str]]:
        """Which subscriptions match which messages."""
        found = set()
        for row, id in enumerate(stream.ids[:_SAMPLED_MESSAGES]):
            lon, lat = stream.points[row].tolist()
            given = msgspec.json.decode(stream.properties[row]) if properties else None
            tokens = DEFAULT.tokens(Message(id, stream.texts[row], (lon, lat)).text)
            terms, content = frozenset(tokens), Content(tokens, given)
            for name, (query, region) in self._some.items():
                if region.contains(lon, lat) and query.matches(terms, content):
                    found.add((name, id))
        return found

    def check(self, name: str, updates: pa.Table, expected: set[tuple[str, str, str]]) -> None:
        """Compare what an engine reported of these."""
        early = updates.filter(pa.compute.less(updates["event"], _SAMPLED_MESSAGES))
        columns = (early[each].to_pylist() for each in ("subscription", "message", "op"))
        found = {row for row in zip(*columns, strict=True) if row[0] in self._some}
        if found != expected:
            raise DisagreementError(
                f"{name}: {len(found ^ expected)} updates of a sample differ from what looking at "
                "every subscription finds"
            )
