"""Where the shards of a pipeline live: each on one host, as long as that is there.

Spark runs a task of a shuffled frame wherever there is room, so after a while every node would hold
every shard. Here a frame is united, partition by partition, with an empty one whose partitions
prefer the host of their shard. That is a preference: a shard can be opened anywhere, and is where
its host stays busy for longer than `spark.locality.wait`.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from nearcast.spark.session import has_class, is_local_master

_UNION = "org.apache.spark.rdd.SQLPartitioningAwareUnionRDD"
_EMPTY = "org.apache.spark.rdd.ParallelCollectionRDD"
_DRIVER = "driver"

_log = logging.getLogger("nearcast.spark")


class ShardHosts:
    """Assigns shards to hosts: owners are kept, the host with the fewest takes what has none."""

    def __init__(self) -> None:
        self._host: dict[int, str] = {}

    def assign(self, shards: int, hosts: Sequence[str]) -> list[str]:
        """The host of each shard; one that is listed several times has room for as many.

        When hosts are uneven, as after one came, a shard moves with each call until they are not.
        """
        room = Counter(hosts)
        self._host = {
            shard: host for shard, host in self._host.items() if host in room and shard < shards
        }
        held = Counter(self._host.values())

        def filled(host: str, more: int = 1) -> tuple[float, str]:
            return (held[host] + more) / room[host], host

        for shard in range(shards):
            if shard not in self._host:
                host = min(room, key=filled)
                self._host[shard] = host
                held[host] += 1
        fullest = max(room, key=lambda host: filled(host, 0))
        emptiest = min(room, key=filled)
        if filled(emptiest)[0] < filled(fullest, 0)[0]:
            moved = max(shard for shard, host in self._host.items() if host == fullest)
            self._host[moved] = emptiest
        return [self._host[shard] for shard in range(shards)]


class ShardPlacement:
    """Pins frames to hosts on a cluster; on one machine it leaves them as they are."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._shards = ShardHosts()
        self._hosts: list[str] = []
        self._pins = not is_local_master(session.sparkContext.master)
        if self._pins and not (has_class(session, _UNION) and has_class(session, _EMPTY)):
            self._give_up(f"Spark {session.version} has other classes")

    def look(self) -> None:
        """Look which executors there are now, before the tasks of a step."""
        if self._pins:
            self._hosts = executor_hosts(self._session)

    def pinned(self, frame: DataFrame, width: int) -> DataFrame:
        """A frame whose partitions, one for each shard, prefer the hosts of their shards."""
        if not self._pins or not self._hosts:
            return frame
        try:
            return united(self._session, frame, self._shards.assign(width, self._hosts))
        except Exception as error:  # of py4j, as it comes with Spark
            self._give_up(str(error).splitlines()[0])
            return frame

    def _give_up(self, reason: str) -> None:
        self._pins = False
        _log.warning(
            "shards are not pinned to nodes, and each node may come to hold all: %s", reason
        )


def executor_hosts(session: SparkSession) -> list[str]:
    """The hosts of all executors there are, each as often as it has some."""
    context: Any = session.sparkContext._jsc
    known = context.sc().statusStore().executorList(True)  # those that are active
    executors = [known.apply(at) for at in range(known.size())]
    return sorted(each.hostPort().rpartition(":")[0] for each in executors if each.id() != _DRIVER)


def united(session: SparkSession, frame: DataFrame, hosts: Sequence[str]) -> DataFrame:
    """A frame whose partitions prefer some hosts, one each."""
    jvm: Any = session.sparkContext._jvm
    context: Any = session.sparkContext._jsc
    jvm_frame: Any = frame._jdf
    jvm_session: Any = session._jsparkSession
    rows = jvm_frame.queryExecution().toRdd()
    if rows.getNumPartitions() != len(hosts):
        raise TypeError(f"{rows.getNumPartitions()} partitions for {len(hosts)} shards")
    sequence, tag = jvm.PythonUtils.toSeq, rows.elementClassTag()
    preferred = jvm.PythonUtils.toScalaMap(
        {shard: sequence([host]) for shard, host in enumerate(hosts)}
    )
    empty = jvm.org.apache.spark.rdd.ParallelCollectionRDD(
        context.sc(), sequence([]), len(hosts), preferred, tag
    )
    # Of several preferences the most frequent counts: a shuffle may have one of its own.
    several = sequence([empty, empty, rows])
    union = jvm.org.apache.spark.rdd.SQLPartitioningAwareUnionRDD(
        context.sc(), several, len(hosts), tag
    )
    if union.getNumPartitions() != len(hosts):
        raise TypeError(f"a union of {union.getNumPartitions()} partitions for {len(hosts)} shards")
    pinned = jvm_session.internalCreateDataFrame(union, jvm_frame.schema(), False)
    return DataFrame(pinned, session)
