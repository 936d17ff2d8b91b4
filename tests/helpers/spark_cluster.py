"""A standalone cluster of Spark on this machine: a master, and workers on addresses of their own.

Only 127.0.0.x is listened on. Each worker has one core and a folder of its own, for its work and
for what pipelines keep on a node, and none of this process's environment but a path.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from packaging.requirements import Requirement

from nearcast.spark.java import use_java
from patience import wait_until

ROOT = Path(__file__).parents[2]
ENVIRONMENT = "environment"
"""The name under which tasks find the archive."""

_OPTIONS = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_MEMORY = "640m"


def node_archive(folder: Path) -> Path:
    """Pack what nodes need, as pip installs it: this package, but neither Spark nor tools.

    The versions are those of this environment, as kernels belong to one version of numba.
    """
    constraints = folder / "constraints.txt"
    installed = importlib.metadata.distributions()
    pinned = {dist.metadata["Name"]: dist.version for dist in installed}
    constraints.write_text("".join(f"{name}=={version}\n" for name, version in pinned.items()))
    pandas = next(
        each for each in map(Requirement, importlib.metadata.requires("nearcast") or [])
        if each.name == "pandas"
    )  # fmt: skip
    place, packed = folder / "env", folder / "nearcast-env.tar.gz"
    wanted = [str(ROOT), f"pandas{pandas.specifier}"]
    for command in (
        [sys.executable, "-m", "venv", str(place)],
        [f"{place}/bin/python", "-m", "pip", "install", "--quiet", "--constraint",
         str(constraints), *wanted],
        ["tar", "-C", str(place), "--exclude=__pycache__", "--exclude=tests", "-I", "gzip -1",
         "-cf", str(packed), "."],
    ):  # fmt: skip
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        subprocess.run(command, check=True, env=environment)
    return packed


class Cluster:
    """A master, and workers by the last number of their address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.master = f"spark://127.0.0.1:{port}"
        self._start(
            1, "master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"
        )
        wait_until(lambda: "I have been elected leader" in self.log(1), lambda: self.log(1))

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number in list(self._processes):
            self.kill(number)

    def add(self, number: int) -> None:
        """Start a worker on 127.0.0.NUMBER, and wait until the master has it."""
        host = f"127.0.0.{number}"
        known = self.log(1).count(f"Registering worker {host}")
        self._start(
            number, "worker.Worker", "--host", host, "--webui-port", "0", "--cores", "1",
            "--memory", _MEMORY, "--work-dir", str(self._folder / host / "work"), self.master,
        )  # fmt: skip
        wait_until(
            lambda: self.log(1).count(f"Registering worker {host}") > known,
            lambda: self.log(number),
        )

    def kill(self, number: int) -> None:
        """End a worker and its executors at once, as a node that loses its power."""
        process = self._processes.pop(number)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def left(self) -> list[str]:
        """The processes that still run something in the folder of this cluster."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                at = (entry / "cwd").readlink() if entry.name.isdigit() else Path("/")
            except OSError:
                continue
            if at.is_relative_to(self._folder):
                found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def log(self, number: int) -> str:
        """What a process has said."""
        path = self._folder / f"{number}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def settings(self, archive: Path) -> dict[str, str]:
        """What a session on it is started with."""
        return {
            "spark.master": self.master,
            "spark.archives": f"{archive}#{ENVIRONMENT}",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": _OPTIONS,
            "spark.locality.wait": "30s",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "4",
        }

    def _start(self, number: int, kind: str, *options: str) -> None:
        use_java()
        host = f"127.0.0.{number}"
        place = self._folder / host
        place.mkdir(parents=True, exist_ok=True)
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        home = Path(spec.origin).parent
        environment = {
            "PATH": "/usr/bin:/bin",  # and nothing that is installed for tests
            "JAVA_HOME": os.environ.get("JAVA_HOME", ""),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_HOSTNAME": host,
            "SPARK_DAEMON_MEMORY": "192m",
            "SPARK_DAEMON_JAVA_OPTS": f"{_OPTIONS} -Dspark.master.rest.enabled=false",
            "NEARCAST_CACHE": str(place / "cache"),
        }
        with (self._folder / f"{number}.log").open("ab") as log:
            self._processes[number] = subprocess.Popen(
                [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *options],
                stdout=log,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in environment.items() if value},
                cwd=place,
                start_new_session=True,
            )
