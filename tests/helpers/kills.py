"""A stream on Spark in a process of its own, and a killer for it and what it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from boolean_logs import records
from nearcast.engine import Settings, replay
from nearcast.engine.scan import Scan
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.events.log import open_log
from nearcast.spark.events import completed, table_of
from nearcast_lab.workloads.registry import generate
from patience import PATIENCE_S, wait_until
from ranked_logs import ranked_log
from small_pipeline import churn


class Process(NamedTuple):
    """A process, as the system lists it."""

    pid: int
    parent: int
    name: str


def _processes() -> list[Process]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                name, _, rest = (entry / "stat").read_text().partition("(")[2].rpartition(")")
            except OSError:
                continue  # it has just ended
            state, parent = rest.split()[:2]
            if state != "Z":
                found.append(Process(int(entry.name), int(parent), name))
    return found


def below(pid: int) -> list[Process]:
    """The children of a process, and theirs, parents first."""
    everything = _processes()
    found, at = [each for each in everything if each.parent == pid], 0
    while at < len(found):
        found += [each for each in everything if each.parent == found[at].pid]
        at += 1
    return found


def living(pids: set[int]) -> set[int]:
    """Those of some processes that have not ended."""
    return pids & {each.pid for each in _processes()}


class Stream:
    """`nearcast spark run` on a folder of event files, killed and started again."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.input, self.output, self.state = folder / "in", folder / "out", folder / "state"
        self.cache = folder / "cache"
        self.input.mkdir()
        self._options = options
        self._run: subprocess.Popen[bytes] | None = None
        self._started: set[int] = set()
        self.log = folder / "log.txt"

    def start(self, *options: str) -> None:
        """Start the command, again after it was killed or has failed."""
        if self._run is not None:
            self._run.wait(PATIENCE_S)
        command = [sys.executable, "-m", "nearcast", "spark", "run", "--master", "local[2]"]
        for name in ("input", "output", "state"):
            command += [f"--{name}", str(getattr(self, name))]
        environment = os.environ | {"NEARCAST_CACHE": str(self.cache)}
        with self.log.open("ab") as log:
            self._run = subprocess.Popen(
                [*command, *self._options, *options], stdout=log, stderr=log, env=environment
            )

    @property
    def run(self) -> subprocess.Popen[bytes]:
        assert self._run is not None
        return self._run

    @property
    def lives(self) -> bool:
        """Whether the command goes on."""
        return self.run.poll() is None

    def commits(self) -> int:
        """The last step that is done."""
        names = [path.stem for path in (self.state / "commits").glob("0*.json")]
        return max(map(int, names), default=0)

    def wait_for_commits(self, count: int) -> None:
        """Wait until so many more steps are done."""
        target = self.commits() + count
        wait_until(lambda: self.commits() >= target or not self.lives, f"step {target}")
        assert self.lives, self.log.read_text()[-4000:]

    def children(self) -> dict[str, list[int]]:
        """The processes of the run, by what they are."""
        found = below(self.run.pid)
        self._started |= {each.pid for each in found}
        java = [each.pid for each in found if each.name == "java"]
        daemons = [each.pid for each in found if each.parent in java]
        return {
            "driver": [self.run.pid],
            "jvm": java,
            "worker": [each.pid for each in found if each.parent in daemons],
        }

    def kill(self, kind: str) -> bool:
        """Kill a process of the run, as the system would; False if there is none of its kind."""
        victims = self.children()[kind]
        for pid in victims[:1]:
            os.kill(pid, signal.SIGKILL)
        return bool(victims)

    def finish(self, *options: str) -> None:
        """Let the command take what is there, and see that it ends well."""
        self.start("--available-now", *options)
        code = self.run.wait(5 * PATIENCE_S)  # which may be many steps
        assert code == 0, self.log.read_text()[-4000:]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """See to it that no process is left over."""
        try:
            yield
        finally:
            if self._run is not None and self.lives:
                self.children()
                self.run.kill()
                self.run.wait()
            left = {each.pid for each in _processes() if each.name in ("java", "python")}
            for pid in self._started & left:
                os.kill(pid, signal.SIGKILL)


class Source(Protocol):
    """Has events by their places."""

    def table(self, start: int, stop: int) -> pa.Table:
        """Those from one place to another."""
        ...


class Ranked:
    """Top-k and boolean subscriptions that come, move and go, as a source of events."""

    def __init__(self, count: int, names: int) -> None:
        self._table = table_of(records(ranked_log(count, seed=3, names=names)))

    def table(self, start: int, stop: int) -> pa.Table:
        """Events from one place to another."""
        return self._table.slice(start, stop - start)


class Moving:
    """Subscribers that travel, and messages that last, as a source of events."""

    def __init__(self, subscriptions: int, messages: int) -> None:
        events = generate(
            "moving", subscriptions=subscriptions, messages=messages, seed=3, vocabulary=300,
            max_radius=15_000, max_keywords=3,
        )  # fmt: skip
        self._table = table_of(records(list(events)))

    def __len__(self) -> int:
        return len(self._table)

    def table(self, start: int, stop: int) -> pa.Table:
        """Events from one place to another."""
        return self._table.slice(start, stop - start)


class Log:
    """Events by the thousand, in files that are put into a folder one by one."""

    def __init__(self, folder: Path, events: int, files: int, stream: Source) -> None:
        self._folder = folder
        self.paths: list[Path] = []
        self.rows = events
        folder.mkdir()
        size = events // files
        for number in range(files):
            table = completed(stream.table(number * size, (number + 1) * size - 50))
            mixed = [_without_time(event) for event in churn(50, seed=number)]
            path = folder / f"{number:05}.parquet"
            whole = pa.concat_tables([table, table_of(records(mixed))])
            pq.write_table(whole, path, row_group_size=max(size // 3, 500))
            self.paths.append(path)
        self._given = 0

    def rewind(self) -> None:
        """Begin anew, for another stream."""
        self._given = 0

    def give(self, stream: Stream, count: int) -> bool:
        """Put the next files into the folder of a stream; False if there are no more."""
        for path in self.paths[self._given : self._given + count]:
            copy = stream.input / f".{path.name}"
            os.link(path, copy)
            copy.rename(stream.input / path.name)
        self._given += count
        return self._given < len(self.paths)

    def expected(self, settings: Settings | None = None) -> pa.Table:
        """The updates of `scan` for what a pipeline takes."""
        engine, tables, first = Scan(settings), [UPDATE_SCHEMA.empty_table()], 0
        for path in self.paths:
            rows: list[tuple[int, str, str, str, float | None]] = []
            with open_log(str(path)) as log:
                for position, updates in replay(log, engine, lambda *_: None):
                    at = first + position
                    rows += [(at, u.op, u.subscription, u.message, u.score) for u in updates]
            columns = zip(*rows, strict=True) if rows else [[]] * len(UPDATE_SCHEMA)
            tables.append(
                pa.table([pa.array(c) for c in columns], UPDATE_SCHEMA.names).cast(UPDATE_SCHEMA)
            )
            first += pq.ParquetFile(path).metadata.num_rows
        names = ("event", "subscription", "message", "op")
        return pa.concat_tables(tables).sort_by([(name, "ascending") for name in names])


def _without_time(event: dict[str, object]) -> dict[str, object]:
    """What comes among events of a later time must not claim an earlier one."""
    kept = {name: value for name, value in event.items() if name != "at"}
    return kept | {"id": f"x{kept['id']}"}
