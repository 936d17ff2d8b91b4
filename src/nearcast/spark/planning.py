"""A plan made from what a pipeline has seen: its subscriptions, and messages of one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.geo import Box, region_from_json
from nearcast.model.log import decode_json
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.partition.registry import partitioner_named
from nearcast.partition.sample import Sample, SampleMessages, SampleRows, sample_of
from nearcast.spark.messages import Texts
from nearcast.spark.operations import OTHER, boxes_in, of_kind

_COARSE, _FINE = (64, 32), (128, 64)
_MANY = 16  # workers from which on cells must be finer, to be dealt out evenly

_MOST_ROWS, _MOST_MESSAGES = 200_000, 50_000


def make_plan(
    name: str, workers: int, space: Box, begun: pa.Table, texts: Texts, number: int
) -> Plan:
    """Plan for what is known: subscriptions in the schema of the log, and some messages."""
    sample = _sample(begun, texts).limited(_MOST_ROWS, _MOST_MESSAGES)
    plan = plan_for(name, workers, space, sample)
    return plan.changed(number=number, about={**plan.about, "messages": len(texts.ids)})


def plan_for(name: str, workers: int, space: Box, sample: Sample) -> Plan:
    """Plan for a sample, and note by which name the partitioner was asked for."""
    cells = _FINE if workers > _MANY else _COARSE
    grid = Grid(space.west, space.south, space.east, space.north, *cells)
    plan = partitioner_named(name)(sample, workers, grid)
    messages = sample.messages.size + sample.held_out.size
    return plan.changed(number=1, about={**plan.about, "asked": name, "messages": messages})


def is_blind(plan: Plan) -> bool:
    """Whether a plan was made before any message had come: it does not know what is a load."""
    return plan.kind != "shared" and plan.about.get("messages") == 0


def rows_in(begun: pa.Table) -> SampleRows:
    """The rows of subscriptions; owners are numbered as the plain ones come, then the others."""
    plain = begun.filter(pc.not_equal(begun["kind"], OTHER)).combine_chunks()
    boxes: list[Any] = [np.empty((0, 4))]
    lists: list[list[int]] = []
    owners: list[int] = []
    if len(plain):
        boxes.append(boxes_in(plain))
    starts, terms = _lists(plain["terms"].combine_chunks())
    others = of_kind(begun, OTHER)
    for number, (region, required) in enumerate(
        zip(others["region"].to_pylist(), others["required"].to_pylist(), strict=True)
    ):
        bounds = region_from_json(decode_json(region.encode(), "region")).bounds()
        for conjunct in required:
            boxes.append(np.array(bounds, np.float64))
            lists += [conjunct] * len(bounds)
            owners += [len(plain) + number] * len(bounds)
    more = np.cumsum([0, *map(len, lists)])[1:] + starts[-1]
    flat = np.array([term for some in lists for term in some], np.uint64)
    return SampleRows(
        np.concatenate(boxes),
        np.concatenate([starts, more]).astype(np.int64),
        np.concatenate([terms, flat]),
        np.concatenate([np.arange(len(plain)), owners]).astype(np.int32),
    )


def _sample(begun: pa.Table, texts: Texts) -> Sample:
    rows = rows_in(begun)
    messages = SampleMessages(texts.messages.boxes, *texts.messages.texts)
    if not messages.size:
        messages = _as_messages(rows)
    return sample_of(rows, messages, len(begun))


def _as_messages(rows: SampleRows) -> SampleMessages:
    """Let subscriptions stand for messages that nobody has seen yet."""
    middle = (rows.boxes[:, :2] + rows.boxes[:, 2:]) / 2
    return SampleMessages(np.hstack([middle, middle]), rows.starts, rows.terms)


def _lists(lists: Any) -> tuple[Any, Any]:
    if not len(lists):
        return np.zeros(1, np.int64), np.empty(0, np.uint64)
    starts = lists.offsets.to_numpy().astype(np.int64)
    return starts - starts[0], lists.values.to_numpy()[starts[0] : starts[-1]]
