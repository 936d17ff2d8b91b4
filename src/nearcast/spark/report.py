"""What is known of a batch that was committed, and where that is kept.

One small JSON file a batch, `commits/<batch>.json` under the state of a stream, which a pipeline
writes as its commit. Whoever wants to see how a stream is doing reads these, while it runs or
after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pyarrow import fs

from nearcast.errors import SourceError
from nearcast.spark.paths import resolve

_FOLDER = "commits"
_KIND = ".json"


@dataclass(frozen=True)
class WorkerReport:
    """What one worker did in a batch.

    - `load`: seconds of CPU that it spent;
    - `lag`: operations that it had to catch up with before it could start;
    - `messages`, `operations`: those that reached it, and `updates` that it answered with;
    - `rows`, `bytes`: the size of its index after the batch.
    """

    worker: int
    load: float = 0.0
    lag: int = 0
    messages: int = 0
    operations: int = 0
    updates: int = 0
    rows: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class BatchReport:
    """What was done in a batch, under which plan, and how long each step took.

    `seconds` has `total` for the whole batch, and the steps by name. `committed_at` is the time of
    the commit, in seconds since 1970.
    """

    batch: int
    plan: int
    events: int
    messages: int
    operations: int
    updates: int
    refused: int
    seconds: dict[str, float]
    workers: list[WorkerReport] = field(default_factory=list)
    committed_at: float = 0.0

    @property
    def total_s(self) -> float:
        """How long the batch took: its `total`, or else all steps together."""
        return self.seconds.get("total", sum(self.seconds.values()))

    def to_json(self) -> bytes:
        """Write the report as one line of JSON."""
        return msgspec.json.encode(self)

    @classmethod
    def from_json(cls, data: bytes) -> BatchReport:
        """Read a report; what a later release may have added is passed over."""
        return msgspec.json.decode(data, type=cls)

    @classmethod
    def of_step(cls, step: Mapping[str, Any], committed_at: float) -> BatchReport:
        """Make a report from what a pipeline says of a step."""
        fields = {**step, "batch": step["step"], "committed_at": committed_at}
        fields["workers"] = [
            {**worker, "load": worker["cpu_s"]} for worker in _by_worker(step["workers"])
        ]
        return msgspec.convert(fields, cls)


def _by_worker(tasks: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What each worker did, which may have been in several tasks."""
    found: dict[int, dict[str, Any]] = {}
    for task in tasks:
        one = found.setdefault(task["worker"], dict(task))
        if one != task:
            for name in ("cpu_s", "messages", "updates"):
                one[name] += task[name]
    return [found[worker] for worker in sorted(found)]


def _commits(state: str) -> tuple[Any, str]:
    files, root = resolve(state)
    return files, f"{root.rstrip('/')}/{_FOLDER}"


def write_report(state: str, report: BatchReport) -> None:
    """Keep the report of a batch; one that is there already is replaced, at once."""
    files, folder = _commits(state)
    files.create_dir(folder, recursive=True)
    unfinished = f"{folder}/.{report.batch}{_KIND}"
    with files.open_output_stream(unfinished) as file:
        file.write(report.to_json())
    files.move(unfinished, f"{folder}/{report.batch}{_KIND}")


def _found(state: str) -> dict[int, Any]:
    files, folder = _commits(state)
    infos = files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
    named = ((info.base_name.removesuffix(_KIND), info) for info in infos)
    return {
        int(stem): info
        for stem, info in sorted(named, key=lambda pair: pair[0])
        if stem.isdigit() and info.base_name.endswith(_KIND)
    }


def reported_batches(state: str) -> list[int]:
    """Give the numbers of the batches that have a report, in order."""
    return sorted(_found(state))


def _read(state: str, info: Any) -> BatchReport:
    files, _ = _commits(state)
    try:
        with files.open_input_stream(info.path) as file:
            data = file.read()
        fields = msgspec.json.decode(data)
        if isinstance(fields, dict) and "report" in fields:  # the commit of a pipeline
            return BatchReport.of_step(fields["report"], info.mtime_ns / 1e9)
        return BatchReport.from_json(data)
    except (OSError, msgspec.DecodeError, KeyError, TypeError) as error:
        raise SourceError(
            f"{info.path}: not a readable report of a batch ({error}); restore it"
        ) from None


def read_reports(state: str, last: int | None = None) -> list[BatchReport]:
    """Read the reports of a stream in order, or only the last so many."""
    found = _found(state)
    batches = sorted(found)
    return [_read(state, found[at]) for at in (batches if last is None else batches[-last:])]


def prune_reports(state: str, keep: int) -> None:
    """Remove all reports but the last so many."""
    files, folder = _commits(state)
    for batch in reported_batches(state)[: -keep or None]:
        files.delete_file(f"{folder}/{batch}{_KIND}")


def balance(workers: Sequence[WorkerReport]) -> float:
    """How much more the busiest worker did than the average one; 1 is even."""
    loads = [worker.load for worker in workers]
    return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0
