"""The operations that move subscriptions when another version of the routing table takes over.

A worker that is to hold a subscription or an active message gets it with the operations of the
step, as it began; a worker that is not to hold it any longer forgets it. Both follow from the
current definitions and the two versions, so the step can be routed again after a crash. An active
message is not removed from a worker: it ends by itself, and does no harm where another worker
answers for it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearcast.arrays.types import Int64s
from nearcast.partition.plan import Plan
from nearcast.spark.driver.placing import (
    dealt,
    holders,
    joined,
    keyed,
    message_holders,
    split_pairs,
)
from nearcast.spark.operations import FORGET, completed


class Carried(NamedTuple):
    """Operations for each worker of either version, and their totals."""

    shards: list[pa.Table]
    cells: int  # that move
    subscriptions: int  # that workers get, counted for each worker
    messages: int
    bytes: int


def carry(before: Plan, after: Plan, cells: int, begun: pa.Table, lasting: pa.Table) -> Carried:
    """Find what workers get and forget when `cells` cells move.

    `begun` are the current subscriptions that meet one of these cells, `lasting` the active
    messages.
    """
    workers = max(before.workers, after.workers)
    operations, rows = keyed(after, begun)
    old, new = (joined(*holders(plan, rows, begun["owner"].to_numpy())) for plan in (before, after))
    coming, going = split_pairs(_without(new, old)), split_pairs(_without(old, new))
    kind = pa.array(np.full(len(begun), FORGET, np.int8))
    forgotten = completed(pa.table({"kind": kind, "owner": begun["owner"]}))
    parts = [dealt(operations, coming, workers), dealt(forgotten, going, workers)]
    messages = 0
    if len(lasting):
        old, new = (joined(*message_holders(plan, lasting)) for plan in (before, after))
        arriving = split_pairs(_without(new, old))
        messages = len(arriving[0])
        elsewhere = pa.array(np.full(len(lasting), -1, np.int32))
        lasting = completed(lasting.append_column("was", elsewhere))
        parts.append(dealt(lasting, arriving, workers))
    sizes = np.zeros(len(begun), np.int64)
    sizes[rows.number] = rows.bytes
    return Carried(
        [pa.concat_tables(some) for some in zip(*parts, strict=True)],
        cells,
        len(coming[0]),
        messages,
        int(sizes[coming[0]].sum()),
    )


def _without(some: Int64s, others: Int64s) -> Int64s:
    return np.setdiff1d(some, others, assume_unique=True)
