"""Reads the committed updates of a pipeline, step by step."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.server.spark.engine import Row
from nearcast.server.spark.folders import PipelineFolders
from nearcast.spark.io.files import Files
from nearcast.spark.sealed import unseal

_LOOK_S = 0.02
_KEPT = 2
"""Steps that stay in the output after they were read: the last one may be written again."""

_ROWS = pa.schema([*UPDATE_SCHEMA, ("meta", pa.string())])

Take = Callable[[list[Row], int], Awaitable[None]]
"""Takes the updates of a step, and how many events were settled by the steps before it."""


class OutputFollower:
    """Follows the output of a pipeline, step by step."""

    def __init__(self, folders: PipelineFolders, take: Take) -> None:
        self.settled = 0
        """How many events are done: none of their updates is still to come."""
        self._output = folders.updates
        self._commits = Files(str(folders.state / "commits"))
        self._take = take

    async def follow(self) -> None:
        """Read every step as it is committed; never returns."""
        step = min(self._steps(), default=1)
        while True:
            folder = self._output / f"batch={step}"
            if not folder.is_dir():
                await asyncio.sleep(_LOOK_S)
                continue
            rows = await asyncio.to_thread(read_step, folder)
            await self._take(rows, self.settled)
            await self._settle(step)
            shutil.rmtree(self._output / f"batch={step - _KEPT}", ignore_errors=True)
            step += 1

    async def _settle(self, step: int) -> None:
        """Wait until the pipeline has committed a step, and update `settled`."""
        name = f"{step:09}.json"
        while not self._commits.exists(name):
            if (self._output / f"batch={step + 1}").is_dir():
                return  # a later step exists, so the commit is old and was removed
            await asyncio.sleep(_LOOK_S)
        self.settled = int(unseal(self._commits.read(name))["next_seq"])

    def _steps(self) -> list[int]:
        found = (path.name.removeprefix("batch=") for path in self._output.glob("batch=*"))
        return [int(name) for name in found if name.isdigit()]


def read_step(folder: Path) -> list[Row]:
    """The updates of a step, in order."""
    tables = [pq.read_table(path, partitioning=None) for path in sorted(folder.glob("*.parquet"))]
    if not tables:
        return []
    order = [(name, "ascending") for name in ("event", "subscription", "message", "op")]
    # An earlier release wrote no `meta`.
    tables.append(_ROWS.empty_table())
    table = pa.concat_tables(tables, promote_options="default").sort_by(order)
    return list(zip(*(table[name].to_pylist() for name in _ROWS.names), strict=True))
