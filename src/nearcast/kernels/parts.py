"""The parts of the package that kernels are built for, and what makes each of them compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nearcast.engine.names import INDEX_NAMES
from nearcast.kernels.rehearsal import rehearse


def _spark() -> None:
    from nearcast.spark.warm import warm_tasks

    warm_tasks()


ENGINE = "engine"
_INDEXES = [name for name in INDEX_NAMES if name not in ("auto", "rarest-term", "scan")]

PARTS: dict[str, Callable[[], None]] = {
    ENGINE: partial(rehearse, "rarest-term"),
    "spark": _spark,
    **{name: partial(rehearse, name) for name in _INDEXES},
}
"""By name: the engine with its own index, tasks on Spark, and each index of the papers."""

FIRST = (ENGINE, "spark")
"""What people use unless they ask for more."""
