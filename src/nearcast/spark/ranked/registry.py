"""The ways to rank, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearcast.errors import InvalidValue
from nearcast.partition.registry import PARTITIONERS
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.spark.dskype.stages import Dskype
from nearcast.spark.ranked.shared import Shared
from nearcast.spark.ranked.work import Ranker, Stage

if TYPE_CHECKING:
    from nearcast.spark.tasks import Work

RANKERS: dict[str, Ranker] = {"shared": Shared(), **dict.fromkeys(MECHANISMS, Dskype())}

AUTO = "auto"


def stages_of(work: Work) -> list[Stage]:
    """The stages of the tasks that rank in a step."""
    return [] if work.ranked is None else RANKERS[work.ranked.scheme].stages(work)


def names_in(partitioner: str) -> tuple[str, str]:
    """Read the name of a partitioner, of a way to rank, or both with a comma between them.

    The side that is not named is `auto`. A name that both sides have is that of a partitioner
    unless it comes second.
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


def ranker_for(name: str) -> str:
    """The way to rank that a name means: where every node has the window, nothing is asked for."""
    return "shared" if name == AUTO else name
