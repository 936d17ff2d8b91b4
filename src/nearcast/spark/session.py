"""Sessions of Spark, configured in one place.

`local_session` starts Spark on this machine. `prepare` configures a session that is being built, or
what can still be configured of one that exists. `check` says what a session lacks.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import reduce
from importlib.resources import files
from subprocess import PIPE
from threading import Thread
from typing import Any, BinaryIO, NamedTuple, TypeVar
from urllib.parse import urlsplit

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from nearcast.errors import SetupError
from nearcast.spark.java import use_java

DAEMON = "nearcast.spark.daemon"
CHECKPOINTS = "spark.sql.streaming.checkpointFileManagerClass"
LOCAL_CHECKPOINTS = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)


class Setting(NamedTuple):
    """One setting: what it should be, when it can be set, and what another value would cost.

    With another value of one that is `needed` the pipeline could go wrong; the others are about
    speed and comfort.
    """

    key: str
    value: str
    default: str
    at_start: bool
    cost: str
    needed: bool = False


SETTINGS = (
    Setting(
        "spark.speculation",
        "false",
        "false",
        at_start=True,
        cost="two attempts at one task would change the state of one shard at the same time",
        needed=True,
    ),
    Setting(
        "spark.python.daemon.module",
        DAEMON,
        "pyspark.daemon",
        at_start=True,
        cost="each Python process loads and warms up for itself, a second or more at its start, "
        "and shares less memory with the others",
    ),
    Setting(
        "spark.python.worker.reuse",
        "true",
        "true",
        at_start=True,
        cost="every task starts in a fresh Python process, which has to load its shard first",
    ),
    Setting(
        "spark.sql.adaptive.enabled",
        "false",
        "true",
        at_start=False,
        cost="Spark plans the stages of every batch again, some tens of milliseconds each",
    ),
    Setting(
        "spark.sql.execution.arrow.pyspark.enabled",
        "true",
        "false",
        at_start=False,
        cost="tables go between Python and the JVM row by row",
    ),
    Setting(
        "spark.sql.streaming.numRecentProgressUpdates",
        "20",
        "100",
        at_start=False,
        cost="the driver keeps more of the past of each stream in memory than is shown",
    ),
)
"""What every session should have; the checkpoint file manager is apart, as it goes by the path."""

QUIET = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # From 33 folders on Spark would start a job to list them, with a task for each: seconds of CPU
    # for every batch, where one machine lists thousands in milliseconds.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
"""What a session on this machine has besides: nothing listens to the outside, nothing chatters."""

_COMPILING = (
    # Most of what a start takes would go into the JVM's second compiler. It waits for what runs
    # twenty times as often as usual: that is compiled again, at leisure.
    "-XX:Tier4InvocationThreshold=100000 -XX:Tier4MinInvocationThreshold=12000 "
    "-XX:Tier4CompileThreshold=300000 -XX:Tier4BackEdgeThreshold=800000"
)
# The JVM hands on names and packets: there is little garbage to collect side by side.
_COLLECTING = "-XX:+UseSerialGC"
LAUNCHER_OPTIONS = f"-XX:TieredStopAtLevel=1 {_COLLECTING}"
"""For the JVM that only works out the command of another."""


def java_options(given: str = "") -> str:
    """Options with which the JVM of a session on this machine is there soon, then those given.

    A JVM refuses to start with two ways to collect garbage.
    """
    ours = [_COMPILING] if re.search(r"-XX:\+Use\w*GC\b", given) else [_COMPILING, _COLLECTING]
    return " ".join([*ours, *given.split()])


_ALWAYS_THERE = (
    b"WARNING: Using incubator modules:",
    b"WARNING: package sun.security.action not in java.base",
)
"""What the JVM itself says at every start; no setting keeps it from doing so."""


def _running() -> Any | None:
    """Give the gateway to the JVM of this process, if it has one."""
    return SparkContext._gateway


def _launch(conf: SparkConf) -> Any:
    """Start a JVM, and pass on what it says on standard error, without what it always says."""
    gateway = launch_gateway(conf, {"stderr": PIPE})  # type: ignore[no-untyped-call]
    reader = Thread(target=_pass_on, args=(gateway.proc.stderr,), name="jvm-stderr", daemon=True)
    reader.start()
    return gateway


def _pass_on(source: BinaryIO) -> None:
    for line in source:
        if not line.startswith(_ALWAYS_THERE):
            # The descriptor, not the stream: this is where the JVM would have written.
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, line)


def has_class(session: SparkSession, name: str) -> bool:
    """Whether the JVM of a session knows a class."""
    found: Any = reduce(getattr, name.split("."), session.sparkContext._jvm)
    return type(found).__name__ == "JavaClass"  # and a package where there is none of that name


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
    if _running() is None:
        SparkContext(conf=spark_conf, gateway=_launch(spark_conf))
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
    refuse_connect(session)
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


@contextmanager
def quick_checkpoints(session: SparkSession, state: str) -> Iterator[None]:
    """Let a stream that is started meanwhile write its checkpoints in half the time.

    That goes for a state on this machine's files. A query takes it from the session when it
    starts; afterwards the session is as it was.
    """
    given: Any = session.conf.get(CHECKPOINTS, None)
    if given is not None or urlsplit(state).scheme not in ("", "file"):
        yield
        return
    _use_local_checkpoints(session)
    try:
        yield
    finally:
        session.conf.unset(CHECKPOINTS)


def _use_local_checkpoints(session: SparkSession) -> None:
    """Write checkpoints by the plain file interface, if this release of Spark has it there.

    It looks before it renames, which is safe for one writer: a stream has one.
    """
    if has_class(session, LOCAL_CHECKPOINTS):
        session.conf.set(CHECKPOINTS, LOCAL_CHECKPOINTS)


def check(session: SparkSession) -> list[Shortcoming]:
    """Warn of each setting that a session lacks, once in a process.

    A setting without which the pipeline could go wrong is an error.
    """
    refuse_connect(session)
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


def refuse_connect(given: object) -> None:
    """Refuse a session of Spark Connect, or a frame of one."""
    if type(given).__module__.startswith("pyspark.sql.connect"):
        raise SetupError(
            "the session is one of Spark Connect; expected a session in the process of the driver, "
            "as the pipeline runs there; start it with spark-submit, or with local_session()"
        )
