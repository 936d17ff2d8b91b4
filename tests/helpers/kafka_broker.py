"""A broker of Kafka on this machine (KRaft, one process), from what Maven Central has."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from uuid import uuid4

import pytest

from nearcast.spark.java import use_java
from patience import wait_until

BROKER = "org.apache.kafka:kafka_2.13:4.2.1"
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
TOKENS = "org.apache.spark:spark-token-provider-kafka-0-10_2.13"

_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>tests</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>"""
_DEPENDENCY = (
    "<dependency><groupId>{0}</groupId><artifactId>{1}</artifactId><version>{2}</version>"
    "<exclusions>{without}</exclusions></dependency>"
)
_EXCLUSION = "<exclusion><groupId>{0}</groupId><artifactId>{1}</artifactId></exclusion>"
# A parent of Spark's names a mirror, which not every network can reach.
_SETTINGS = """<settings><mirrors><mirror><id>central-only</id><mirrorOf>*</mirrorOf>
<url>https://repo.maven.apache.org/maven2</url></mirror></mirrors></settings>"""
_SECONDS_FOR_JARS = 600


def jars(folder: Path, wanted: dict[str, list[str]]) -> Path:
    """Get artifacts with all they need, without some; skip the test where that is impossible."""
    maven = shutil.which("mvn")
    if maven is None:
        pytest.skip("needs Maven, which gets Kafka from Maven Central: `apt install maven`")
    folder.mkdir(parents=True)
    dependencies = "".join(
        _DEPENDENCY.format(
            *name.split(":"), without="".join(_EXCLUSION.format(*each.split(":")) for each in less)
        )
        for name, less in wanted.items()
    )
    (folder / "pom.xml").write_text(_POM.format(dependencies=dependencies))
    (folder / "settings.xml").write_text(_SETTINGS)
    use_java()
    done = subprocess.run(
        [maven, "-q", "-B", "-s", "settings.xml", "dependency:copy-dependencies",
         "-DincludeScope=runtime", "-DoutputDirectory=jars"],
        cwd=folder, capture_output=True, text=True, timeout=_SECONDS_FOR_JARS, check=False,
    )  # fmt: skip
    if done.returncode:
        said = next((line for line in done.stdout.splitlines() if "ERROR" in line), "no reason")
        pytest.skip(f"Maven Central does not give {', '.join(wanted)}: {said[:300]}")
    return folder / "jars"


class KafkaBroker:
    """One broker, with everything it keeps in a folder."""

    def __init__(self, folder: Path, classes: Path) -> None:
        self._folder, self._classes = folder, classes
        folder.mkdir()
        self.servers = f"127.0.0.1:{_free_port()}"
        (folder / "server.properties").write_text(
            "\n".join(
                [
                    "process.roles=broker,controller",
                    "node.id=1",
                    f"controller.quorum.voters=1@{(controller := f'127.0.0.1:{_free_port()}')}",
                    f"listeners=PLAINTEXT://{self.servers},CONTROLLER://{controller}",
                    f"advertised.listeners=PLAINTEXT://{self.servers}",
                    "controller.listener.names=CONTROLLER",
                    f"log.dirs={folder}/data",
                    "offsets.topic.replication.factor=1",
                    "offsets.topic.num.partitions=4",
                    "transaction.state.log.replication.factor=1",
                    "transaction.state.log.min.isr=1",
                    "transaction.state.log.num.partitions=4",
                    "group.initial.rebalance.delay.ms=0",
                ]
            )
        )
        self._java("kafka.tools.StorageTool", "format", "-t", uuid4().hex[:22], "-c").wait()
        self._process = self._java("kafka.Kafka")
        wait_until(self._answers, lambda: (folder / "broker.log").read_text()[-2000:])

    def __enter__(self) -> KafkaBroker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self._folder / "broker.log").read_text()[-2000:]
        host, _, port = self.servers.partition(":")
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            return False
        return True

    def _java(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        java = f"{os.environ['JAVA_HOME']}/bin/java" if "JAVA_HOME" in os.environ else "java"
        with (self._folder / "broker.log").open("ab") as log:
            return subprocess.Popen(
                [java, "-Xmx320m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp",
                 f"{self._classes}/*", name, *options, str(self._folder / "server.properties")],
                stdout=log, stderr=subprocess.STDOUT, cwd=self._folder, start_new_session=True,
            )  # fmt: skip


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
