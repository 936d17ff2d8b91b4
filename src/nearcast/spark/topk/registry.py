"""The ranking schemes, by name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from nearcast.errors import InvalidValue
from nearcast.partition.registry import PARTITIONERS
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.spark.topk.dskype.stages import DskypeRanker
from nearcast.spark.topk.shared import MESSAGE_BYTES, SharedWindowRanker
from nearcast.spark.topk.work import Ranker, Stage
from nearcast.spark.workers.node_folders import cache_root
from nearcast.topk import Window

if TYPE_CHECKING:
    from nearcast.spark.workers.tasks import TaskInput

RANKERS: dict[str, Ranker] = {
    "shared": SharedWindowRanker(),
    **dict.fromkeys(MECHANISMS, DskypeRanker()),
}

AUTO = "auto"

_MOST_SHARING = 6
"""Workers up to which it is cheaper that each takes in every message.

Measured: taking one in costs about 5 us, finding whom it concerns among a million subscriptions
40 us, and distributing that 1.5 times as much; all but taking in is divided among the workers.
"""


def stages_of(work: TaskInput) -> list[Stage]:
    """The stages of the tasks that rank in a step."""
    return [] if work.ranked is None else RANKERS[work.ranked.scheme].stages(work)


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
