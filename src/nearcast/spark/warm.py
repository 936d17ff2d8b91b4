"""Runs every kernel that tasks need once, on next to nothing, so that it is compiled."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearcast.arrays.memory import MappedMemory
from nearcast.arrays.slots import FIXED
from nearcast.engine.settings import Settings
from nearcast.events import event_from_json
from nearcast.events.log import Record
from nearcast.partition.grid import Grid
from nearcast.partition.owners import owns
from nearcast.partition.plan import Plan, TextMap
from nearcast.partition.routing import route_messages
from nearcast.spark.asking import ExactMatching
from nearcast.spark.driver.placing import place
from nearcast.spark.driver.window_log import arrivals
from nearcast.spark.events import table_of
from nearcast.spark.names import Names
from nearcast.spark.operations import BEGUN, END, of_kind
from nearcast.spark.registrar import Registrar
from nearcast.spark.topk.holder import RankingRules
from nearcast.spark.topk.steps import Mask, RankedStep
from nearcast.spark.topk.walk import RankedHolder
from nearcast.spark.workers.messages import messages_of
from nearcast.spark.workers.packets import pack, unpack
from nearcast.spark.workers.ranked_work import BUCKETS, buckets_of
from nearcast.spark.workers.router import Router
from nearcast.spark.workers.shard import Shard
from nearcast.topk import Window

_EVENTS = [
    {"op": "subscribe", "id": "a", "query": "x y", "region": {"type": "Box", "bbox": [0, 0, 9, 9]}},
    {"op": "subscribe", "id": "b", "query": "x OR z NOT y",
     "region": {"type": "Circle", "center": [5, 5], "radius": 1000}},
    {"op": "publish", "id": "m", "text": "x y", "point": [5, 5], "ttl": 1, "at": 0,
     "properties": {"p": 1}},
    {"op": "publish", "id": "n", "text": "x", "region": {"type": "Box", "bbox": [9, 0, 4, 9]}},
    {"op": "unsubscribe", "id": "a"},
    {"op": "move", "id": "b", "region": {"type": "Box", "bbox": [0, 0, 9, 9]}},
    {"op": "subscribe", "id": "c", "query": "z", "region": {"type": "Box", "bbox": [0, 0, 9, 9]},
     "at": 2},
    {"op": "publish", "id": "o", "text": "z", "point": [5, 5], "ttl": 1},
]  # fmt: skip

_TOP = {"k": 1, "alpha": 0.5}
_RANKED = [
    {"op": "subscribe", "id": "a", "query": "x y", "point": [5, 5], "top": _TOP},
    {"op": "publish", "id": "m", "text": "x y", "point": [5, 5], "at": 0},
    {"op": "publish", "id": "n", "text": "x", "point": [5, 5], "at": 2},
    {"op": "move", "id": "a", "point": [4, 4]},
    {"op": "unsubscribe", "id": "a", "at": 9},
]


def warm_tasks() -> None:
    """Take three small steps through a shard and the table of what is wanted, and rank a little."""
    _warm_ranking()
    records = [Record(at, at, b"", event_from_json(e), None) for at, e in enumerate(_EVENTS)]
    events, seq = table_of(records), np.arange(len(records))
    plan = _plan()
    settings = Settings()
    registrar = Registrar(settings)
    none, exact = BEGUN.empty_table(), ExactMatching(settings.analyser)
    with tempfile.TemporaryDirectory() as folder:
        memory = MappedMemory(Path(folder))
        shard, router = Shard(memory), Router(memory)
        for part in (slice(0, 4), slice(4, 6), slice(6, 8)):
            some, numbers = events[part.start : part.stop], seq[part]
            reading = registrar.read(some, numbers)
            ended = registrar.definitions(of_kind(reading.log, END)["owner"].to_numpy())
            placed = place(plan, reading.log, ended, none, reading.changes)
            shard.apply(placed.shards[0])
            router.apply(placed.changes)
            shard.held.names_of(shard.changed(exact).slots)
            texts = messages_of(some, numbers, reading.messages, settings)
            if not len(texts.ids) or router.wanted is None:
                continue
            slots = router.wanted.slots
            messages = texts.messages
            route_messages(plan, slots, messages.boxes, *messages.texts)
            for each in (texts, unpack([pack(texts, np.arange(len(texts.ids), dtype=np.int32))])):
                found = shard.match(each.messages)
                owns(
                    plan, 0, each.messages.boxes, shard.table.rows.box, shard.keys, found.places,
                    found.rows,
                )  # fmt: skip
                shard.names_of(found.owners)
        names = Names(memory, "names")  # too few to be compacted by itself
        names.put(np.zeros(1, np.int32), pa.array(["a"]))
        names.tidy()
        del shard, router, names


def warm_driver() -> None:
    """Let a registrar read a little, as the driver does with every step."""
    records = [Record(at, at, b"", event_from_json(e), None) for at, e in enumerate(_EVENTS)]
    reading = Registrar(Settings()).read(table_of(records), np.arange(len(records)))
    place(_plan(), reading.log, BEGUN.empty_table(), BEGUN.empty_table(), reading.changes)


def _warm_ranking() -> None:
    records = [Record(at, at, b"", event_from_json(e), None) for at, e in enumerate(_RANKED)]
    settings = Settings(window=Window(seconds=1.0))
    registrar = Registrar(settings)
    everything = np.ones(BUCKETS, np.bool_)
    rules = RankingRules(settings.window, settings.space, settings.analyser, None, FIXED)
    ranking = partial(RankedHolder, rules=rules)
    with tempfile.TemporaryDirectory() as folder:
        memory = MappedMemory(Path(folder))
        shard = ranking(memory)

        def none(_: Mask) -> pa.Table:
            return BEGUN.empty_table()

        for first in (0, 3):
            some = table_of(records[first : first + 3])
            reading = registrar.read(some, np.arange(first, first + len(some)))
            messages = arrivals(reading, 0, slides=True)
            shard.apply(RankedStep(messages, reading.log, everything, none))
            buckets_of(some["id"].combine_chunks(), FIXED)
            shard = ranking(memory, shard.describe())
        del shard


def _plan() -> Plan:
    """A plan with a split cell and a whole one."""
    split = TextMap(np.empty(0, np.uint64), np.empty(0, np.int32), np.zeros(1, np.int32))
    return Plan(
        scheme="hybrid",
        workers=1,
        kind="grid",
        grid=Grid(-180.0, -90.0, 180.0, 90.0, 2, 1),
        cell_worker=np.array([0, -1], np.int32),
        maps=[split],
    )
