"""The parts of the package that kernels are built for, and what makes each of them compile."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from nearcast.engine.names import INDEX_NAMES
from nearcast.kernels.rehearsal import rehearse


def _spark() -> None:
    from nearcast.spark.warm import warm_tasks

    warm_tasks()


def _moving() -> None:
    from nearcast.kernels.laboratory import rehearse_moving

    rehearse_moving()


def _topk() -> None:
    from nearcast.kernels.laboratory import rehearse_topk

    rehearse_topk()


def _planning() -> None:
    from nearcast.kernels.laboratory import rehearse_planning

    rehearse_planning()


def _spark_topk() -> None:
    from nearcast.kernels.spark_topk import rehearse_mechanisms

    rehearse_mechanisms()


ENGINE = "engine"
_INDEXES = [name for name in INDEX_NAMES if name not in ("auto", "rarest-term", "scan")]

PARTS: dict[str, Callable[[], None]] = {
    ENGINE: partial(rehearse, "rarest-term"),
    "spark": _spark,
    "spark-topk": _spark_topk,
    "planning": _planning,
    "moving": _moving,
    "topk": _topk,
    **{name: partial(rehearse, name) for name in _INDEXES},
}
"""By name: the engine with its own index, tasks on Spark, what plans, what is only compared."""

FIRST = (ENGINE, "spark")
"""What people use unless they ask for more."""
