"""The settings of Spark that the pipeline wants, each with what it costs to go without."""

from __future__ import annotations

import re
from typing import NamedTuple

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
