"""A pipeline from one topic of Kafka to another, as a program that is killed.

`python kafka_pipeline.py SERVERS STATE JARS` takes what is there and ends.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nearcast.spark import match_stream
from nearcast.spark.kafka import UpdatesTopic, kafka_events
from nearcast.spark.session import local_session

A_BATCH = 240


def main(servers: str, state: str, jars: str) -> None:
    """Match what the topic `events` has."""
    paths = ",".join(str(path) for path in sorted(Path(jars).glob("*.jar")))
    spark = local_session("local[2]", **{"spark.jars": paths, "spark.driver.memory": "512m"})
    events = kafka_events(spark, servers, "events", maxOffsetsPerTrigger=A_BATCH)
    target = UpdatesTopic(servers, "updates", "kafka-pipeline")
    query = match_stream(
        events, workers=2, partitioner="space-kd", state=state, foreach_batch=target,
        available_now=True, quarantine=f"{state}-refused",
    )  # fmt: skip
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
