"""The input of a worker for a step, in the form the core takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.spark.topk.reading import RankedSubscriptions
from nearcast.topk.terms import Bags, TermNumbers

Mask = npt.NDArray[np.bool_]

_NO_BAGS = Bags(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))


class RankedStep(NamedTuple):
    """The input of a worker for a step."""

    messages: pa.Table  # in the schema `window.MESSAGES`
    operations: pa.Table  # its own, of the log: what begins and what ends
    mine: Mask  # the buckets that it has from this step on
    standing: Callable[[Mask], pa.Table]  # the subscriptions of some buckets before the step

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes to apply."""
        return int(self.messages.nbytes + 8 * self.operations.nbytes)


def read_subscriptions(begun: pa.Table, terms: TermNumbers) -> RankedSubscriptions[Bags]:
    """Subscriptions of a log, with terms in the numbers of the core."""
    bags = terms.read(begun["query"].combine_chunks()) if len(begun) else _NO_BAGS
    return RankedSubscriptions.read(begun, bags)


class CoreMessages(NamedTuple):
    """Messages in the form the core takes."""

    points: Floats
    at: Floats
    bags: Bags

    @classmethod
    def read(cls, messages: pa.Table, terms: TermNumbers) -> CoreMessages:
        """Read them from the messages of a step."""
        texts = messages["text"].combine_chunks()
        points = np.column_stack([messages["lon"].to_numpy(), messages["lat"].to_numpy()])
        bags = terms.read(texts) if len(messages) else _NO_BAGS
        return cls(points, messages["at"].to_numpy().copy(), bags)

    def part(self, first: int, end: int) -> tuple[Floats, Floats, Int64s, Int32s, Int32s]:
        """Some of them."""
        starts, terms, counts = self.bags
        return self.points[first:end], self.at[first:end], starts[first : end + 1], terms, counts
