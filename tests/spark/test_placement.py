"""Shards keep their host, are spread evenly, and change hosts one at a time."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from nearcast.spark.placement import ShardHosts, ShardPlacement, executor_hosts, united

HOSTS = ["a", "b", "c", "d"]


def test_shards_are_spread_over_all_hosts() -> None:
    assert Counter(ShardHosts().assign(8, HOSTS)) == dict.fromkeys(HOSTS, 2)


def test_a_host_with_more_room_gets_more() -> None:
    assert Counter(ShardHosts().assign(6, ["a", "a", "b"])) == {"a": 4, "b": 2}


def test_a_shard_keeps_its_host_while_others_lose_theirs() -> None:
    shards = ShardHosts()
    before = shards.assign(8, HOSTS)
    after = shards.assign(8, ["a", "b", "d"])
    moved = [at for at in range(8) if before[at] != after[at]]
    assert moved == [at for at in range(8) if before[at] == "c"]
    assert max(Counter(after).values()) == 3


def test_a_host_that_comes_gets_one_shard_at_a_time() -> None:
    shards = ShardHosts()
    seen = [shards.assign(8, HOSTS[:3])]
    seen += [shards.assign(8, HOSTS) for _ in range(4)]
    changes = [
        sum(a != b for a, b in zip(one, other, strict=True)) for one, other in pairwise(seen)
    ]
    assert changes == [1, 1, 0, 0]
    assert Counter(seen[-1]) == dict.fromkeys(HOSTS, 2)


def test_a_frame_keeps_its_partitions_and_prefers_hosts(spark: SparkSession) -> None:
    """Also where a shuffle has preferences of its own."""
    rows = spark.range(0, 40, 1, 3).selectExpr("id", "CAST(id % 4 AS int) AS shard")
    hosts = ["127.0.0.2", "127.0.0.3", "127.0.0.2", "127.0.0.4"]
    frame = united(spark, rows.repartitionById(4, "shard"), hosts)
    found = frame.selectExpr("id", "shard", "spark_partition_id() AS place").collect()
    assert sorted(row.id for row in found) == list(range(40))
    assert all(row.place == row.shard == row.id % 4 for row in found)
    plan: Any = frame._jdf
    context: Any = spark.sparkContext._jsc
    inside = plan.queryExecution().toRdd()
    for shard, host in enumerate(hosts):
        preferred = context.sc().getPreferredLocs(inside, shard)
        assert [preferred.apply(at).host() for at in range(preferred.size())] == [host]


def test_on_one_machine_there_are_no_executors_and_frames_stay_as_they_are(
    spark: SparkSession,
) -> None:
    assert executor_hosts(spark) == []
    frame, placement = spark.range(4), ShardPlacement(spark)
    placement.look()
    assert placement.pinned(frame, 4) is frame


@given(
    st.lists(
        st.tuples(st.integers(1, 12), st.lists(st.sampled_from(HOSTS), min_size=1)), max_size=12
    )
)
def test_every_shard_has_a_host_that_is_there(steps: list[tuple[int, list[str]]]) -> None:
    """And after enough calls with the same hosts, none has room for one more than another has."""
    shards = ShardHosts()
    for width, hosts in steps:
        assert set(shards.assign(width, hosts)) <= set(hosts)
        for _ in range(width):
            last = shards.assign(width, hosts)
        assert shards.assign(width, hosts) == last
        held, room = Counter(last), Counter(hosts)
        most = max(held[host] / room[host] for host in room)
        assert all((held[host] + 1) / room[host] >= most for host in room)
