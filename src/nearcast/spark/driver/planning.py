"""A plan made from what a pipeline has seen: its subscriptions, and messages of one step."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import compress

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.geo import Box
from nearcast.partition.auto import auto
from nearcast.partition.grid import Grid
from nearcast.partition.load import WorkCosts
from nearcast.partition.plan import Plan
from nearcast.partition.registry import partitioner_named
from nearcast.partition.sample import Sample, SampleMessages, SampleRows, sample_of, take
from nearcast.spark.operations import OTHER, boxes_in, lists_in, of_kind
from nearcast.spark.shaped import shaped_in
from nearcast.spark.workers.messages import MessageBatch
from nearcast.text.columns import hash_terms

COSTS = WorkCosts(check_ns=20.0, message_ns=500.0, operation_ns=5000.0, update_ns=250.0)
"""What work costs a worker, fitted robustly to the CPU time of tasks: half are within 6 % of it.

That is more than the index alone costs (`partition.load`): rows are in mapped files, matches are
compared with sequence numbers and owners, and updates are written. In addition a task takes 5 ms,
whatever it does.
"""

FIRST_COSTS = COSTS._replace(operation_ns=400.0)
"""For a first plan: its operations may be an initial population that is never repeated."""

_COARSE, _FINE = (64, 32), (128, 64)
_MANY = 16  # workers from which on cells must be finer, to be divided evenly

_MOST_ROWS, _MOST_MESSAGES = 200_000, 50_000


def make_plan(
    name: str, workers: int, space: Box, begun: pa.Table, texts: MessageBatch, number: int
) -> Plan:
    """Plan for what is known: subscriptions in the schema of the log, and some messages."""
    sample = _sample(begun, texts).limited(_MOST_ROWS, _MOST_MESSAGES)
    plan = plan_for(name, workers, space, sample)
    return plan.changed(number=number, about={**plan.about, "messages": len(texts.ids)})


def plan_for(
    name: str, workers: int, space: Box, sample: Sample, costs: WorkCosts = FIRST_COSTS
) -> Plan:
    """Plan for a sample, and note by which name the partitioner was asked for."""
    cells = _FINE if workers > _MANY else _COARSE
    grid = Grid(space.west, space.south, space.east, space.north, *cells)
    partition = partitioner_named(name)
    if partition is auto:
        partition = partial(auto, costs=costs, whole=True)
    plan = partition(sample, workers, grid)
    messages = sample.messages.size + sample.held_out.size
    about = {**plan.about, "asked": name, "messages": messages}
    return plan.changed(number=1, about=about, letters=_letters_of(plan, sample.letters))


def _letters_of(plan: Plan, known: Sequence[str]) -> Sequence[str]:
    """Those of some terms that are in a plan."""
    found = np.isin(hash_terms(list(known)), plan.terms).tolist()
    return tuple(compress(known, found))


def is_blind(plan: Plan) -> bool:
    """Whether a plan was made before any message had arrived, so without knowing the load."""
    return plan.kind != "shared" and plan.about.get("messages") == 0


def rows_in(begun: pa.Table) -> SampleRows:
    """The rows of subscriptions; owners are numbered as the plain ones come, then the others."""
    plain = begun.filter(pc.not_equal(begun["kind"], OTHER)).combine_chunks()
    (starts, terms), boxes = lists_in(plain["terms"]), boxes_in(plain)
    rows = SampleRows(boxes, starts, terms, np.arange(len(plain), dtype=np.int32))
    others = of_kind(begun, OTHER)
    if not len(others):
        return rows
    shaped = shaped_in(others)
    more, more_terms = take(shaped.term_starts, shaped.terms, shaped.conjunct)
    return SampleRows(
        np.concatenate([boxes, shaped.boxes]),
        np.concatenate([starts, more[1:] + starts[-1]]),
        np.concatenate([terms, more_terms]),
        np.concatenate([rows.owners, shaped.number + np.int32(len(plain))]),
    )


def _sample(begun: pa.Table, texts: MessageBatch) -> Sample:
    rows = rows_in(begun)
    messages = SampleMessages(texts.messages.boxes, *texts.messages.texts)
    if not messages.size:
        messages = _as_messages(rows)
    return sample_of(rows, messages, len(begun))


def _as_messages(rows: SampleRows) -> SampleMessages:
    """Use subscriptions as a sample while there are no messages yet."""
    middle = (rows.boxes[:, :2] + rows.boxes[:, 2:]) / 2
    return SampleMessages(np.hstack([middle, middle]), rows.starts, rows.terms)
