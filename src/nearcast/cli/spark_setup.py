"""A session of Spark for a command, and plain errors for its failures."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING

from nearcast.errors import InvalidValue, NearcastError, SetupError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_NEEDED = ("pyspark", "pandas")
_SECONDS_BETWEEN_LOOKS = 0.1
_LAST_WORDS = re.compile(r"^(?:\w+\.)*(\w+(?:Error|Exception|Value|Field)): (.+)$", re.MULTILINE)


def need_spark() -> None:
    """Raise an error that says how to install Spark, if it is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise SetupError(
            f"{' and '.join(missing)} not installed, which the pipeline on Spark needs; "
            "run: pip install 'nearcast[spark]'"
        )


@contextmanager
def spark_session(
    master: str | None = None,
    meanwhile: Callable[[], object] = lambda: None,
    given_up: Callable[[], bool] = lambda: False,
) -> Iterator[SparkSession]:
    """Start Spark, or use what this process was started with, and end what was started.

    Without `master` it is this machine, or the cluster of spark-submit. A JVM takes its time to
    start; `meanwhile` is called then, and `given_up` asked whether to wait any longer. A JVM that
    is left alone ends with this process.
    """
    need_spark()
    from pyspark import SparkContext

    running = SparkContext._active_spark_context is not None
    starting = _apart(lambda: _session(master, running))
    meanwhile()
    while not wait([starting], _SECONDS_BETWEEN_LOOKS).done:
        if given_up():
            raise KeyboardInterrupt
    session = starting.result()
    try:
        yield session
    finally:
        if not running:
            session.stop()


def _apart(make: Callable[[], SparkSession]) -> Future[SparkSession]:
    """Call in another thread: in the main thread PySpark would take over Ctrl-C for good."""
    made: Future[SparkSession] = Future()

    def run() -> None:
        try:
            made.set_result(make())
        except BaseException as error:  # whatever it is, it is raised below
            made.set_exception(error)

    Thread(target=run, name="start of Spark", daemon=True).start()
    return made


def _session(master: str | None, running: bool) -> SparkSession:
    from pyspark.sql import SparkSession

    from nearcast.spark.session import check, local_session, prepare

    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if running or (not submitted and (master or "local[*]").startswith("local")):
        session = local_session(master or "local[*]")
    else:
        builder = prepare(SparkSession.builder.appName("nearcast"))
        session = _started(builder if master is None else builder.master(master), master)
    check(session)
    return session


def _started(builder: SparkSession.Builder, master: str | None) -> SparkSession:
    try:
        return builder.getOrCreate()
    except Exception as error:
        reason = _first_line(str(error))
        expected = f"local[N], or a cluster that can be reached ({reason})"
        raise InvalidValue("--master", master, expected) from None


def _first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "no reason given")


@contextmanager
def plainly() -> Iterator[None]:
    """Raise the original error of a failure on Spark."""
    try:
        yield
    except Exception as error:
        plain = in_plain_words(error)
        if plain is error:
            raise
        raise plain from error


def in_plain_words(error: BaseException) -> BaseException:
    """Find, in what Spark makes of a failure, the error that it began with.

    Spark hands on errors of Python as the text of a traceback, in the text of its own error.
    """
    if isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
        return RuntimeError(
            "Spark has ended: its process was killed, or had no memory left; run the same command "
            "again to go on"
        )
    if isinstance(error, NearcastError) or not _is_of_spark(error):
        return error
    errors = _LAST_WORDS.findall(str(error))
    for name, text in reversed(errors):
        kind = getattr(errors, name, None)
        if isinstance(kind, type) and issubclass(kind, NearcastError):
            return NearcastError(text)
    if errors:
        return RuntimeError(f"{errors[-1][0]}: {errors[-1][1]}")
    return RuntimeError(_first_line(str(error)))


def _is_of_spark(error: BaseException) -> bool:
    return type(error).__module__.split(".")[0] in ("pyspark", "py4j")
