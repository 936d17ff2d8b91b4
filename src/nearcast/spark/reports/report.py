"""What is known of a batch that was committed, and where that is kept.

There is one small JSON file for each batch, `reports/<batch>.json` under the state of a stream,
which can be read while the stream runs or after.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from nearcast.errors import SourceError
from nearcast.spark.io.files import Files

_FOLDER = "reports"
_KIND = ".json"


@dataclass(frozen=True)
class WorkerReport:
    """What one worker did in a batch.

    - `load`: seconds of CPU that it spent;
    - `lag`: seconds until its index had caught up and it could start;
    - `messages`, `operations`: those that reached it, and `updates` that it answered with;
    - `rows`, `bytes`: the size of its index after the batch, with `active` messages in it;
    - `candidates`: rows that its index looked at;
    - `where`: the node that it ran on.
    """

    worker: int
    load: float = 0.0
    lag: float = 0.0
    messages: int = 0
    operations: int = 0
    updates: int = 0
    rows: int = 0
    bytes: int = 0
    candidates: int = 0
    active: int = 0
    where: str = ""


def by_worker(reports: Sequence[WorkerReport]) -> list[WorkerReport]:
    """Those of one worker, in whatever role, added up; of lags the longest counts."""
    found: dict[int, WorkerReport] = {}
    for one in reports:
        known = found.get(one.worker)
        if known is None:
            found[one.worker] = one
            continue
        sums: dict[str, Any] = {
            each.name: getattr(known, each.name) + getattr(one, each.name) for each in fields(one)
        }
        sums |= {"worker": one.worker, "lag": max(known.lag, one.lag), "where": one.where}
        found[one.worker] = WorkerReport(**sums)
    return [found[worker] for worker in sorted(found)]


@dataclass(frozen=True)
class Moved:
    """What was carried when another version of the plan took over with a batch.

    `subscriptions` and `messages` count what workers got, with their size in `bytes`, because
    `cells` cells moved; `left` cells are still to move on the way to the target plan.
    """

    cells: int
    subscriptions: int
    messages: int
    bytes: int
    left: int = 0


@dataclass(frozen=True)
class Advice:
    """A better plan that was found: the busiest worker by the average, now and by that plan.

    `taken` if the stream is on its way to it.
    """

    balance: float
    expected: float
    cells: int
    bytes: int
    workers: int
    taken: bool = False


@dataclass(frozen=True)
class BatchReport:
    """What was done in a batch, under which plan, and how long each step took.

    `late` events had come before, or out of order, and were passed over. `subscriptions` is how
    many there are, `lasting` how many messages of the batch last, and `active` how many last on
    after it. `seconds` has `total` for the whole batch, and the steps by name.
    `committed_at` is the time of the commit, in seconds since 1970. `moved` says what changed
    hands if another version of the plan took over, `advice` whether a better one was found.
    `rankings` of the subscriptions are top-k, `ranked_updates` of the updates are theirs, `window`
    is the number of messages in the window, and `rankers` are the workers that rank, between which
    `moved_buckets` moved. With distributed top-k, `spread` counts how often a run has distributed
    the subscriptions, and `recalled` had their buffers rebuilt before the batch.
    """

    batch: int
    plan: int
    events: int
    messages: int
    operations: int
    updates: int
    refused: int
    seconds: dict[str, float]
    late: int = 0
    subscriptions: int = 0
    lasting: int = 0
    active: int = 0
    workers: list[WorkerReport] = field(default_factory=list)
    committed_at: float = 0.0
    moved: Moved | None = None
    advice: Advice | None = None
    rankings: int = 0
    ranked_updates: int = 0
    window: int = 0
    rankers: list[WorkerReport] = field(default_factory=list)
    moved_buckets: int = 0
    spread: int = 0
    recalled: int = 0

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


def _folder(state: str) -> Files:
    return Files(state).below(_FOLDER)


def write_report(state: str, report: BatchReport) -> None:
    """Keep the report of a batch; one that is there already is replaced, at once."""
    _folder(state).write(f"{report.batch}{_KIND}", report.to_json(), durable=False)


def reported_batches(state: str) -> list[int]:
    """Give the numbers of the batches that have a report, in order."""
    stems = (name.removesuffix(_KIND) for name in _folder(state).names() if name.endswith(_KIND))
    return sorted(int(stem) for stem in stems if stem.isdigit())


def read_report(state: str, batch: int) -> BatchReport:
    """Read the report of one batch."""
    name = f"{batch}{_KIND}"
    try:
        return BatchReport.from_json(_folder(state).read(name))
    except (SourceError, msgspec.DecodeError) as error:
        raise SourceError(
            f"{state}/{_FOLDER}/{name}: not a readable report of a batch ({error}); remove it, it "
            "is only for show"
        ) from None


def read_reports(state: str, last: int | None = None) -> list[BatchReport]:
    """Read the reports of a stream in order, or only the last `last`."""
    batches = reported_batches(state)
    return [read_report(state, batch) for batch in (batches if last is None else batches[-last:])]


def prune_reports(state: str, keep: int) -> None:
    """Remove all reports but the last `keep`."""
    for batch in reported_batches(state)[: -keep or None]:
        _folder(state).remove(f"{batch}{_KIND}")


def balance(workers: Sequence[WorkerReport]) -> float:
    """How much more the busiest worker did than the average one; 1 is even."""
    loads = [worker.load for worker in workers]
    return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0
