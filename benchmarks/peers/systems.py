"""The systems that are compared: each loads a workload and then matches its messages, in rounds.

`matched` gives the number of pairs found and the CPU seconds it took, of the one thread or process
that does the matching. All run in turns, and are asked for the same.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import shapely
from workload import Workload

from nearcast import Engine

HERE = Path(__file__).parent
_MAVEN = "https://repo1.maven.org/maven2/org/apache/lucene"


class System(Protocol):
    """One of the systems."""

    name: str

    def matched(self) -> tuple[int, float]:
        """Match all messages once: pairs found, CPU seconds."""

    def close(self) -> None:
        """Give back what it holds."""


class Nearcast:
    """An engine, with messages as one table."""

    name = "Nearcast"

    def __init__(self, workload: Workload) -> None:
        self._engine = Engine(index="rarest-term")
        regions = [{"type": "Box", "bbox": list(box)} for box in workload.boxes]
        ids = [f"s{number}" for number in range(len(regions))]
        queries = [" ".join(words) or None for words in workload.wanted]
        self._engine.subscribe_table(pa.table({"id": ids, "query": queries, "region": regions}))
        self._texts = [" ".join(words) for words in workload.texts]
        self._points = [list(point) for point in workload.points]
        self._round = 0

    def matched(self) -> tuple[int, float]:
        """Publish the table."""
        table = pa.table({"id": self._ids(), "text": self._texts, "point": self._points})
        begun = time.process_time()
        found = self._engine.publish_table(table)
        return found.num_rows, time.process_time() - begun

    def _ids(self) -> list[str]:
        """Ids that no message had before, or it would replace that one."""
        self._round += 1
        return [f"{self._round}-{number}" for number in range(len(self._texts))]

    def close(self) -> None:
        """Nothing to do."""


class NearcastSingle(Nearcast):
    """The same engine, one call a message."""

    name = "Nearcast, one message a call"

    def matched(self) -> tuple[int, float]:
        """Publish message by message."""
        ids = self._ids()
        begun, pairs = time.process_time(), 0
        for id, text, (lon, lat) in zip(ids, self._texts, self._points, strict=True):
            pairs += len(self._engine.publish(id, text, (lon, lat)))
        return pairs, time.process_time() - begun


class Tree:
    """A shapely STRtree of the boxes, and sets of words for what it finds."""

    name = "shapely STRtree and sets of words"

    def __init__(self, workload: Workload) -> None:
        self._tree = shapely.STRtree(shapely.box(*np.array(workload.boxes).T))
        self._wanted = [frozenset(words) for words in workload.wanted]
        self._points = shapely.points(np.array(workload.points))
        self._texts = [frozenset(words) for words in workload.texts]

    def matched(self) -> tuple[int, float]:
        """Ask the tree for all points at once, then compare words."""
        begun, pairs = time.process_time(), 0
        wanted, texts = self._wanted, self._texts
        messages, subscriptions = self._tree.query(self._points, predicate="intersects")
        for message, subscription in zip(messages.tolist(), subscriptions.tolist(), strict=True):
            pairs += wanted[subscription] <= texts[message]
        return pairs, time.process_time() - begun

    def close(self) -> None:
        """Nothing to do."""


class PostGis:
    """PostgreSQL with PostGIS, on a socket of its own: an index of boxes, one of words."""

    name = "PostgreSQL and PostGIS"

    def __init__(self, workload: Workload) -> None:
        found = sorted(Path("/usr/lib/postgresql").glob("*/bin/psql"))
        named = shutil.which("psql")
        if not found and named is None:
            raise FileNotFoundError("psql; on Debian: apt install postgresql-15-postgis-3")
        self._programs = (found[-1] if found else Path(str(named)).resolve()).parent
        self._folder = Path(tempfile.mkdtemp(prefix="peers-"))
        self._as = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
        if self._as:
            shutil.chown(self._folder, "postgres")
        self._run("initdb", "-D", str(self._folder / "data"), "--auth=trust", "-E", "UTF8")
        options = f"-k {self._folder} -c listen_addresses='' -c jit=off -c fsync=off"
        options += " -c shared_buffers=512MB -c max_parallel_workers_per_gather=0"
        log = str(self._folder / "log")
        data = str(self._folder / "data")
        self._run("pg_ctl", "-D", data, "-w", "-l", log, "-o", options, "start")
        command = [str(self._programs / "psql"), "-h", str(self._folder), "-XqAt"]
        command += ["-v", "ON_ERROR_STOP=1", "postgres"]
        self._psql = subprocess.Popen(
            [*self._as, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self._in, self._out = self._psql.stdin, self._psql.stdout
        self._backend = int(self._ask("SELECT pg_backend_pid();"))
        known = self._ask("SELECT count(*) FROM pg_available_extensions WHERE name = 'postgis';")
        if known == "0":
            self.close()
            raise FileNotFoundError("PostGIS; on Debian: apt install postgresql-15-postgis-3")
        self._ask("CREATE EXTENSION postgis; SELECT 1;")
        self._ask("CREATE TABLE people (id text, words text[], area geometry); SELECT 1;")
        self._ask("CREATE TABLE messages (id text, words text[], place geometry); SELECT 1;")
        rows = [
            f"('s{number}','{{{','.join(words)}}}',ST_MakeEnvelope({west},{south},{east},{north}))"
            for number, ((west, south, east, north), words) in enumerate(
                zip(workload.boxes, workload.wanted, strict=True)
            )
        ]
        self._insert("people", rows)
        self._insert(
            "messages",
            [
                f"('m{number}','{{{','.join(words)}}}',ST_MakePoint({lon},{lat}))"
                for number, ((lon, lat), words) in enumerate(
                    zip(workload.points, workload.texts, strict=True)
                )
            ],
        )
        self._ask("CREATE INDEX ON people USING gist (area); SELECT 1;")
        self._ask("CREATE INDEX ON people USING gin (words); SELECT 1;")
        self._ask("ANALYZE; SELECT 1;")

    def matched(self) -> tuple[int, float]:
        """Join messages with people; the planner chooses which index to use."""
        begun = self._cpu()
        pairs = self._ask(
            "SELECT count(*) FROM messages m JOIN people p "
            "ON ST_Intersects(p.area, m.place) AND p.words <@ m.words;"
        )
        return int(pairs), self._cpu() - begun

    def close(self) -> None:
        """Stop it and remove its files."""
        with suppress(OSError):
            self._in.close()
        self._psql.wait()
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-m", "immediate", "stop")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _insert(self, table: str, rows: list[str]) -> None:
        for start in range(0, len(rows), 5000):
            values = ",".join(rows[start : start + 5000])
            self._ask(f"INSERT INTO {table} VALUES {values}; SELECT 1;")

    def _ask(self, query: str) -> str:
        self._in.write(query + "\n")
        self._in.flush()
        line = self._out.readline()
        if not line:
            raise RuntimeError(f"psql ended at: {query[:200]}")
        return line.strip()

    def _cpu(self) -> float:
        return cpu_of(self._backend)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._programs / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._folder)


class Tile38:
    """A Tile38 server with a fence for each box: every message is a new object among the fences."""

    name = "Tile38, fences without words"

    def __init__(self, workload: Workload, program: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="peers-"))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = [str(program), "-h", "127.0.0.1", "-p", str(port), "-d", str(self._folder)]
        self._process = subprocess.Popen(
            [*command, "--appendonly", "no"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self._port, self._points, self._round = port, workload.points, 0
        self._commands = self._connected()
        fence = "SETCHAN s{} INTERSECTS objects FENCE DETECT enter COMMANDS set BOUNDS {} {} {} {}"
        for start in range(0, len(workload.boxes), 1000):
            boxes = enumerate(workload.boxes[start : start + 1000], start)
            self._ask(
                [
                    fence.format(number, south, west, north, east)
                    for number, (west, south, east, north) in boxes
                ]
            )
        self._listener = self._connected()
        self._listener.sendall(b"PSUBSCRIBE *\r\n")
        self._heard, self._left, self._last = 0, b"", threading.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    def matched(self) -> tuple[int, float]:
        """Set all objects, and wait until the fences have reported the last one."""
        self._round += 1
        begun, heard = self._cpu(), self._heard
        self._last.clear()
        for start in range(0, len(self._points), 100):
            points = enumerate(self._points[start : start + 100], start)
            self._ask(
                [
                    f"SET objects {self._round}-{number} POINT {lat} {lon}"
                    for number, (lon, lat) in points
                ]
            )
        self._ask([f"PUBLISH done {self._round}"])
        self._last.wait()
        return self._heard - heard, self._cpu() - begun

    def close(self) -> None:
        """Stop it and remove its files."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _connected(self) -> socket.socket:
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self._port))
            except ConnectionRefusedError:
                if self._process.poll() is not None:
                    raise FileNotFoundError("Tile38 ended at once") from None
                time.sleep(0.1)

    def _ask(self, commands: list[str]) -> None:
        """Send commands, and read a line for each: +OK or :1."""
        self._commands.sendall("".join(f"{command}\r\n" for command in commands).encode())
        lines = b""
        while lines.count(b"\n") < len(commands):
            lines += self._commands.recv(1 << 16)
        if b"-" in lines:
            raise RuntimeError(f"Tile38 answered {lines[:200]!r}")

    def _listen(self) -> None:
        """Count what the fences report, until the connection ends."""
        while chunk := self._listener.recv(1 << 20):
            text = self._left + chunk
            whole, _, self._left = text.rpartition(b"\n")
            self._heard += whole.count(b'"detect":"enter"')
            if b"done\r\n" in whole:
                self._last.set()

    def _cpu(self) -> float:
        return cpu_of(self._process.pid)


def cpu_of(process: int) -> float:
    """The CPU seconds of all threads of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Lucene:
    """Lucene Monitor, the library below percolators, in a JVM; it answers each round in a line."""

    name = "Lucene Monitor"
    version = "9.11.1"

    def __init__(self, workload: Workload, rounds: int, jars: Path) -> None:
        if shutil.which("javac") is None:
            raise FileNotFoundError("javac; on Debian: apt install openjdk-17-jdk-headless")
        names = ["core", "monitor", "memory", "queryparser", "queries", "analysis-common"]
        jars.mkdir(parents=True, exist_ok=True)
        for name in names:
            path = jars / f"lucene-{name}-{self.version}.jar"
            if not path.exists():
                place = f"{_MAVEN}/lucene-{name}/{self.version}/{path.name}"
                urllib.request.urlretrieve(place, path)
        self._folder = Path(tempfile.mkdtemp(prefix="peers-"))
        people, messages = self._folder / "people.tsv", self._folder / "messages.tsv"
        with people.open("w") as file:
            for box, words in zip(workload.boxes, workload.wanted, strict=True):
                file.write("\t".join([" ".join(words), *map(repr, box)]) + "\n")
        with messages.open("w") as file:
            for point, words in zip(workload.points, workload.texts, strict=True):
                file.write("\t".join([" ".join(words), *map(repr, point)]) + "\n")
        path = f"{jars}/*:{self._folder}"
        source = str(HERE / "Percolate.java")
        subprocess.run(["javac", "-cp", path, "-d", str(self._folder), source], check=True)
        command = ["java", "-cp", path, "Percolate", str(people), str(messages), str(rounds)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def matched(self) -> tuple[int, float]:
        """The next round of the program."""
        pairs, seconds = self._process.stdout.readline().split()
        return int(pairs), float(seconds)

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)
