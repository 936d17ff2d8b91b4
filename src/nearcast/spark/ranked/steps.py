"""What a worker is told of a step, as the core takes it, and what it tells, as numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.spark.ranked.reading import tops_in
from nearcast.topk.terms import Bags, TermNumbers

Mask = npt.NDArray[np.bool_]

_NO_BAGS = Bags(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


class RankedStep(NamedTuple):
    """What a worker is told of a step."""

    messages: pa.Table  # in the schema `window.MESSAGES`
    operations: pa.Table  # its own, of the log: what begins and what ends
    mine: Mask  # the buckets that it has from this step on
    standing: Callable[[Mask], pa.Table]  # what stood in some buckets before the step

    @property
    def nbytes(self) -> int:
        """About how much room it takes."""
        return int(self.messages.nbytes + 8 * self.operations.nbytes)


class Told(NamedTuple):
    """Updates as numbers: when, whose, which message, what it scores; negative ops remove."""

    seq: Int64s
    ops: Int32s
    owners: Int32s
    messages: Int64s
    scores: Floats


class Begun(NamedTuple):
    """Subscriptions that begin, as the core takes them."""

    owners: Int32s
    tops: Floats
    bags: Bags

    @classmethod
    def read(cls, begun: pa.Table, terms: TermNumbers) -> Begun:
        """Take them from a log."""
        bags = terms.read(begun["query"].combine_chunks()) if len(begun) else _NO_BAGS
        return cls(begun["owner"].to_numpy(), tops_in(begun), bags)


class CoreMessages(NamedTuple):
    """Messages as the core takes them."""

    points: Floats
    at: Floats
    bags: Bags

    @classmethod
    def read(cls, messages: pa.Table, terms: TermNumbers) -> CoreMessages:
        """Take them from the messages of a step."""
        texts = messages["text"].combine_chunks()
        points = np.column_stack([messages["lon"].to_numpy(), messages["lat"].to_numpy()])
        bags = terms.read(texts) if len(messages) else _NO_BAGS
        return cls(points, messages["at"].to_numpy().copy(), bags)

    def part(self, first: int, end: int) -> tuple[Floats, Floats, Int64s, Int32s, Int32s]:
        """Some of them."""
        starts, terms, counts = self.bags
        return self.points[first:end], self.at[first:end], starts[first : end + 1], terms, counts
