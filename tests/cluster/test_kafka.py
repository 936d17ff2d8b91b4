"""From Kafka to Kafka through a pipeline that is killed: each update once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row

import kafka_pipeline
from kafka_broker import BROKER, CONNECTOR, TOKENS, KafkaBroker, jars
from nearcast.engine.scan import Scan
from nearcast.errors import StateError
from nearcast.events import event_from_json
from nearcast.spark.kafka import UpdatesTopic
from patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.cluster

kafka = pytest.importorskip("confluent_kafka", reason="needs `pip install 'nearcast[kafka]'`")
admin = pytest.importorskip("confluent_kafka.admin")

PARTITIONS = 3
SUBSCRIPTIONS, MESSAGES = 150, 2400
KILLS = 3
WORDS = ["ipad", "sale", "jazz", "wine", "tram"]

Fields = dict[str, Any]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaBroker]:
    folder = tmp_path_factory.mktemp("kafka")
    with KafkaBroker(folder / "broker", jars(folder / "server", {BROKER: []})) as started:
        client = admin.AdminClient({"bootstrap.servers": started.servers})
        topics = [admin.NewTopic(name, PARTITIONS, 1) for name in ("events", "updates", "again")]
        for made in client.create_topics(topics).values():
            made.result()
        yield started


@pytest.fixture(scope="module")
def connector(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Spark's connector; registries may lack its part for tokens, of which any version will do."""
    scala = ["org.scala-lang:scala-library"]
    wanted = {CONNECTOR: [TOKENS, *scala], f"{TOKENS}:4.0.0": ["*:*"]}
    return jars(tmp_path_factory.mktemp("spark") / "connector", wanted)


def subscriptions(rng: random.Random) -> Iterator[Fields]:
    for number in range(SUBSCRIPTIONS):
        west, south = rng.uniform(-20, 15), rng.uniform(-20, 15)
        box = {"type": "Box", "bbox": [west, south, west + 6, south + 6]}
        query = " OR ".join(rng.sample(WORDS, 2))
        yield {"op": "subscribe", "id": f"s{number}", "query": query, "region": box}


def messages(rng: random.Random) -> Iterator[Fields]:
    for number in range(MESSAGES):
        point = [rng.uniform(-20, 20), rng.uniform(-20, 20)]
        text = " ".join(rng.sample(WORDS, 2))
        yield {"op": "publish", "id": f"m{number}", "text": text, "point": point}


def produce(servers: str, records: list[bytes]) -> None:
    producer = kafka.Producer({"bootstrap.servers": servers})
    for number, record in enumerate(records):
        producer.produce("events", record, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0


class Run:
    """One run of the pipeline in a process of its own."""

    def __init__(self, servers: str, state: Path, connector: Path, log: Path) -> None:
        self._log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, kafka_pipeline.__file__, servers, str(state), str(connector)],
                stdout=file, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def said(self) -> str:
        return self._log.read_text(errors="replace")[-4000:]

    def alive(self) -> bool:
        return self._process.poll() is None

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *_: object) -> None:
        if self.alive():
            self.kill()

    def ended(self) -> None:
        """Wait until it has done everything."""
        assert self._process.wait(3 * PATIENCE_S) == 0, self.said()

    def kill(self) -> None:
        """End it with its JVM and its Python workers, as they are."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Reader:
    """A consumer of the updates, from the beginning on."""

    def __init__(self, servers: str, isolation: str, topic: str = "updates") -> None:
        self._consumer = kafka.Consumer(
            {"bootstrap.servers": servers, "group.id": f"reads-{topic}-{isolation}",
             "isolation.level": isolation, "enable.auto.commit": False}
        )  # fmt: skip
        self._consumer.assign([kafka.TopicPartition(topic, at, 0) for at in range(PARTITIONS)])
        self.found: list[Fields] = []

    def until(self, count: int, run: Run) -> None:
        """Read until there are so many, or the run has ended; patient as long as some come."""
        while len(self.found) < count and run.alive():
            before = len(self.found)
            wait_until(lambda: self.more() > before or not run.alive(), run.said)  # noqa: B023

    def more(self) -> int:
        """Read what has come; give how many there are."""
        for record in self._consumer.consume(10_000, timeout=0.2):
            assert record.error() is None, record.error()
            update = json.loads(record.value())
            assert record.key().decode() == update["subscription"]
            self.found.append(update)
        return len(self.found)

    def close(self) -> None:
        self._consumer.close()


class Batch:
    """As much of a frame of updates as is asked of it."""

    def __init__(self, *messages: str, broken: bool = False) -> None:
        self._messages, self._broken = messages, broken

    def sort(self, *_: str) -> Batch:
        return self

    def toLocalIterator(self) -> Iterator[Row]:  # noqa: N802 - as Spark calls it
        for name in self._messages:
            yield Row(event=1, op="add", subscription="s", message=name, meta='{"a": [1]}')
        if self._broken:
            raise ValueError("the rest is missing")


def test_a_batch_is_in_the_topic_once_whoever_gives_it_again(broker: KafkaBroker) -> None:
    """One that failed halfway is not seen, and a process that was replaced can write no more."""

    def topic() -> Any:
        return UpdatesTopic(broker.servers, "again", "again")

    first = topic()
    first(Batch("a", "b"), 1)
    second = topic()
    assert (first.done, second.done) == (1, 1)
    second(Batch("a", "b"), 1)
    with pytest.raises(ValueError, match="the rest is missing"):
        second(Batch("c", broken=True), 2)
    second(Batch("c", "d"), 2)
    with pytest.raises(StateError, match="has 'again' up to batch 2, and was given batch 1"):
        second(Batch("a"), 1)
    with pytest.raises(kafka.KafkaException):
        first(Batch("e"), 3)
    assert topic().done == 2
    seen = Reader(broker.servers, "read_committed", "again")
    wait_until(lambda: seen.more() >= 4, lambda: f"{seen.found}")
    seen.more()
    seen.close()
    assert [each["message"] for each in seen.found] == ["a", "b", "c", "d"]
    assert seen.found[0] == {
        "event": 1, "op": "add", "subscription": "s", "message": "a", "meta": {"a": [1]},
    }  # fmt: skip


def test_three_kills_lose_nothing_and_repeat_nothing(
    broker: KafkaBroker, connector: Path, tmp_path: Path
) -> None:
    """As a consumer sees it that reads what is committed; a bad record is set aside."""
    rng = random.Random(5)
    standing, published = list(subscriptions(rng)), list(messages(rng))
    state, log = tmp_path / "state", tmp_path / "log"

    def run() -> Run:
        return Run(broker.servers, state, connector, log)

    produce(broker.servers, [json.dumps(each).encode() for each in standing])
    with run() as first:
        first.ended()
    records = [json.dumps(each).encode() for each in published]
    produce(broker.servers, [*records[:1000], b'{"op": "publish", "id"', *records[1000:]])

    engine = Scan()
    for event in standing:
        engine.apply(event_from_json(event))
    expected = sorted(
        (each.op, each.subscription, each.message)
        for event in published
        for each in engine.apply(event_from_json(event))
    )
    assert len(expected) > MESSAGES

    written = Reader(broker.servers, "read_uncommitted")
    for kill in range(KILLS):
        with run() as killed:
            written.until(len(expected) * (2 * kill + 1) // (2 * KILLS + 1), killed)
            assert killed.alive(), killed.said()
            killed.kill()
    with run() as last:
        last.ended()
    written.close()

    seen = Reader(broker.servers, "read_committed")
    wait_until(lambda: seen.more() >= len(expected), lambda: f"{len(seen.found)} updates only")
    seen.more()
    seen.close()
    found = sorted((each["op"], each["subscription"], each["message"]) for each in seen.found)
    assert found == expected
    assert len({each["event"] for each in seen.found}) <= MESSAGES
    refused = [
        json.loads(line)
        for path in Path(f"{state}-refused").rglob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    assert [each["event"] for each in refused] == ['{"op": "publish", "id"']
