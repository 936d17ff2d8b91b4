"""Sessions of Spark, configured in one place.

`local_session` starts Spark on this machine. `prepare` configures a session that is being built, or
what can still be configured of one that exists. `check` says what a session lacks.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from importlib.resources import files
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from nearcast.errors import SetupError
from nearcast.spark import gateway
from nearcast.spark.java import use_java
from nearcast.spark.settings import (
    CHECKPOINTS,
    LAUNCHER_OPTIONS,
    LOCAL_CHECKPOINTS,
    QUIET,
    SETTINGS,
    Setting,
    java_options,
)

_log = logging.getLogger("nearcast.spark")
_LOWEST_SPARK = (4, 1)
_TRIES = 4
_warned: set[str] = set()

B = TypeVar("B", SparkSession, SparkSession.Builder)


class Shortcoming(NamedTuple):
    """A setting that is not what it should be, and what that costs."""

    setting: Setting
    found: str

    def __str__(self) -> str:
        wanted = self.setting
        when = "start the session with it" if wanted.at_start else "set it on the session"
        return (
            f"{wanted.key} is {self.found!r}; expected {wanted.value!r}, or else {wanted.cost}; "
            f"{when}, or use nearcast.spark.session.prepare"
        )


def local_session(
    master: str = "local[*]", app: str = "nearcast", **conf: str | int | bool
) -> SparkSession:
    """Start Spark on this machine, or give the session that this process already has.

    `conf` are settings of Spark, `**{"spark.driver.memory": "4g"}`, and override ours.
    """
    if SparkContext._active_spark_context is not None:
        session = prepare(SparkSession.builder.getOrCreate())
        check(session)
        return session
    use_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", QUIET["spark.driver.host"])
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", LAUNCHER_OPTIONS)
    settings = QUIET | {setting.key: setting.value for setting in SETTINGS}
    settings |= {key: _text(value) for key, value in conf.items()}
    settings |= {"spark.master": _tried_again(master), "spark.app.name": app}
    settings["spark.driver.extraJavaOptions"] = " ".join(
        [_log_option(), java_options(settings.get("spark.driver.extraJavaOptions", ""))]
    )
    spark_conf = SparkConf()
    for key, value in settings.items():
        spark_conf.set(key, value)
    if gateway.running() is None:
        SparkContext(conf=spark_conf, gateway=gateway.launch(spark_conf))
    else:
        SparkContext(conf=spark_conf)
    session = SparkSession.builder.getOrCreate()
    if CHECKPOINTS not in conf:
        _use_local_checkpoints(session)
    return session


def _tried_again(master: str) -> str:
    """Let tasks be tried four times, as on a cluster; Spark on one machine tries them once.

    A Python worker that is killed, such as by a system short of memory, then costs only time.
    """
    threads = re.fullmatch(r"local(\[(\d+|\*)\])?", master)
    return f"local[{threads[2] or 1},{_TRIES}]" if threads else master


def _text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _log_option() -> str:
    return f"-Dlog4j2.configurationFile={files('nearcast.spark') / 'log4j2.properties'}"


def prepare(target: B, state: str | None = None) -> B:
    """Configure a session that is being built, or what can still be set of one that exists.

    `state` is where the state of the stream will be: on this machine's files, checkpoints can be
    written in half the time. Of a session that exists, its other queries are affected too.
    """
    if isinstance(target, SparkSession.Builder):
        for setting in SETTINGS:
            target.config(setting.key, setting.value)
        return target
    session = target
    _refuse_connect(session)
    for setting in SETTINGS:
        if not setting.at_start:
            session.conf.set(setting.key, setting.value)
    if is_local_master(session.sparkContext.master) and "PYSPARK_PYTHON" not in os.environ:
        session.sparkContext.pythonExec = sys.executable
    if state is not None and urlsplit(state).scheme in ("", "file"):
        _use_local_checkpoints(session)
    return target


def is_local_master(master: str | None) -> bool:
    """Whether all tasks run on the machine of the driver."""
    return master is not None and (master == "local" or master.startswith("local["))


def _use_local_checkpoints(session: SparkSession) -> None:
    """Write checkpoints by the plain file interface, if this release of Spark has it there.

    It looks before it renames, which is safe for one writer: a stream has one.
    """
    if gateway.has_class(session, LOCAL_CHECKPOINTS):
        session.conf.set(CHECKPOINTS, LOCAL_CHECKPOINTS)


def check(session: SparkSession) -> list[Shortcoming]:
    """Warn of each setting that a session lacks, once in a process.

    A setting without which the pipeline could go wrong is an error.
    """
    _refuse_connect(session)
    version = tuple(int(part) for part in session.version.split(".")[:2])
    if version < _LOWEST_SPARK:
        lowest = ".".join(map(str, _LOWEST_SPARK))
        raise SetupError(
            f"the session runs Spark {session.version}; expected {lowest} or newer, "
            "as `pip install 'nearcast[spark]'` brings it"
        )
    lacking = [
        Shortcoming(setting, found)
        for setting in SETTINGS
        if (found := _value(session, setting)).lower() != setting.value
    ]
    for shortcoming in lacking:
        if shortcoming.setting.needed:
            raise SetupError(str(shortcoming))
    for shortcoming in lacking:
        if shortcoming.setting.key not in _warned:
            _warned.add(shortcoming.setting.key)
            _log.warning("%s", shortcoming)
    return lacking


def _value(session: SparkSession, setting: Setting) -> str:
    if setting.at_start:
        found: Any = session.sparkContext.getConf().get(setting.key, setting.default)
    else:
        found = session.conf.get(setting.key, setting.default)
    return str(found)


def _refuse_connect(session: object) -> None:
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise SetupError(
            "the session is one of Spark Connect; expected a session in the process of the driver, "
            "as the pipeline runs there; start it with spark-submit, or with local_session()"
        )
