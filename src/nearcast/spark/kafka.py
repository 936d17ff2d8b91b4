"""Events from topics of Kafka, and updates to one, each exactly once.

Reading needs Spark's connector among its jars (`spark.jars.packages`), writing the extra
`nearcast[kafka]`.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession

from nearcast.errors import InvalidValue, SetupError, StateError
from nearcast.events.fields import STRUCTURED
from nearcast.spark.readers.schema import LINES
from nearcast.spark.readers.sources import read_lines

_TRANSACTION_S = 600.0
_PAUSE_S = 0.2


def kafka_events(
    session: SparkSession, servers: str, topics: str | Iterable[str], **options: str | int
) -> DataFrame:
    """Stream the events of topics, each record one event of the log as JSON.

    From the beginning, unless `startingOffsets` says otherwise; `options` are those of Spark's
    connector, with dots as in `**{"kafka.security.protocol": "SSL"}`. Records of one partition keep
    their order; those of several are ordered by `at`, then by partition. A record that is no event
    is refused as such.
    """
    names = [topics] if isinstance(topics, str) else list(topics)
    reader = session.readStream.format("kafka").option("startingOffsets", "earliest")
    for name, value in options.items():
        reader = reader.option(name, value)
    reader = reader.option("kafka.bootstrap.servers", servers).option("subscribe", ",".join(names))
    try:
        records = reader.load()
    except AnalysisException as error:
        raise SetupError(
            f"the session cannot read Kafka ({str(error).splitlines()[0]}); start it with "
            f"spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{session.version}"
        ) from None
    return records.select("value").mapInArrow(_read, LINES)


def _read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield read_lines(value or b"" for value in batch.column(0).to_pylist())


class UpdatesTopic:
    """Writes the updates of a pipeline to a topic, as its `foreach_batch`, each exactly once.

    A batch is one transaction, which also has its number, as the offset of a consumer group: one
    that is given again after a crash is passed over. Consumers have to read with
    `isolation.level=read_committed`. The key of a record is the subscription, so one partition has
    all updates of a subscription, in order; the value is the update as JSON.

    `name` is that of the transactions and of the group: each state needs its own, and keeps it.
    `settings` are those of librdkafka, such as `security.protocol`.
    """

    def __init__(
        self, servers: str, topic: str, name: str, settings: Mapping[str, Any] | None = None
    ) -> None:
        try:
            import confluent_kafka
        except ImportError:
            raise SetupError(
                "updates are written to Kafka by confluent-kafka, which is not installed; "
                "`pip install 'nearcast[kafka]'`"
            ) from None
        if not name:
            raise InvalidValue("name", name, "a name that no other pipeline has")
        self._topic, self._name = topic, name
        shared = {**(settings or {}), "bootstrap.servers": servers}
        self._producer: Any = confluent_kafka.Producer(
            shared | {"transactional.id": name, "compression.type": "lz4", "linger.ms": 20}
        )
        self._group: Any = confluent_kafka.Consumer(
            shared
            | {"group.id": name, "enable.auto.commit": False, "isolation.level": "read_committed"}
        )
        self._place = confluent_kafka.TopicPartition
        # What an earlier process began is ended by this, and no such process can go on.
        self._producer.init_transactions(_TRANSACTION_S)
        self.done = self._committed()
        """The last batch that is in the topic."""

    def _committed(self) -> int:
        """The last batch that is in the topic, or 0; asked again while its broker changes."""
        from confluent_kafka import KafkaError, KafkaException

        moving = (
            KafkaError.NOT_COORDINATOR,
            KafkaError.COORDINATOR_NOT_AVAILABLE,
            KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        )
        until = time.monotonic() + _TRANSACTION_S
        while True:
            try:
                place = self._place(self._topic, 0)
                (found,) = self._group.committed([place], timeout=_TRANSACTION_S)
                return max(0, int(found.offset))
            except KafkaException as error:
                if error.args[0].code() not in moving or time.monotonic() > until:
                    raise
                time.sleep(_PAUSE_S)

    def __call__(self, updates: DataFrame, batch: int) -> None:
        """Write a batch, unless it is there."""
        if batch == self.done:
            return
        if batch < self.done:
            raise StateError(
                f"{self._topic}: has {self._name!r} up to batch {self.done}, and was given batch "
                f"{batch}, as if the state had begun anew; give another name, or the state that "
                "belongs to it"
            )
        self._producer.begin_transaction()
        try:
            for row in updates.sort("event", "subscription", "message").toLocalIterator():
                self._write(row.asDict())
            mark = [self._place(self._topic, 0, batch)]
            self._producer.send_offsets_to_transaction(
                mark, self._group.consumer_group_metadata(), _TRANSACTION_S
            )
            self._producer.commit_transaction(_TRANSACTION_S)
        except BaseException:
            self._producer.abort_transaction(_TRANSACTION_S)
            raise
        self.done = batch

    def _write(self, update: dict[str, Any]) -> None:
        fields = {name: value for name, value in update.items() if value is not None}
        for name in STRUCTURED:
            if name in fields:
                fields[name] = msgspec.Raw(fields[name].encode())
        key, value = fields["subscription"].encode(), msgspec.json.encode(fields)
        while True:
            try:
                self._producer.produce(self._topic, key=key, value=value)
                return
            except BufferError:  # the queue is full
                self._producer.poll(1.0)
