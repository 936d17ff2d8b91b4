"""Workload `moving`: subscribers on the road, and messages that last.

After AP+-Tree (VLDB J.), section 5.2.1: subscribers travel on a road network, keywords as in
`tweets`; for 100 timestamps of 30 seconds, a share of the subscribers (`mobility`) reports a new
place at each; a message lives for 10 timestamps on average. The messages asked for are spread over
that time, after a first part (`initial`) that is there before anyone moves. The log holds about
`timestamps * mobility * subscriptions` moves.

With `tracks` the subscribers follow recorded tracks instead: subscriber i the i-th track, from the
first again when there are more subscribers than tracks. Every recorded position is a move, the
space is the box around them, and `space`, `junctions`, `velocity`, `mobility` and `timestamps` do
not apply; `seconds` still measures how long messages live.

Departures: the road network, its size and the speeds are made up, in a box around San Joaquin
County. Regions are circles of 0.5 to 5 km unless `shape` asks for the paper's boxes. `mobility` of
20 % and `area` of 0.01 % are values of the paper's table 3, chosen here; `initial` is our own, and
the paper's arrival rate is `arrivals`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from itertools import chain
from math import sqrt
from operator import itemgetter
from typing import Annotated, Literal, NamedTuple

import numpy as np
from msgspec import Meta

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast_lab.workloads.base import (
    START,
    Amount,
    Corpus,
    Count,
    Event,
    Positive,
    Share,
    Workload,
    WorkloadOptions,
    WorkloadRequest,
    ordered,
    published,
)
from nearcast_lab.workloads.draws import Draws, Ints
from nearcast_lab.workloads.roads import Vehicles, build_roads
from nearcast_lab.workloads.space import boxes_around, rounded
from nearcast_lab.workloads.tracks import Tracks, read_tracks


class MovingOptions(WorkloadOptions, frozen=True):
    """Options of `moving`; `rate` is not used, the messages fill the time.

    - `shape`: `circle`, with radii of `min_radius` to `max_radius` metres, or `box`, with `area` as
      a share of the space;
    - `timestamps`, `seconds`: how many steps, and how long each is;
    - `mobility`: the share of subscribers that report a new place at each step;
    - `velocity`: a factor on all speeds (30 to 60 km/h, half more on main roads);
    - `life`: steps that a message lives on average; from half of it to one and a half times it;
    - `initial`: the share of the messages that is there before anyone moves;
    - `arrivals`: in place of `initial`, how many messages come at each step; those that are left
      are there before anyone moves;
    - `tracks`: a Parquet or CSV file of recorded tracks: `id`, `time`, `lon`, `lat`.
    """

    space: str = "san-joaquin"
    cities: Count = 40
    max_keywords: Count = 5
    shape: Literal["circle", "box"] = "circle"
    min_radius: Amount = 500.0
    max_radius: Amount = 5000.0
    area: Share = 0.0001
    junctions: Count = 18_000
    timestamps: Count = 100
    seconds: Positive = 30.0
    mobility: Share = 0.2
    velocity: Positive = 1.0
    life: Positive = 10.0
    initial: Share = 0.1
    arrivals: Annotated[int, Meta(ge=0)] = 0
    tracks: str = ""


class _Report(NamedTuple):
    """Who reports where they are, and when, in order of time."""

    who: Ints
    places: Floats
    times: Floats


class _Log:
    """Writes the events of one log."""

    def __init__(self, request: WorkloadRequest, options: MovingOptions, corpus: Corpus) -> None:
        self._request = request
        self._options = options
        self._corpus = corpus
        self._count = Draws(request.seed, "keyword count")
        self._radius = Draws(request.seed, "radius")
        self._life = Draws(request.seed, "life")
        self._moment = Draws(request.seed, "moment")

    def _regions(self, who: Ints, places: Floats) -> list[Event]:
        options, space = self._options, self._corpus.space
        if options.shape == "box":
            side = np.full(len(who), sqrt(options.area))
            boxes = boxes_around(places, side * space.width, side * space.height)
            return [{"type": "Box", "bbox": box} for box in boxes.tolist()]
        radii = np.round(self._radius.uniform(who, options.min_radius, options.max_radius))
        return [
            {"type": "Circle", "center": center, "radius": radius}
            for center, radius in zip(rounded(places).tolist(), radii.tolist(), strict=True)
        ]

    def subscriptions(self, places: Floats) -> Iterator[Event]:
        """Subscribe everyone at the place where they start."""
        corpus = self._corpus
        for numbers in corpus.chunks(0, self._request.subscriptions):
            wanted = self._count.integers(numbers, 1, self._options.max_keywords)
            keywords = corpus.keywords(numbers, corpus.sources(numbers), wanted)
            queries = corpus.words.phrases(*keywords)
            regions = self._regions(numbers, places[numbers])
            for number, query, region in zip(numbers.tolist(), queries, regions, strict=True):
                yield {"op": "subscribe", "id": f"s{number + 1}", "query": query, "region": region}

    def moves(self, reports: Iterator[_Report]) -> Iterator[Event]:
        """Move the objects that report."""
        for report in reports:
            for rows in self._corpus.chunks(0, len(report.who)):
                who, times = report.who[rows], np.round(report.times[rows], 3)
                regions = self._regions(who, report.places[rows])
                for number, region, at in zip(who.tolist(), regions, times.tolist(), strict=True):
                    yield {"op": "move", "id": f"s{number + 1}", "region": region, "at": at}

    def messages(self, start: float, end: float, initial: int) -> Iterator[Event]:
        """Publish the initial messages at the start, and the others up to the end."""
        corpus, options, total = self._corpus, self._options, self._request.messages
        average = options.life * options.seconds
        for numbers in corpus.chunks(0, total):
            step = (end - start) / max(1, total - initial)
            later = numbers - initial + self._moment.uniform(numbers)
            times = np.round(start + np.where(numbers < initial, 0.0, later * step), 3)
            lives = self._life.uniform(numbers, 0.5 * average, 1.5 * average)
            texts = corpus.words.phrases(*corpus.terms(numbers))
            events = published(numbers, texts, corpus.cities.points(numbers), times)
            for event, ttl in zip(events, np.maximum(np.round(lives), 1).tolist(), strict=True):
                event["ttl"] = ttl
                yield event


def _drives(seed: int, options: MovingOptions, vehicles: Vehicles, count: int) -> Iterator[_Report]:
    """Let the vehicles drive; each has its own moment in every step, at which it may report."""
    everyone = np.arange(count, dtype=np.int64)
    phase = Draws(seed, "phase").uniform(everyone)
    order = np.argsort(phase, kind="stable")
    reports = Draws(seed, "reports")
    seen = np.zeros(count)
    for step in range(options.timestamps):
        moves = reports.uniform((everyone << 24) + step) < options.mobility
        who = order[moves[order]]
        now = (step + phase[who]) * options.seconds
        # Objects that do not report are skipped, and catch up later.
        vehicles.drive(who, now - seen[who])
        seen[who] = now
        yield _Report(who, vehicles.places(who), START + now)


def _followed(tracks: Tracks, count: int, chunk: int) -> Iterator[_Report]:
    """Let subscriber i follow track i, modulo the number of tracks."""
    total = len(tracks.first)
    for start in range(0, len(tracks.track), chunk):
        rows = np.arange(start, min(start + chunk, len(tracks.track)), dtype=np.int64)
        rows = rows[tracks.first[tracks.track[rows]] != rows]
        followers = np.maximum(0, -(-(count - tracks.track[rows]) // total))
        row = np.repeat(rows, followers)
        turn = np.arange(len(row)) - np.repeat(np.cumsum(followers) - followers, followers)
        who = tracks.track[row] + turn * total
        yield _Report(who, tracks.points[row], tracks.times[row])


def _there_first(total: int, options: MovingOptions, lasts: float) -> int:
    """Count the messages before the first move, given for how many seconds there are moves."""
    if not options.arrivals:
        return int(options.initial * total)
    later = round(options.arrivals * lasts / options.seconds)
    if later > total:
        raise InvalidValue(
            "arrivals", options.arrivals, f"fewer: that makes {later} messages of {total} in all"
        )
    return total - later


def _events(request: WorkloadRequest, options: MovingOptions) -> Iterator[Event]:
    ordered("radius", options.min_radius, options.max_radius)
    count = request.subscriptions
    everyone = np.arange(count, dtype=np.int64)
    if options.tracks:
        tracks = read_tracks(options.tracks)
        corpus = Corpus(request.seed, options, tracks.space)
        places = tracks.points[tracks.first[everyone % len(tracks.first)]]
        start, end = float(tracks.times[0]), float(tracks.times[-1])
        reports = _followed(tracks, count, options.chunk)
    else:
        corpus = Corpus(request.seed, options)
        roads = build_roads(request.seed, corpus.space, options.junctions)
        vehicles = Vehicles(request.seed, roads, count, options.velocity)
        places = vehicles.places(everyone)
        start, end = START, START + options.timestamps * options.seconds
        reports = _drives(request.seed, options, vehicles, count)
    log = _Log(request, options, corpus)
    initial = _there_first(request.messages, options, end - start)
    messages = log.messages(start, end, initial)
    stream = heapq.merge(messages, log.moves(reports), key=itemgetter("at"))
    return chain(log.subscriptions(places), stream)


MOVING = Workload(
    name="moving",
    description="subscribers that travel on roads, and messages that last five minutes",
    paper="AP+-Tree (VLDB J.), section 5.2.1",
    options=MovingOptions,
    events=_events,
)
