"""Event logs by the million as Arrow tables, each event to be had by its number.

First a population subscribes; then come `ratio` messages to one change, which is a newcomer or, the
next time, the end of the oldest subscription. So the population keeps its size.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Floats
from nearcast.errors import InvalidValue
from nearcast.events.columns import EVENT_SCHEMA
from nearcast_lab.workloads.arrays import ArrayWorkload
from nearcast_lab.workloads.base import START
from nearcast_lab.workloads.draws import Ints
from nearcast_lab.workloads.registry import array_workload
from nearcast_lab.workloads.sts_arrays import LOCAL, STS_WORKLOADS, StsArrays
from nearcast_lab.workloads.words import Words

_RATE = 1000.0
_JOINTS = [" ", " OR "]


class EventStream:
    """An endless log, made from the arrays of a workload, by name, or of one given.

    >>> EventStream(seed=1, subscriptions=2, vocabulary=50).table(0, 9)["op"].to_pylist()[1:4]
    ['subscribe', 'publish', 'publish']
    """

    def __init__(
        self,
        *,
        seed: int = 1,
        subscriptions: int = 1_000_000,
        ratio: int = 5,
        kind: str = "tweets",
        workload: ArrayWorkload | None = None,
        **options: Any,
    ) -> None:
        for name, value, least in (("subscriptions", subscriptions, 0), ("ratio", ratio, 1)):
            if value < least:
                raise InvalidValue(name, value, f"{least} or more")
        self.subscriptions = subscriptions
        self._ratio = ratio
        if workload is None:
            made = StsArrays.named if kind in STS_WORKLOADS | LOCAL else array_workload
            workload = made(kind, seed=seed, **options)
        self._workload = workload
        self._words = Words(len(self._workload.frequency))

    def table(self, first: int, end: int) -> pa.Table:
        """Make the events numbered `first` up to `end`, with the columns of an event log."""
        number = np.arange(first, end, dtype=np.int64)
        block, place = np.divmod(number - self.subscriptions, self._ratio + 1)
        early = number < self.subscriptions
        change = ~early & (place == self._ratio)
        publishes = ~early & ~change
        leaves = change & (block % 2 == 1)
        subscribes = ~publishes & ~leaves
        who = np.where(early, number, self.subscriptions + block // 2)
        who[publishes] = (block * self._ratio + place)[publishes]
        who[leaves] = block[leaves] // 2
        op = np.where(publishes, 0, np.where(leaves, 2, 1))
        at = np.round(START + (number - self.subscriptions) / _RATE, 3)
        query, region = self._subscriptions(who[subscribes], subscribes)
        text, point = self._messages(who[publishes], publishes)
        count = len(number)
        columns = {
            "op": pa.array(["publish", "subscribe", "unsubscribe"]).take(pa.array(op)),
            "id": pc.binary_join_element_wise(
                pa.array(["m", "s", "s"]).take(pa.array(op)),
                pc.cast(pa.array(who + 1), pa.string()),
                "",
            ),
            "query": query,
            "text": text,
            "region": region,
            "point": point,
            "at": pa.array(at, mask=early),
        }
        absent = {
            field.name: pa.nulls(count, field.type)
            for field in EVENT_SCHEMA
            if field.name not in columns
        }
        return pa.table(columns | absent, schema=EVENT_SCHEMA)

    def _subscriptions(self, who: Ints, rows: Any) -> tuple[pa.Array, pa.Array]:
        """Give the queries and regions of the rows that subscribe."""
        kind = EVENT_SCHEMA.field("region").type
        made = [self._workload.subscriptions(*run) for run in _runs(who)]
        boxes = _joined([one.boxes for one in made], np.empty((0, 4)))
        lengths = _joined([np.diff(one.starts) for one in made], np.empty(0, np.int64))
        terms = _joined([one.terms for one in made], np.empty(0, np.int32))
        parts = {
            "type": pa.array(["Box"]).take(pa.array(np.zeros(len(rows), np.int8))),
            "bbox": _lists(rows, np.full(len(who), 4), pa.array(boxes.ravel())),
        }
        parts |= {
            each.name: pa.nulls(len(rows), each.type) for each in kind if each.name not in parts
        }
        region = pa.StructArray.from_arrays(
            list(parts.values()), fields=list(kind), mask=pa.array(~rows)
        )
        joint = np.zeros(len(rows), np.int8)
        joint[rows] = _joined(
            [np.zeros(len(one), np.bool_) if one.either is None else one.either for one in made],
            np.empty(0, np.bool_),
        )
        return self._phrases(rows, lengths, terms, pa.array(_JOINTS).take(pa.array(joint))), region

    def _messages(self, who: Ints, rows: Any) -> tuple[pa.Array, pa.Array]:
        """Give the texts and points of the rows that publish."""
        made = [self._workload.messages(*run) for run in _runs(who)]
        boxes: Floats = _joined([one.boxes for one in made], np.empty((0, 4)))
        lengths = _joined([np.diff(one.starts) for one in made], np.empty(0, np.int64))
        terms = _joined([one.terms for one in made], np.empty(0, np.int32))
        point = _lists(rows, np.full(len(who), 2), pa.array(boxes[:, :2].ravel()))
        return self._phrases(rows, lengths, terms), point

    def _phrases(self, rows: Any, lengths: Ints, terms: Any, joint: Any = " ") -> pa.Array:
        known, places = np.unique(terms, return_inverse=True)
        words = pa.array(self._words.of(known.astype(np.int64)), pa.string())
        return pc.binary_join(_lists(rows, lengths, words.take(pa.array(places))), joint)


def _runs(numbers: Ints) -> list[tuple[int, int]]:
    """Cut rising numbers into runs without gaps, each from its first up to its end."""
    if not len(numbers):
        return []
    cuts = np.flatnonzero(np.diff(numbers) != 1) + 1
    parts = np.split(numbers, cuts)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts]


def _joined(parts: list[Any], none: Any) -> Any:
    return np.concatenate(parts) if parts else none


def _lists(rows: Any, lengths: Ints, values: pa.Array) -> pa.Array:
    """Put values into lists of these lengths in the chosen rows, and nulls into the others."""
    every = np.zeros(len(rows) + 1, np.int32)
    every[1:][rows] = lengths
    offsets = pa.array(np.cumsum(every, dtype=np.int32))
    return pa.ListArray.from_arrays(offsets, values, mask=pa.array(~rows))
