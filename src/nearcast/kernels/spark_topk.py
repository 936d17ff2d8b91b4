"""Runs a top-k pipeline in this process with each mechanism, to compile its kernels."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from nearcast.engine.settings import Settings
from nearcast.events import event_from_json
from nearcast.events.log import Record
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.spark.driver.dskype import ranking_for
from nearcast.spark.driver.pipeline import Pipeline, planner
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.events import table_of
from nearcast.spark.inline import InlineRunner
from nearcast.spark.outputs import FolderOutput
from nearcast.spark.readers.slices import EventFile
from nearcast.topk import Window

_WORKERS = 2
_STEP = 30


def rehearse_mechanisms() -> None:
    """Run some steps with every mechanism, so that buffers run empty and are filled again."""
    settings = Settings(Window(8))
    for mechanism in ("shared", *MECHANISMS):
        with tempfile.TemporaryDirectory() as folder:
            output = FolderOutput(str(Path(folder) / "out"), None, "rehearsal")
            pipeline = Pipeline(
                PipelineState(str(Path(folder) / "state"), {}), settings,
                planner("shared", _WORKERS, settings), output, InlineRunner(),
                ranking=ranking_for(mechanism, _WORKERS),
            )  # fmt: skip
            pipeline.replan()
            pipeline.resume()
            for first in range(0, len(_EVENTS), _STEP):
                path = Path(folder) / f"{first}.parquet"
                some = _EVENTS[first : first + _STEP]
                pq.write_table(table_of(some), path)
                file = EventFile.look(str(path))
                if file is not None:
                    pipeline.step(0, file.slices(pipeline.next_seq))


def _events() -> list[Record]:
    return [Record(at, at, b"", event_from_json(_event(at)), None) for at in range(4 * _STEP)]


def _event(number: int) -> dict[str, Any]:
    id, words = f"s{number % 9}", " ".join("abcdefgh"[number % 5 : number % 5 + 3])
    place = {"point": [number % 7, number % 5]}
    if number % 6 == 0:
        top = {"k": 1 + number % 3, "alpha": (number % 4) / 3}
        return {"op": "subscribe", "id": id, "query": words, "top": top} | place
    if number % 6 == 1 and number > _STEP:
        return {"op": "move", "id": id} | place if number % 4 else {"op": "unsubscribe", "id": id}
    return {"op": "publish", "id": f"m{number}", "text": words} | place


_EVENTS = _events()
