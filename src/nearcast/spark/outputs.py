"""Where the updates of a pipeline go: a folder of Parquet files, or a function."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.errors import StateError
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.spark.io.files import Files
from nearcast.spark.io.sink import RefusedEvent, Sink

_MARK = "_nearcast.json"
_ORDER = ("event", "subscription", "message", "op")


class FolderOutput:
    """Keeps updates in `FOLDER/batch=S/`, and what was refused in `QUARANTINE/batch=S/`."""

    def __init__(self, folder: str, quarantine: str | None, state_id: str) -> None:
        self.folder = folder
        self._updates = Sink(folder)
        self._refused = None if quarantine is None else Sink(quarantine)
        claim(folder, state_id)

    def check(self, done: int) -> None:
        """Refuse to go on if there are updates of steps that the state knows nothing of.

        The step after those that are done may be there: it is taken again, with the same events.
        """
        beyond = [step for step in self._updates.batches() if step > done]
        if beyond:
            raise StateError(
                f"{self.folder}: holds batch={beyond[0]}, but the state ends with step {done}, as "
                "if it was restored from an older copy; remove the folders from "
                f"batch={beyond[0]} on, or restore the state that belongs to them"
            )

    def commit(self, step: int, names: list[str], refused: list[RefusedEvent]) -> None:
        """Make the files of a step part of the output: what was refused, then the updates."""
        keep(self._refused, step, refused)
        self._updates.commit(step, names)


class FunctionOutput:
    """Hands the files with the updates of each step to a function, and then removes them.

    After a crash the function may be called again with the same step, which has the same number.
    """

    def __init__(
        self, folder: str, call: Callable[[list[str], int], None], quarantine: str | None
    ) -> None:
        self.folder = folder
        self._updates = Sink(folder)
        self._call = call
        self._refused = None if quarantine is None else Sink(quarantine)

    def commit(self, step: int, names: list[str], refused: list[RefusedEvent]) -> None:
        """Call the function."""
        keep(self._refused, step, refused)
        self._call([self._updates.staged(step, name) for name in names], step)
        self._updates.discard(step)


def keep(sink: Sink | None, step: int, refused: Iterable[RefusedEvent]) -> None:
    """Write down events that had no effect, if there is a place for them."""
    some = list(refused)
    if sink is not None and some:
        sink.commit(step, [sink.write_refused(step, 0, 0, some)])


def claim(folder: str, state_id: str) -> None:
    """Refuse a folder that another pipeline writes to: its steps would be taken for ours."""
    files = Files(folder)
    if not files.exists(_MARK):
        files.write(_MARK, json.dumps({"state": state_id}).encode())
        return
    try:
        owner = json.loads(files.read(_MARK)).get("state")
    except ValueError:
        owner = None
    if owner != state_id:
        raise StateError(
            f"{folder}: holds the updates of another pipeline; give a folder of its own as output, "
            "or the state that belongs to it"
        )


def read_updates(folder: str | Path) -> pa.Table:
    """All updates in a folder of this machine, in the order in which engines report them."""
    return sorted_updates(sorted(Path(folder).glob("batch=*/*.parquet")))


def sorted_updates(files: Iterable[str | Path]) -> pa.Table:
    """The updates of files of this machine, in the order in which engines report them."""
    tables = [pq.read_table(file, partitioning=None) for file in files]
    # An earlier release knew no scores.
    table = pa.concat_tables([UPDATE_SCHEMA.empty_table(), *tables], promote_options="default")
    return table.sort_by([(name, "ascending") for name in _ORDER])
