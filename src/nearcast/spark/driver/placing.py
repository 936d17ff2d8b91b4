"""Which shard gets which operation, by the plan.

A subscription goes to the workers of its keys in the cells it meets. A message that lasts goes to
all workers of its terms in its cells, wanted there or not, so that later subscriptions find it. So
a worker that answers for a pair has both.

A *change*, a subscription that begins or moves while messages are active, is asked of the workers
of what it is and of what it was. Each of them must know both: one of them may answer for a pair
that is a result now, and another may have answered for it before. Where a worker holds only one of
the two, the other is a guest there for this step.

A message that replaces an active one goes, with the one it replaces, to all workers that either of
them concerns, for the same reason: a subscription may have had the one and get the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition import keys as plan_keys
from nearcast.partition.plan import Plan
from nearcast.partition.routing import Pairs, route_messages, route_rows
from nearcast.spark.deciding import NO_OWNER
from nearcast.spark.operations import (
    CHANGE,
    END,
    LASTING,
    LOG,
    NEVER,
    OTHER,
    PAST,
    REPLACING,
    WITHDRAWN,
    BegunSubscriptions,
    begun_in,
    boxes_in,
    completed,
    fixed_lists,
    lists_in,
    of_kind,
    with_columns,
)
from nearcast.spark.shaped import shaped_in, spread_lists
from nearcast.spark.workers.messages import shard_messages
from nearcast.spark.workers.router import changes_schema
from nearcast.text.columns import Hashes

_ROW_BYTES = 64
_HASH_LISTS = pa.list_(pa.uint64())


class SubscriptionRows(NamedTuple):
    """The rows of some subscriptions: one for each conjunct and plain box."""

    number: Int32s  # of the subscription
    boxes: Floats
    keys: Hashes
    bytes: Int64s  # of its subscription


def keyed(plan: Plan, begun: pa.Table) -> tuple[pa.Table, SubscriptionRows]:
    """Choose the keys of subscriptions, as shards want them, and give their rows."""
    begun = begun.combine_chunks()
    kind = begun["kind"].to_numpy()
    plain, others = np.flatnonzero(kind != OTHER), np.flatnonzero(kind == OTHER)
    key = np.zeros(len(begun), np.uint64)
    numbers, boxes, keys = [plain.astype(np.int32)], [np.empty((0, 4))], [key[:0]]
    if len(plain):
        some = begun.take(pa.array(plain))
        key[plain] = plan_keys.choose(plan.arrays, *lists_in(some["terms"]))
        boxes.append(boxes_in(some))
        keys.append(key[plain])
    sizes = sizes_of(begun)
    lists_of_keys = pa.nulls(len(begun), _HASH_LISTS)
    if len(others):
        shaped = shaped_in(begun.take(pa.array(others)))
        chosen = plan_keys.choose(plan.arrays, shaped.term_starts, shaped.terms)
        lists_of_keys = spread_lists(others, shaped.starts, chosen, len(begun))
        numbers.append(others[shaped.number].astype(np.int32))
        boxes.append(shaped.boxes)
        keys.append(chosen[shaped.conjunct])
    begun = begun.append_column("key", pa.array(key))
    begun = completed(begun.append_column("keys", lists_of_keys))
    of_row: Int32s = np.concatenate(numbers)
    return begun, SubscriptionRows(
        of_row, np.concatenate(boxes), np.concatenate(keys), sizes[of_row]
    )


def sizes_of(begun: pa.Table) -> Int64s:
    """About how many bytes each subscription takes where it is held: its texts, and a row."""
    sizes = np.full(len(begun), _ROW_BYTES, np.int64)
    for name in ("id", "query", "region"):
        sizes += pc.fill_null(pc.binary_length(begun[name]), 0).to_numpy()
    return sizes


class PlacedStep(NamedTuple):
    """A step, cut up: the operations of each worker, and what is wanted or no longer wanted."""

    shards: list[pa.Table]
    changes: pa.Table

    def after(self, earlier: list[pa.Table]) -> PlacedStep:
        """The step with other operations before its own; they may be for more workers."""
        nothing = earlier[0].slice(0, 0)
        own = [*self.shards, *[nothing] * (len(earlier) - len(self.shards))]
        return self._replace(
            shards=[pa.concat_tables(both) for both in zip(earlier, own, strict=True)]
        )


def place(
    plan: Plan,
    log: pa.Table,
    ended: pa.Table,
    ended_before: pa.Table,
    changes: BegunSubscriptions | None = None,
    past: pa.Table | None = None,
) -> PlacedStep:
    """Route the log of a step.

    `ended` are the definitions of what ends with it, in the order of the log, `ended_before` of
    what ended with the step before, which is wanted no longer. `changes` are asked about if given.
    `past` are the messages that end before their time, as `past_messages` gives them.
    """
    begun, rows = keyed(plan, begun_in(log))
    ends = completed(of_kind(log, END))
    begin_at = holders(plan, rows, begun["owner"].to_numpy())
    ended_keyed, ended_rows = keyed(plan, ended)
    end_at = holders(plan, ended_rows, ended["owner"].to_numpy())
    parts = [dealt(begun, begin_at, plan.workers), dealt(ends, end_at, plan.workers)]
    lasting = of_kind(log, LASTING)
    if len(lasting):
        parts.append(dealt(completed(lasting), message_holders(plan, lasting), plan.workers))
    if past is not None and len(past):
        parts += _replaced(plan, log, past)
    if changes is not None and len(changes.owner):
        versions = pa.concat_tables([begun, ended_keyed])
        numbers = np.concatenate([begin_at[0], end_at[0] + len(begun)])
        held = numbers, np.concatenate([begin_at[1], end_at[1]])
        parts += _asked(changes, versions, held, plan.workers)
    shards = [pa.concat_tables(some) for some in zip(*parts, strict=True)]
    _, gone = keyed(plan, ended_before)
    return PlacedStep(shards, _changes(plan, rows, gone))


def _replaced(plan: Plan, log: pa.Table, past: pa.Table) -> list[list[pa.Table]]:
    """Messages that end before their time, and those in their place, for each worker."""
    workers = plan.workers
    withdrawn, new = completed(of_kind(log, WITHDRAWN)), completed(of_kind(log, REPLACING))
    both = pa.concat_tables([completed(past), new]).combine_chunks()
    number, worker = message_holders(plan, both)
    events, which = np.unique(both["seq"].to_numpy(), return_inverse=True)
    concerned = np.zeros((len(events), workers), np.bool_)
    concerned[which[number], worker] = True
    shares = [both.filter(pa.array(concerned[which, each])) for each in range(workers)]
    return [[withdrawn] * workers, shares]


def past_messages(log: pa.Table, active: Callable[[Int64s], pa.Table]) -> pa.Table:
    """The messages that end before their time in a log, each with the event that ends it.

    `active` gives messages of earlier steps by their sequence numbers, in their order.
    """
    withdrawn, lasting = of_kind(log, WITHDRAWN), of_kind(log, LASTING)
    if not len(withdrawn):
        return LOG.empty_table()
    old, here = withdrawn["old"].to_numpy(), lasting["seq"].to_numpy()
    before = np.flatnonzero(~np.isin(old, here))
    known = pa.concat_tables([lasting, active(old[before])])
    order = np.argsort(known["seq"].to_numpy(), kind="stable")
    place = order[np.searchsorted(known["seq"].to_numpy()[order], old)]
    kinds = pa.array(np.full(len(old), PAST, np.int8))
    past = with_columns(known.take(pa.array(place)), {"kind": kinds, "seq": withdrawn["seq"]})
    return past.combine_chunks()


def asked(placed: PlacedStep) -> list[int]:
    """The shards that are asked about changes."""
    kinds = [shard["kind"].to_numpy() for shard in placed.shards]
    asking = (CHANGE, PAST, REPLACING)
    return [number for number, some in enumerate(kinds) if np.isin(some, asking).any()]


def dealt(operations: pa.Table, at: Pairs, workers: int) -> list[pa.Table]:
    """Divide operations among workers, by pairs of their numbers and workers."""
    numbers, worker = at
    return [operations.take(pa.array(numbers[worker == each])) for each in range(workers)]


def message_holders(plan: Plan, lasting: pa.Table) -> Pairs:
    """Which lasting message goes to which worker, each pair once."""
    messages = shard_messages(lasting)
    starts, terms = messages.texts
    # A copy, as kernels know arrays that can be written to from others.
    place, worker = route_messages(plan, None, messages.boxes, starts, terms.copy())
    return split_pairs(joined(messages.number[place], worker))


def _asked(
    changes: BegunSubscriptions, versions: pa.Table, held: Pairs, workers: int
) -> list[list[pa.Table]]:
    """The changes that each worker must answer for, and the guests that it needs for that.

    `held` are pairs of a version, one that begins or ends, and a worker that holds it.
    """
    owners = versions["owner"].to_numpy()
    by_owner = np.argsort(owners, kind="stable")
    now = by_owner[np.searchsorted(owners[by_owner], changes.owner)]
    replaces = np.flatnonzero(changes.was != NO_OWNER)
    was = by_owner[np.searchsorted(owners[by_owner], changes.was[replaces])]
    # A version that begins and ends in the same step has two numbers; the first is used for both.
    first = by_owner[np.searchsorted(owners[by_owner], owners[held[0]])]
    real = np.unique(joined(first, held[1]))
    asked = np.unique(
        np.concatenate([_of_each(now, np.arange(len(now)), real), _of_each(was, replaces, real)])
    )
    change, worker = split_pairs(asked)
    replacing = changes.was[change] != NO_OWNER
    needed = joined(now[change], worker)
    before = np.full(len(changes.owner), -1, np.int64)
    before[replaces] = was
    needed = np.concatenate([needed, joined(before[change[replacing]], worker[replacing])])
    guests = split_pairs(np.setdiff1d(needed, real))
    never = pa.array(np.full(len(versions), NEVER, np.int64))
    return [
        dealt(with_columns(versions, {"seq": never}), guests, workers),
        dealt(_questions(changes), (change, worker), workers),
    ]


def joined(numbers: npt.NDArray[Any], workers: npt.NDArray[Any]) -> Int64s:
    """Pairs of numbers and workers as one number each."""
    return (numbers.astype(np.int64) << 32) | workers.astype(np.int64)


def split_pairs(pairs: Int64s) -> Pairs:
    """Pairs of numbers and workers, each once, in order."""
    pairs = np.unique(pairs)
    return (pairs >> 32).astype(np.int32), (pairs & 0xFFFFFFFF).astype(np.int32)


def _of_each(versions: Int64s, changes: Int64s, real: Int64s) -> Int64s:
    """Pairs of changes and the workers that hold their versions; `real` are sorted pairs."""
    start = np.searchsorted(real, versions.astype(np.int64) << 32)
    stop = np.searchsorted(real, (versions.astype(np.int64) + 1) << 32)
    count = stop - start
    ends = np.cumsum(count)
    take = np.repeat(start - (ends - count), count) + np.arange(ends[-1] if len(ends) else 0)
    return joined(np.repeat(changes, count), real[take] & 0xFFFFFFFF)


def place_base(plan: Plan, log: pa.Table, ended: pa.Table) -> PlacedStep:
    """Route a base; `ended` has ended just now, but is still in the routing table."""
    begun = begun_in(log)
    none = begun.slice(0, 0)
    placed = place(plan, log, none, none)
    _, rows = keyed(plan, pa.concat_tables([begun, ended]))
    nothing = SubscriptionRows(rows.number[:0], rows.boxes[:0], rows.keys[:0], rows.bytes[:0])
    return placed._replace(changes=_changes(plan, rows, nothing))


def place_whole(
    plan: Plan,
    log: pa.Table,
    changes: BegunSubscriptions | None = None,
    past: pa.Table | None = None,
) -> PlacedStep:
    """Give the log of a step to one shard that has everything; keys are not needed there."""
    log = log.combine_chunks()
    sizes = pc.fill_null(pc.list_value_length(log["required"].combine_chunks()), 0).to_numpy()
    starts = np.zeros(len(log) + 1, np.int32)
    np.cumsum(sizes, out=starts[1:])
    keys = pa.ListArray.from_arrays(pa.array(starts), pa.array(np.zeros(starts[-1], np.uint64)))
    operations = log.append_column("key", pa.array(np.zeros(len(log), np.uint64)))
    operations = completed(operations.append_column("keys", keys))
    if past is not None and len(past):
        operations = pa.concat_tables([operations, completed(past)])
    if changes is not None and len(changes.owner):
        operations = pa.concat_tables([operations, _questions(changes)])
    return PlacedStep([operations], changes_schema(plan.grid).empty_table())


def _questions(changes: BegunSubscriptions) -> pa.Table:
    """Changes as operations."""
    kind = np.full(len(changes.owner), CHANGE, np.int8)
    return completed(pa.table({"kind": kind} | changes._asdict()))


def holders(plan: Plan, rows: SubscriptionRows, owners: Int32s) -> Pairs:
    """Which subscription goes to which worker, each pair once."""
    of_row = owners[rows.number] if len(rows.number) else owners[:0]
    row, worker = route_rows(plan, rows.boxes, rows.keys, of_row)
    return split_pairs(joined(rows.number[row], worker))


def _changes(plan: Plan, begun: SubscriptionRows, gone: SubscriptionRows) -> pa.Table:
    deltas: npt.NDArray[np.int8] = np.concatenate(
        [np.ones(len(begun.number), np.int8), np.full(len(gone.number), -1, np.int8)]
    )
    boxes = np.concatenate([begun.boxes, gone.boxes])
    return pa.Table.from_arrays(
        [
            pa.array(deltas),
            fixed_lists(boxes),
            pa.array(np.concatenate([begun.keys, gone.keys])),
            pa.array(np.concatenate([begun.bytes, gone.bytes])),
        ],
        schema=changes_schema(plan.grid),
    )
