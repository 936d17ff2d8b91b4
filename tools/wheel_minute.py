"""Measure how long a new user waits after installing a wheel that includes its kernels.

    python tools/wheel_minute.py dist/nearcast-....whl

It is installed into a fresh virtual environment. Each phase runs in a separate process; kernels
that are added to the environment show what still had to be compiled.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from first_minute import FIVE_LINES

TABLE = """
import time
import pyarrow as pa
from nearcast import Engine

begun = time.process_time()
rows = range(100_000)
places = [(x % 300 - 150.0, x % 100 - 50.0) for x in rows]
boxes = [{"type": "Box", "bbox": [x, y, x + 1.0, y + 1.0]} for x, y in places]
queries = [f"w{x % 5000} w{x % 7919}" for x in rows]
table = pa.table({"id": [f"s{x}" for x in rows], "query": queries, "region": boxes})
making = time.process_time() - begun
engine = Engine(index="rarest-term")
engine.subscribe_table(table)
engine.publish("m", "w1 w2", (0.5, 0.5))
print(time.process_time() - making)
"""
SPARK = """
import tempfile
from nearcast.spark import match_stream
from nearcast.spark.session import local_session

session = local_session("local[2]")
box, top = '{"type": "Box", "bbox": [0, 0, 1, 1]}', '{"k": 1, "alpha": 0.5}'
columns = ("seq", "op", "id", "query", "region", "text", "point", "top")
events = [
    (0, "subscribe", "s", "a OR b", box, None, None, None),
    (1, "publish", "m", None, None, "a b", "[0.5, 0.5]", None),
    (2, "subscribe", "t", "a", None, None, "[0.5, 0.5]", top),
    (3, "publish", "n", None, None, "a", "[0.5, 0.4]", None),
]
schema = ", ".join(f"{name} {'long' if name == 'seq' else 'string'}" for name in columns)
with tempfile.TemporaryDirectory() as state:
    assert match_stream(session.createDataFrame(events, schema), state=state).count() > 0
session.stop()
"""


def main(wheel: Path) -> None:
    """Install, run each phase, print what it took."""
    with tempfile.TemporaryDirectory() as folder:
        environment = Path(folder) / "venv"
        python = environment / "bin" / "python"
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        install = [python, "-m", "pip", "install", "--quiet", f"{wheel}[server,spark]"]
        subprocess.run(install, check=True)
        say("CPU of README's five lines in all", float(ran(python, FIVE_LINES).split()[1]))
        say(
            "CPU of an index and 100,000 subscriptions from a table",
            float(ran(python, TABLE)),
        )
        say("until the server answers", served(environment / "bin" / "nearcast"))
        ran(python, SPARK)
        say("until a batch on Spark is done and Spark has ended", took.pop())
        added = [
            path for path in kernels(environment) if path.stat().st_mtime > installed(environment)
        ]
        sys.stdout.write(f"{len(added):7} kernels were compiled by all of that\n")
        for path in added:
            sys.stdout.write(f"          {path.name}\n")


took: list[float] = []


def ran(python: Path, program: str) -> str:
    """Run a program and give what it printed."""
    start = time.monotonic()
    done = subprocess.run([python, "-c", program], stdout=subprocess.PIPE, text=True, check=True)
    took.append(time.monotonic() - start)
    return done.stdout


def served(nearcast: Path) -> float:
    """Start a server; the seconds until it answers."""
    start = time.monotonic()
    with subprocess.Popen(
        [nearcast, "serve", "--port", "0"], stderr=subprocess.PIPE, text=True
    ) as server:
        assert server.stderr is not None  # noqa: S101 - as asked for
        address = server.stderr.readline().split()[1]
        while True:
            try:
                urllib.request.urlopen(f"{address}readyz", timeout=5).read()  # noqa: S310 - our own
                break
            except OSError:
                time.sleep(0.01)
        seconds = time.monotonic() - start
        server.terminate()
    return seconds


def kernels(environment: Path) -> list[Path]:
    """The files of all kernels in an environment."""
    return sorted(environment.glob("lib/*/site-packages/nearcast/_kernels/*/*.kernel"))


def installed(environment: Path) -> float:
    """When everything had been installed."""
    (record,) = environment.glob("lib/*/site-packages/nearcast-*.dist-info/RECORD")
    return record.stat().st_mtime + 1.0


def say(what: str, seconds: float) -> None:
    """Print a phase."""
    sys.stdout.write(f"{seconds:7.2f} s  {what}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
