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
from nearcast.events import Record, Update
from nearcast.events.bodies import Include


class Chosen(NamedTuple):
    """The settings, workers and partitioner that a user chose, and what updates have besides."""

    settings: Settings
    workers: int | None
    partitioner: str
    include: Include


def check_partitioner(name: str) -> tuple[str, str]:
    """Read the names of a partitioner and of a ranking scheme; refuse unknown ones."""
    from nearcast.spark.topk.registry import names_in

    try:
        return names_in(name)
    except InvalidValue as error:
        raise InvalidValue("--partitioner", name, error.expected) from None


@contextmanager
def replay_on_spark(
    records: Iterable[Record], refuse: Refusal, chosen: Chosen
) -> Iterator[Iterator[tuple[int, list[Update]]]]:
    """Start Spark while the block runs, and yield positions with their updates."""
    need_spark()
    from nearcast.spark.replay import replay_steps
    from nearcast.spark.runner import SparkRunner
    from nearcast.spark.stream import partitioners_for

    with (
        plainly(),
        interrupted_quietly(),
        spark_session() as session,
        TemporaryDirectory(prefix="nearcast-") as folder,
    ):
        runner = SparkRunner(session)
        partitioner, scheme = partitioners_for(chosen.partitioner, session)
        found = replay_steps(
            records,
            refuse,
            runner=runner,
            settings=chosen.settings,
            workers=chosen.workers or runner.tasks,
            partitioner=partitioner,
            scheme=scheme,
            folder=Path(folder),
            include=chosen.include,
        )
        try:
            yield found
        finally:
            found.close()
