"""Frames whose files are written when their rows are first asked for.

Spark lists the files of a frame when it runs something on it. The list is asked of an object of
ours, which does the work first and then answers as the list of what was written does.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

_UNKNOWN_BYTES = 1 << 50
"""The size of what is not written yet: too large to be sent to every node for a join."""


def lazy_frame(session: SparkSession, schema: str, write: Callable[[], list[str]]) -> DataFrame:
    """A frame of the Parquet files that `write` gives, which is called once, when it is needed.

    If it fails, so does what asked for rows. Spark keeps that with the frame; what is made of it
    afterwards, if only by `select("*")`, calls it again.
    """
    gateway: Any = session.sparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    jvm_session: Any = session._jsparkSession
    relation = _relation(session.read.schema(schema).parquet(_empty_folder()))

    def files_of(paths: list[str]) -> Any:
        return _relation(session.read.schema(schema).parquet(*(paths or [_empty_folder()])))

    files = _FilesLater(relation.location(), lambda: files_of(write()).location())
    later = relation.copy(
        files, relation.partitionSchema(), relation.dataSchema(), relation.bucketSpec(),
        relation.fileFormat(), relation.options(), jvm_session,
    )  # fmt: skip
    return DataFrame(jvm_session.baseRelationToDataFrame(later), session)


def _relation(frame: DataFrame) -> Any:
    """The relation of a frame that reads files and does nothing else."""
    plan: Any = frame._jdf
    return plan.queryExecution().analyzed().relation()


@cache
def _empty_folder() -> str:
    path = tempfile.mkdtemp(prefix="nearcast-none-")
    atexit.register(shutil.rmtree, path, ignore_errors=True)
    return f"file://{path}"


class _FilesLater:
    """Lists files as Spark asks for it (`FileIndex`), which are written first.

    Called by the JVM, which knows the methods by these names.
    """

    def __init__(self, none: Any, write: Callable[[], Any]) -> None:
        self._none = none
        self._write = write
        self._found: Any = None
        self._lock = threading.RLock()  # writing may ask for sizes

    def _files(self) -> Any:
        with self._lock:
            if self._found is None:
                self._found = self._write()
        return self._found

    def listFiles(self, partitions: Any, rows: Any) -> Any:  # noqa: N802
        return self._files().listFiles(partitions, rows)

    def inputFiles(self) -> Any:  # noqa: N802
        return self._files().inputFiles()

    def rootPaths(self) -> Any:  # noqa: N802
        return (self._found or self._none).rootPaths()

    def partitionSchema(self) -> Any:  # noqa: N802
        return self._none.partitionSchema()

    def metadataOpsTimeNs(self) -> Any:  # noqa: N802
        return self._none.metadataOpsTimeNs()

    def sizeInBytes(self) -> int:  # noqa: N802
        return _UNKNOWN_BYTES if self._found is None else int(self._found.sizeInBytes())

    def refresh(self) -> None:
        """There is nothing newer: what was written stays."""

    def hashCode(self) -> int:  # noqa: N802
        return id(self) & 0x7FFF_FFFF

    def equals(self, other: object) -> bool:
        return other is self

    def toString(self) -> str:  # noqa: N802
        return "updates of nearcast"

    class Java:
        """What py4j asks for."""

        implements = ("org.apache.spark.sql.execution.datasources.FileIndex",)
