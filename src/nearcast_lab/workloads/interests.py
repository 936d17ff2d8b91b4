"""Populations that ask for more than terms: properties, phrases, prefixes, places alone.

Everything is made from a seed. People and messages are around the same cities, large ones more
often than small ones. Messages have words by Zipf's law and two properties, a category and a price.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Floats, Int64s
from nearcast_lab.workloads.words import words_of
from nearcast_lab.workloads.zipf import cumulative_weights, ranks_of

CATEGORIES = ("food", "travel", "sport", "music", "phones", "books", "cars", "home")
_CITIES, _VOCABULARY, _WORDS = 1000, 50_000, 9
_METRES = 111_195.0  # of a degree of latitude


class Interests(NamedTuple):
    """Subscriptions as columns: ids, queries (None where a region is all) and regions as JSON."""

    ids: list[str]
    queries: list[str | None]
    regions: list[str]

    def table(self) -> pa.Table:
        """The table that `Engine.subscribe_table` takes."""
        columns = {
            "id": pa.array(self.ids, pa.string()),
            "query": pa.array(self.queries, pa.string()),
            "region": pa.array(self.regions, pa.string()),
        }
        return pa.table(columns)


class Stream(NamedTuple):
    """Messages as columns; `words` are the numbers of their words, one row a message."""

    ids: list[str]
    words: Int64s
    texts: list[str]
    points: Floats
    properties: list[str]

    def table(self, properties: bool = False, ttl: float | None = None) -> pa.Table:
        """The table that `Engine.publish_table` takes."""
        lons, lats = self.points.T
        columns = {
            "id": pa.array(self.ids, pa.string()),
            "text": pa.array(self.texts, pa.string()),
            "point": pa.FixedSizeListArray.from_arrays(np.column_stack([lons, lats]).ravel(), 2),
        }
        if properties:
            columns["properties"] = pa.array(self.properties, pa.string())
        if ttl is not None:
            columns["ttl"] = pa.array(np.full(len(self.ids), ttl))
        return pa.table(columns)

    def part(self, start: int, stop: int) -> Stream:
        """Some of the messages."""
        some = slice(start, stop)
        return Stream(
            self.ids[some], self.words[some], self.texts[some], self.points[some],
            self.properties[some],
        )  # fmt: skip


class InterestsWorkload:
    """Makes populations and messages from a seed."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self._cities = np.column_stack(
            [self._random.uniform(-170, 170, _CITIES), self._random.uniform(-55, 65, _CITIES)]
        )
        self._sizes = cumulative_weights(_CITIES, 0.8)
        self._weights = cumulative_weights(_VOCABULARY, 1.0, 20.0)
        self.vocabulary: list[str] = words_of(np.arange(_VOCABULARY)).tolist()
        self.frequency = np.diff(self._weights, prepend=0.0) / self._weights[-1]

    def _places(self, count: int, spread: float = 0.15) -> Floats:
        """Points around cities; `spread` is in degrees."""
        city = self._cities[ranks_of(self._sizes, self._random.random(count))]
        offset: Floats = self._random.normal(0.0, spread, (count, 2))
        return np.clip(city + offset, (-179.0, -85.0), (179.0, 85.0))

    def words(self, count: int, each: int) -> Int64s:
        """Numbers of words, frequent ones more often, a row for each of `count`."""
        return ranks_of(self._weights, self._random.random(count * each)).reshape(count, each)

    def _metres(self, count: int, least: float, most: float) -> Floats:
        """Lengths, as many short as long ones by their logarithm."""
        return np.exp(self._random.uniform(np.log(least), np.log(most), count))

    def messages(self, count: int, prefix: str = "m") -> Stream:
        """Messages of nine words at points, with a category and a price."""
        words = self.words(count, _WORDS)
        named = np.array(self.vocabulary, np.object_)[words]
        category = self._random.integers(0, len(CATEGORIES), count).tolist()
        price = self._random.integers(1, 1000, count).tolist()
        made = [
            f'{{"category": "{CATEGORIES[kind]}", "price": {cost}}}'
            for kind, cost in zip(category, price, strict=True)
        ]
        texts = [" ".join(row) for row in named.tolist()]
        ids = [f"{prefix}{number}" for number in range(count)]
        return Stream(ids, words, texts, self._places(count), made)

    def box_regions(self, count: int, least: float = 2e3, most: float = 4e4) -> list[str]:
        """Boxes around cities, with sides between two lengths in metres."""
        points, sides = self._places(count), self._metres(count, least, most) / _METRES / 2
        edges = np.column_stack([points - sides[:, None], points + sides[:, None]])
        return [
            f'{{"type": "Box", "bbox": [{w:.6f}, {s:.6f}, {e:.6f}, {n:.6f}]}}'
            for w, s, e, n in edges.tolist()
        ]

    def circle_regions(self, count: int, least: float, most: float) -> list[str]:
        """Circles around cities, with radii between two lengths in metres."""
        points, radii = self._places(count), self._metres(count, least, most)
        return [
            f'{{"type": "Circle", "center": [{lon:.6f}, {lat:.6f}], "radius": {radius:.1f}}}'
            for (lon, lat), radius in zip(points.tolist(), radii.tolist(), strict=True)
        ]

    def polygon_regions(self, count: int, least: float = 1e3, most: float = 4e4) -> list[str]:
        """Hexagons around cities, drawn out in one direction."""
        points, reach = self._places(count), self._metres(count, least, most) / _METRES
        angles = np.linspace(0.0, 2 * np.pi, 7)
        lons = points[:, :1] + reach[:, None] * np.cos(angles)
        lats = points[:, 1:] + 0.6 * reach[:, None] * np.sin(angles)
        made = []
        for xs, ys in zip(lons.round(6).tolist(), lats.round(6).tolist(), strict=True):
            xs[-1], ys[-1] = xs[0], ys[0]
            ring = ", ".join(f"[{x}, {y}]" for x, y in zip(xs, ys, strict=True))
            made.append(f'{{"type": "Polygon", "coordinates": [[{ring}]]}}')
        return made

    def geofences(self, count: int) -> Interests:
        """Circles of 100 m to 10 km without a query."""
        ids = [f"s{number}" for number in range(count)]
        return Interests(ids, [None] * count, self.circle_regions(count, 100.0, 10_000.0))

    def plain(self, count: int) -> Interests:
        """One to three words in a box."""
        words = np.array(self.vocabulary, np.object_)[self.words(count, 3)].tolist()
        ids = [f"s{number}" for number in range(count)]
        queries: list[str | None] = [" ".join(row[: n % 3 + 1]) for n, row in enumerate(words)]
        return Interests(ids, queries, self.box_regions(count))

    def with_property(self, interests: Interests) -> Interests:
        """The same, each with a comparison of a property: half a category, half a price."""
        count = len(interests.ids)
        kinds = self._random.integers(0, len(CATEGORIES), count).tolist()
        prices = self._random.integers(100, 1000, count).tolist()
        more = [
            f" category:{CATEGORIES[kinds[n]]}" if n % 2 else f" price:<{prices[n]}"
            for n in range(count)
        ]
        queries = [f"{query}{one}" for query, one in zip(interests.queries, more, strict=True)]
        return interests._replace(queries=list(queries))

    def pairs(self, count: int, stream: Stream) -> tuple[Interests, Interests]:
        """Two words that some message has side by side: both of them, and as a phrase."""
        rows = self._random.integers(0, len(stream.ids), count)
        columns = self._random.integers(0, _WORDS - 1, count)
        names = np.array(self.vocabulary, np.object_)
        first, second = names[stream.words[rows, columns]], names[stream.words[rows, columns + 1]]
        both = [f"{one} {two}" for one, two in zip(first, second, strict=True)]
        ids = [f"s{number}" for number in range(count)]
        every = Interests(ids, list(both), self.box_regions(count))
        return every, every._replace(queries=[f'"{words}"' for words in both])

    def prefixes(self, count: int) -> tuple[Interests, Interests]:
        """Prefixes of three to six letters, and terms that are about as frequent."""
        words = self.words(count, 1)[:, 0]
        lengths = self._random.integers(3, 7, count).tolist()
        begins = [self.vocabulary[w][:n] for w, n in zip(words.tolist(), lengths, strict=True)]
        total: dict[str, float] = dict.fromkeys(begins, 0.0)
        for word, frequency in zip(self.vocabulary, self.frequency.tolist(), strict=True):
            for length in range(3, 7):
                if len(word) >= length and word[:length] in total:
                    total[word[:length]] += frequency
        wanted = np.array([total[begin] for begin in begins])
        like = len(words) and np.searchsorted(-self.frequency, -wanted)
        terms = [self.vocabulary[min(n, _VOCABULARY - 1)] for n in np.asarray(like).tolist()]
        ids, regions = [f"s{number}" for number in range(count)], self.box_regions(count, 500, 4e3)
        asked: list[str | None] = [f"{begin}*" for begin in begins]
        return Interests(ids, list(terms), regions), Interests(ids, asked, regions)

    def deals(self, count: int) -> Interests:
        """A deal service: circles, boxes and polygons; a third ask for more than words."""
        words = np.array(self.vocabulary, np.object_)[self.words(count, 3)].tolist()
        kind, more = self._random.random(count), self._random.random(count)
        circles = self.circle_regions(count, 500.0, 20_000.0)
        boxes, polygons = self.box_regions(count), self.polygon_regions(count)
        regions = [
            circles[n] if kind[n] < 0.6 else boxes[n] if kind[n] < 0.85 else polygons[n]
            for n in range(count)
        ]
        forms = (
            "{0} AND ({1} OR {2})",
            "{0} NOT {1}",
            '"{0} {1}"',
            "{0} price:<500",
            "{0} category:food",
        )
        queries: list[str | None] = [
            forms[n % len(forms)].format(*row) if more[n] < 1 / 3 else " ".join(row[:2])
            for n, row in enumerate(words)
        ]
        return Interests([f"s{number}" for number in range(count)], queries, regions)
