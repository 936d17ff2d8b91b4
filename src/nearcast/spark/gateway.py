"""The JVM behind a session: started quietly, and asked about its classes."""

from __future__ import annotations

import os
import sys
from functools import reduce
from subprocess import PIPE
from threading import Thread
from typing import TYPE_CHECKING, Any, BinaryIO

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ALWAYS_THERE = (
    b"WARNING: Using incubator modules:",
    b"WARNING: package sun.security.action not in java.base",
)
"""What the JVM itself says at every start; no setting keeps it from doing so."""


def running() -> Any | None:
    """Give the gateway to the JVM of this process, if it has one."""
    return SparkContext._gateway


def launch(conf: SparkConf) -> Any:
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
