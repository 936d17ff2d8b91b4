"""How a pipeline is run, checked before anything runs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import PurePath
from typing import get_args

from nearcast.engine.settings import Settings
from nearcast.errors import InvalidValue
from nearcast.partition.plan import Plan
from nearcast.spark.driver.adjusting import BYTES_A_MINUTE
from nearcast.spark.driver.balancing import Mode
from nearcast.spark.driver.pipeline import STEP_ROWS
from nearcast.spark.included import columns_for
from nearcast.spark.topk.registry import names_in


@dataclass
class StreamOptions:
    """How a pipeline is run."""

    workers: int | None = None
    partitioner: str = "auto"
    plan: Plan | None = None
    settings: Settings | None = None
    quarantine: str | None = None
    step_rows: int = STEP_ROWS
    adjust: Mode = "off"
    adjust_bytes: float = BYTES_A_MINUTE
    include: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse what could not be run."""
        if self.workers is not None:
            _check_whole("workers", self.workers)
        _check_whole("step_rows", self.step_rows)
        _check_type("partitioner", self.partitioner, str, "the name of a partitioner")
        names_in(self.partitioner)
        columns_for(self.include)
        if self.plan is not None:
            _check_type("plan", self.plan, Plan, "a plan, as Plan.from_bytes gives it")
        if self.settings is not None:
            _check_type("settings", self.settings, Settings, "a nearcast Settings")
        if self.adjust not in get_args(Mode):
            raise InvalidValue("adjust", self.adjust, f"one of {', '.join(get_args(Mode))}")
        most: object = self.adjust_bytes
        if isinstance(most, bool) or not isinstance(most, int | float) or not most > 0:
            raise InvalidValue("adjust_bytes", most, "a number of bytes above 0")


def path_of(name: str, given: object) -> str | None:
    """A path that may be given as a string or as a `pathlib.Path`, and may be absent."""
    if given is None:
        return None
    path = os.fspath(given) if isinstance(given, PurePath) else given
    if not isinstance(path, str) or not path.strip():
        raise InvalidValue(name, given, "a path, such as '/mnt/state' or 's3a://bucket/state'")
    return path


def _check_whole(name: str, given: object) -> None:
    if isinstance(given, bool) or not isinstance(given, int) or given < 1:
        raise InvalidValue(name, given, "a whole number from 1 on")


def _check_type(name: str, given: object, kind: type, expected: str) -> None:
    if not isinstance(given, kind):
        raise InvalidValue(name, given, expected)
