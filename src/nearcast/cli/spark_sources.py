"""What `nearcast spark run --input` may be: files, made-up events, or lines from a socket."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from nearcast.errors import InvalidValue, SourceError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

RATE = "rate:"
_SOCKET = "socket:"
_EXPECTED = "a folder or file of events, rate:EVENTS_PER_SECOND or socket://HOST:PORT"
_DEFAULT_RATE = 100
_POPULATION = 10_000


class EventSource(NamedTuple):
    """A source: its name, how to read it, and whether it gives names of files, not events."""

    name: str
    frame: Callable[[SparkSession], DataFrame]
    files: bool

    @contextmanager
    def reached(self) -> Iterator[None]:
        """Turn the failure of a socket to connect, within the block, into a plain error."""
        try:
            yield
        except Exception as error:
            if self.name.startswith(_SOCKET) and "Connection refused" in str(error):
                raise SourceError(
                    f"{self.name}: nothing listens there; start the sender of the events first"
                ) from error
            raise


def source_of(given: str, files_per_batch: int | None) -> EventSource:
    """Parse `--input`, and refuse a path that does not exist."""
    if given.startswith(RATE):
        return EventSource(given, _rate(given), files=False)
    if given.startswith(_SOCKET):
        return EventSource(given, _socket(given), files=False)
    from nearcast.spark.io.paths import is_local, local_path

    if is_local(given) and not local_path(given).exists():
        raise SourceError(f"{given}: no such file or folder; expected {_EXPECTED}")

    def read(session: SparkSession) -> DataFrame:
        from nearcast.spark.readers.sources import file_names

        return file_names(session, given, files_per_batch=files_per_batch)

    return EventSource(given, read, files=True)


def _rate(given: str) -> Callable[[SparkSession], DataFrame]:
    found = re.fullmatch(r"rate:(\d{0,7})", given)
    if found is None or found[1].strip("0") == "" != found[1]:
        raise InvalidValue("--input", given, f"rate:N, with N events a second, such as {RATE}100")
    rate = int(found[1] or _DEFAULT_RATE)

    def read(session: SparkSession) -> DataFrame:
        from nearcast.spark.readers.sources import rate_events

        return rate_events(session, made_up, events_per_second=rate, first=_POPULATION)

    return read


@cache
def _stream() -> Any:
    from nearcast_lab.workloads.stream import EventStream

    return EventStream(subscriptions=_POPULATION, vocabulary=10_000)


def made_up(first: int, end: int) -> pa.Table:
    """Make events by their numbers; a population subscribes first."""
    return _stream().table(first, end)


def _socket(given: str) -> Callable[[SparkSession], DataFrame]:
    try:
        parts = urlsplit(given)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise InvalidValue("--input", given, "socket://HOST:PORT")

    def read(session: SparkSession) -> DataFrame:
        from nearcast.spark.readers.sources import socket_events

        return socket_events(session, host, port)

    return read
