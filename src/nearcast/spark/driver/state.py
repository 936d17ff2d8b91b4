"""The durable state of a pipeline: a folder with everything needed to continue after each step.

    about.json           what this is, for which settings, and its secret
    plans/N.plan         versions of the routing table, by their numbers
    target.plan          the plan that is to be reached, version by version
    log/S.arrow          what began and ended in step S, and its lasting messages
    window/S.ids         the ids of the messages of step S, while they are in the window
    window/S.all         those of all messages that were in the window after step S
    messages/S-M-N-*     messages M to before N, which step S brought, while they are in the window
    history.parquet      the terms of the history that weighs them for top-k, if one was given
    routed/N/S.arrow     the log of step S as the shards of line N of plans get it
    definitions/S.arrow  all subscriptions and active messages there were after step S: older logs
                         are not needed
    snapshots/N-NAME/S   a shard as files that can be mapped
    reading/S            the events of step S as readers packed them, until it is committed
    pending.json         the events of the step that was begun last
    commits/S.json       step S is done; written last
    reports/S.json       what step S did, only to be looked at
    inbox/B              events of batch B of Spark that had to be brought into another form
    checkpoint/          what Spark remembers of its source

A step is done when its commit is there. What lies beyond the last commit is what a crash left: the
step is done again, with the same events, and all that is written for it is written again. Every
file has a checksum, its own or one in another file, that shows whether it is whole.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from os import urandom
from typing import Any
from uuid import uuid4

import pyarrow as pa

from nearcast.errors import SourceError, StateError
from nearcast.partition.plan import Plan
from nearcast.spark.driver.claims import claim
from nearcast.spark.driver.placing import PlacedStep
from nearcast.spark.io.files import Files
from nearcast.spark.operations import BEGUN, LOG, completed
from nearcast.spark.sealed import seal, unseal

KIND, VERSION = "nearcast pipeline", 6
_READABLE = (1, 2, 3, 4, 5, 6)
"""The first had no lasting messages, the second no top-k subscriptions, the third did not note
when the messages of the window end, the fourth knew neither the messages themselves nor what ends
before its time, and the fifth had no secret."""
_COMMITS_KEPT = 100
_TARGET = "target.plan"
_READING = "reading"


@dataclass
class Commit:
    """What is known of a step that is done."""

    step: int
    key: str  # another step that might have had its number has another key
    batch: int  # of Spark
    plan: int
    next_seq: int
    now: float | None
    slices: list[dict[str, Any]]  # what was read
    log: list[int]  # the size and the checksum of its log
    updates: int
    messages: int = 0  # that came into the window up to then: the number of the next
    oldest: int | None = None  # the number of the oldest in the window; None if it was not noted
    uneven: bool = False  # messages may leave the window other than as the oldest


@dataclass
class Pending:
    """A step that was begun: which events it has, and which batch of Spark they are from."""

    step: int
    batch: int
    slices: list[dict[str, Any]]


class PipelineState:
    """The folder of one pipeline."""

    def __init__(self, path: str, settings: dict[str, Any] | None) -> None:
        self.files = Files(path)
        self.path = path
        self.is_earlier = False
        """Whether an earlier version wrote it; known once it is claimed."""
        if settings is not None and not self.files.exists("about.json"):
            if self.files.exists("commits"):
                raise StateError(f"{path}: has no about.json; give an empty folder as state")
            about = {"kind": KIND, "version": VERSION, "id": uuid4().hex, "settings": settings}
            about["secret"] = urandom(16).hex()
            self.files.write("about.json", json.dumps(about).encode())
        self.about = read_about(self.files)
        if settings is not None and self.about["settings"] != settings:
            raise StateError(
                f"{path}: belongs to a pipeline with other settings "
                f"({_difference(self.about['settings'], settings)}); use them, or give another "
                "folder as state"
            )

    def claim(self) -> None:
        """Claim this state for this process until it ends.

        One of an earlier version becomes one of this version: the release that wrote it would not
        know what it finds there from now on.
        """
        if self.files.local is not None:
            claim(self.files.local)
        if self.about["version"] != VERSION:
            self.is_earlier = True
            self.about["version"] = VERSION
            self.files.write("about.json", json.dumps(self.about).encode())

    @property
    def id(self) -> str:
        """The id of this pipeline, which no other has."""
        return str(self.about["id"])

    @property
    def secret(self) -> bytes:
        """What its hashes of terms and ids are made with; nothing in a state that began without."""
        return bytes.fromhex(self.about.get("secret", ""))

    @property
    def checkpoint(self) -> str:
        """Where Spark keeps what it remembers of its source."""
        return f"{self.path.rstrip('/')}/checkpoint"

    def commits(self) -> list[int]:
        """The steps that are done, as far as they are remembered."""
        return _numbers(self.files, "commits", ".json")

    def commit(self, step: int) -> Commit:
        """What is known of a step."""
        name = f"commits/{step:09}.json"
        try:
            return Commit(**unseal(self.files.read(name)))
        except (SourceError, ValueError, TypeError) as error:
            raise SourceError(
                f"{self.path}/{name}: damaged ({error}); restore it, or start again with an empty "
                "folder as state"
            ) from None

    def write_commit(self, commit: Commit) -> None:
        """Say that a step is done."""
        self.files.write(f"commits/{commit.step:09}.json", seal(commit.__dict__))

    def write_pending(self, pending: Pending) -> None:
        """Say which events a step has, before anything is done for it."""
        self.files.write("pending.json", seal(pending.__dict__))

    def pending(self) -> Pending | None:
        """The step that was begun last, as far as that is known."""
        try:
            return Pending(**unseal(self.files.read("pending.json")))
        except (SourceError, ValueError, TypeError):
            return None

    def write_log(self, step: int, log: pa.Table) -> tuple[list[int], pa.Table]:
        """Write what began and ended in a step; give size and checksum, and the log as written.

        That is mapped, if the state is on this machine.
        """
        name, data = f"log/{step:09}.arrow", packed([log], LOG)
        self.files.write(name, data)
        written = self.files.map(name) if self.files.local is not None else data
        with pa.ipc.open_file(written) as reader:
            return [len(data), zlib.crc32(data)], reader.read_all()

    def read_log(self, step: int, expected: list[int]) -> pa.Table | None:
        """The log of a step, or None if it is not what was written."""
        return self._read(f"log/{step:09}.arrow", expected)

    def write_routed(
        self, plan: int, name: str, placed: PlacedStep, gone: pa.Table | None = None
    ) -> None:
        """Write a step, or a base, as the shards of a plan get it, and then that it is whole.

        `gone` are ended subscriptions that a base still has in its routing table.
        """
        shards, changes = placed
        # Not flushed: if a power failure takes them, they are made again from the log.
        sums = {
            ".arrow": self._write(f"routed/{plan}/{name}.arrow", shards, shards[0].schema, False),
            ".wanted": self._write(
                f"routed/{plan}/{name}.wanted", [changes], changes.schema, False
            ),
        }
        if gone is not None and len(gone):
            path = f"routed/{plan}/{name}.gone"
            sums[".gone"] = self._write(path, [gone], gone.schema, False)
        self.files.write(f"routed/{plan}/{name}.json", json.dumps(sums).encode(), durable=False)

    def has_routed(self, plan: int, name: str) -> bool:
        """Whether what `write_routed` wrote is there and whole."""
        try:
            sums = json.loads(self.files.read(f"routed/{plan}/{name}.json"))
            for ending, expected in sums.items():
                data = self.files.map(f"routed/{plan}/{name}{ending}")
                if [data.size, zlib.crc32(data)] != expected:
                    return False
        except (SourceError, ValueError, OSError):
            return False
        return True

    def read_changes(self, plan: int, name: str) -> pa.Table:
        """What was wanted from a step on, or no longer, as `write_routed` wrote it."""
        with pa.ipc.open_file(self.files.map(f"routed/{plan}/{name}.wanted")) as reader:
            return reader.read_all()

    def read_gone(self, plan: int, name: str) -> pa.Table:
        """Ended subscriptions that a base still has in its routing table."""
        path = f"routed/{plan}/{name}.gone"
        if not self.files.exists(path):
            return BEGUN.empty_table()
        with pa.ipc.open_file(self.files.map(path)) as reader:
            return reader.read_all()

    def write_definitions(self, step: int, begun: pa.Table) -> None:
        """Write all subscriptions and active messages there are after a step."""
        size = self._write(f"definitions/{step:09}.arrow", [begun], LOG)
        self.files.write(f"definitions/{step:09}.json", json.dumps(size).encode())

    def definitions(self) -> list[int]:
        """The steps after which all subscriptions were written."""
        return _numbers(self.files, "definitions", ".json")

    def read_definitions(self, step: int) -> pa.Table | None:
        """All there was after a step, or None if the file is not whole."""
        try:
            expected = json.loads(self.files.read(f"definitions/{step:09}.json"))
            return self._read(f"definitions/{step:09}.arrow", list(expected))
        except (ValueError, TypeError):
            return None

    def plans(self) -> list[int]:
        """The numbers of all plans there were."""
        return _numbers(self.files, "plans", ".plan")

    def plan(self, number: int) -> Plan:
        """A plan by its number."""
        name = f"plans/{number}.plan"
        return Plan.from_bytes(self.files.read(name), f"{self.path}/{name}")

    def write_plan(self, plan: Plan) -> None:
        """Keep a plan."""
        self.files.write(f"plans/{plan.number}.plan", plan.to_bytes())

    def target(self) -> Plan | None:
        """The plan that the pipeline is on its way to, if there is one."""
        if not self.files.exists(_TARGET):
            return None
        return Plan.from_bytes(self.files.read(_TARGET), f"{self.path}/{_TARGET}")

    def write_target(self, plan: Plan) -> None:
        """Set the target plan of the pipeline, now if it runs, or else when it runs again."""
        self.files.write(_TARGET, plan.to_bytes())

    def forget_target(self) -> None:
        """Remove the target, so that the pipeline keeps its plan."""
        self.files.remove(_TARGET)

    def forget_before(self, step: int) -> None:
        """Remove what is not needed any more once all there was after `step` is written."""
        for name in self.files.names("log"):
            if _number(name) <= step:
                self.files.remove(f"log/{name}")
        for plan in self.files.names("routed"):
            for name in self.files.names(f"routed/{plan}"):
                number = _number(name.removeprefix("base-"))
                if number < step or (number == step and not name.startswith("base-")):
                    self.files.remove(f"routed/{plan}/{name}")
            self._remove_empty(f"routed/{plan}")
        for name in self.files.names("definitions"):
            if _number(name) < step:
                self.files.remove(f"definitions/{name}")
        for holder in self.files.names("snapshots"):
            for name in self.files.names(f"snapshots/{holder}"):
                if _number(name) < step:
                    self.files.remove(f"snapshots/{holder}/{name}")
            self._remove_empty(f"snapshots/{holder}")

    def forget_commits(self, step: int, batch: int) -> None:
        """Remove old commits, but none with events of a batch that is not done."""
        for number in self.commits():
            if number > step - _COMMITS_KEPT or self.commit(number).batch >= batch:
                return
            self.files.remove(f"commits/{number:09}.json")

    def forget_plans(self, but: set[int]) -> None:
        """Remove all plans but some, and any that came after those."""
        for plan in self.plans():
            if plan not in but and plan < max(but):
                self.files.remove(f"plans/{plan}.plan")

    def reading(self, step: int) -> str:
        """The folder for what readers make of the events of a step."""
        return f"{_READING}/{step:09}"

    def forget_reading(self, step: int) -> None:
        """Remove what readers made of a step that is committed."""
        self.files.remove(self.reading(step))

    def sweep(self) -> None:
        """Remove what a crash has left of files that were being written, or read."""
        self.files.remove(_READING)
        folders = ["", "commits", "log", "window", "messages", "definitions", "plans"]
        folders += [f"routed/{plan}" for plan in self.files.names("routed")]
        for folder in folders:
            self.files.sweep(folder)

    def _remove_empty(self, folder: str) -> None:
        if not self.files.names(folder):
            self.files.remove(folder)

    def _write(
        self, name: str, tables: list[pa.Table], schema: pa.Schema, durable: bool = True
    ) -> list[int]:
        data = packed(tables, schema)
        self.files.write(name, data, durable=durable)
        return [len(data), zlib.crc32(data)]

    def _read(self, name: str, expected: list[int]) -> pa.Table | None:
        try:
            data = self.files.map(name)
        except SourceError:
            return None
        if [data.size, zlib.crc32(data)] != list(expected):
            return None
        with pa.ipc.open_file(data) as reader:
            return completed(reader.read_all(), LOG)


def open_state(path: str) -> PipelineState:
    """Open the state of a pipeline to look at it, whatever its settings are."""
    return PipelineState(path, None)


def packed(tables: list[pa.Table], schema: pa.Schema) -> pa.Buffer:
    """Tables as one Arrow file, each as one record batch that can be read alone."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema) as writer:
        for table in tables:
            batches = table.combine_chunks().to_batches()
            if len(batches) > 1:
                raise SourceError(
                    f"a step of {len(table):,} operations with more than 2 GB of text; give files "
                    "with fewer events"
                )
            writer.write_batch(batches[0] if batches else pa.RecordBatch.from_pylist([], schema))
    return sink.getvalue()


def read_about(files: Files) -> dict[str, Any]:
    """What a folder says of itself; refuse one that is not the state of a pipeline."""
    try:
        about: dict[str, Any] = json.loads(files.read("about.json"))
        found = (about["kind"], about["version"])
    except (SourceError, ValueError, KeyError, TypeError) as error:
        raise StateError(
            f"{files.root}: not the state of a pipeline ({error}); give the folder that "
            "`nearcast spark run --state` was given, or an empty one"
        ) from None
    if found[0] != KIND or found[1] not in _READABLE:
        raise StateError(
            f"{files.root}: holds {found[0]!r} of version {found[1]}, this reads {KIND!r} of "
            f"versions up to {VERSION}; use the release that wrote it, or an empty folder"
        )
    return about


def _difference(have: dict[str, Any], given: dict[str, Any]) -> str:
    names = sorted({name for name in have | given if have.get(name) != given.get(name)})
    return ", ".join(
        f"{name}: {have.get(name)!r} there, {given.get(name)!r} here" for name in names
    )


def _number(name: str) -> int:
    """The number that a name begins with, or one beyond all others."""
    start = name.split(".")[0]
    return int(start) if start.isdigit() else 2**62


def _numbers(files: Files, folder: str, ending: str) -> list[int]:
    names = files.names(folder)
    return sorted(
        int(name.removesuffix(ending))
        for name in names
        if name.endswith(ending) and name.removesuffix(ending).isdigit()
    )
