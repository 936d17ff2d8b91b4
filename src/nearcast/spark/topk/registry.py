"""The ranking schemes by name, and the stages of a step."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from nearcast.errors import InvalidValue
from nearcast.partition.plan import Plan
from nearcast.partition.registry import PARTITIONERS
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.spark.topk.by_engine import ENGINE, engine_stages
from nearcast.spark.topk.dskype.stages import dskype_stages
from nearcast.spark.topk.shared import MESSAGE_BYTES, shared_stages
from nearcast.spark.workers.node_folders import cache_root
from nearcast.spark.workers.task import Stage, TaskInput
from nearcast.spark.workers.tasks import matching_stages
from nearcast.topk import Window

RANKERS: dict[str, Callable[[TaskInput], list[Stage]]] = {
    "shared": shared_stages,
    **dict.fromkeys(MECHANISMS, dskype_stages),
}
"""By ranking scheme: the stages in which the tasks of a step rank."""

AUTO = "auto"

_MOST_SHARING = 6
"""Workers up to which it is cheaper that each takes in every message.

Measured: taking one in costs about 5 us, finding whom it concerns among a million subscriptions
40 us, and distributing that 1.5 times as much; all but taking in is divided among the workers.
"""


def chains_of(work: TaskInput, plan: Plan) -> list[list[Stage]]:
    """The chains of stages that run in a step: one that matches, and one that ranks."""
    matching = [matching_stages(work, plan)] if work.parts else []
    if work.ranked is None:
        return matching
    stages = engine_stages if work.ranked.scheme == ENGINE else RANKERS[work.ranked.scheme]
    return [*matching, stages(work)]


def names_in(partitioner: str) -> tuple[str, str]:
    """Read the name of a partitioner, of a ranking scheme, or of both with a comma between them.

    Whichever is not named is `auto`. A name that both have means a partitioner unless it comes
    second.
    """
    boolean, ranked = {AUTO, *PARTITIONERS}, {AUTO, *RANKERS}
    parts = [part.strip() for part in partitioner.split(",")]
    for one, other in ((parts[0], AUTO), (AUTO, parts[0])) if len(parts) == 1 else (
        (parts[0], parts[-1]), (parts[-1], parts[0])
    ):  # fmt: skip
        if len(parts) <= 2 and one in boolean and other in ranked:
            return one, other
    both = f"one of {', '.join(_listed(boolean))}; for top-k of {', '.join(_listed(ranked))}"
    raise InvalidValue("partitioner", partitioner, f"{both}; or one of each with a comma")


def _listed(names: set[str]) -> list[str]:
    return [AUTO, *sorted(names - {AUTO})]


def ranker_for(name: str, window: Window, workers: int) -> str:
    """The ranking scheme of a name: `auto` is the cheapest one.

    With the whole window on every worker, workers need nothing from each other and a step costs two
    thirds; but each of them takes in every message. Beyond `_MOST_SHARING` workers that costs more,
    and a window that does not fit is out of the question.
    """
    if name != AUTO:
        return name
    needed = (window.count or 0) * workers * MESSAGE_BYTES
    room = shutil.disk_usage(_there(cache_root())).free
    return "shared" if workers <= _MOST_SHARING and needed < room // 2 else "prefix"


def _there(path: Path) -> Path:
    """A folder, or its nearest parent that exists."""
    while not path.exists():
        path = path.parent
    return path
