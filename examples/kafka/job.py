"""Events from a topic of Kafka, updates to another one, each exactly once.

    spark-submit --packages org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0 \\
      examples/kafka/job.py HOST:9092 STATE

Needs `pip install 'nearcast[spark,kafka]'`, and the topics `events` and `updates`.
"""

import sys

from pyspark.sql import SparkSession

from nearcast.spark import match_stream
from nearcast.spark.kafka import UpdatesTopic, kafka_events
from nearcast.spark.session import prepare


def main(servers: str, state: str) -> None:
    """Run until it is stopped; started again with the same state, it goes on."""
    spark = prepare(SparkSession.builder.appName("nearcast")).getOrCreate()
    query = match_stream(
        kafka_events(spark, servers, "events", maxOffsetsPerTrigger=100_000),
        state=state,
        foreach_batch=UpdatesTopic(servers, "updates", name=f"nearcast {state}"),
        quarantine=f"{state}-refused",
    )
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
