"""`nearcast replay --engine spark`: the log through a pipeline on this machine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from nearcast.cli.spark_setup import need_spark, plainly, spark_session
from nearcast.cli.spark_watch import interrupted_quietly
from nearcast.engine.replay import Refusal
from nearcast.engine.settings import Settings
from nearcast.errors import InvalidValue
from nearcast.model import Record, Update


class Chosen(NamedTuple):
    """What a user chose."""

    settings: Settings
    workers: int | None
    partitioner: str


def check_partitioner(name: str) -> None:
    """Refuse a name that no partitioner has."""
    from nearcast.partition.registry import PARTITIONERS

    known = ["auto", *(each for each in PARTITIONERS if each != "auto")]
    if name not in known:
        raise InvalidValue("--partitioner", name, f"one of {', '.join(known)}")


@contextmanager
def replay_on_spark(
    records: Iterable[Record], name: str, refuse: Refusal, chosen: Chosen
) -> Iterator[Iterator[tuple[int, list[Update]]]]:
    """Start Spark for the time of the block, and give positions with their updates."""
    need_spark()
    from nearcast.spark.replay import replay_steps
    from nearcast.spark.runner import SparkRunner
    from nearcast.spark.stream import partitioner_for

    with (
        plainly(),
        interrupted_quietly(),
        spark_session() as session,
        TemporaryDirectory(prefix="nearcast-") as folder,
    ):
        runner = SparkRunner(session)
        found = replay_steps(
            records,
            refuse,
            name=name,
            runner=runner,
            settings=chosen.settings,
            workers=chosen.workers or runner.tasks,
            partitioner=partitioner_for(chosen.partitioner, session),
            folder=Path(folder),
        )
        try:
            yield found
        finally:
            found.close()
