"""Measure how long a new user waits after installing Nearcast, with nothing compiled.

    python tools/first_minute.py [--json]

Kernels of this checkout are deleted first. Then, each in processes of its own: README's five lines;
the demo on the embedded engine, which does not wait for kernels; compiling kernels, as an
installation does beside its downloads; the demo on Spark, where there is Java.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
NEARCAST = [sys.executable, "-m", "nearcast"]
FIVE_LINES = """
import time
start = time.process_time()
from nearcast import Circle, Engine
imported = time.process_time()
engine = Engine()
engine.subscribe("ada", "ipad AND (discount OR sale)", Circle((151.2, -33.87), radius=2000))
updates = engine.publish("m1", "iPad sale!", (151.21, -33.87))
assert len(updates) == 1
print(imported - start, time.process_time())
"""
_SECONDS = re.compile(r"(Ready|First match) after ([0-9.]+) s")


def main() -> None:
    """Measure every phase and print it."""
    shutil.rmtree(ROOT / "src" / "nearcast" / "_kernels", ignore_errors=True)
    found: dict[str, Any] = {}
    for name, seconds in phases():
        found[name] = round(seconds, 2)
        if "--json" not in sys.argv:
            sys.stdout.write(f"{seconds:7.2f} s  {name}\n")
            sys.stdout.flush()
    if "--json" in sys.argv:
        sys.stdout.write(json.dumps(found) + "\n")


def phases() -> Iterator[tuple[str, float]]:
    """Run each phase, and give what it took."""
    imported, total = map(float, said([sys.executable, "-c", FIVE_LINES]).split())
    yield "CPU to import nearcast", imported
    yield "CPU of README's five lines in all", total
    yield from demo("embedded", 12)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    subprocess.run([*NEARCAST, "kernels", "build"], check=True, cwd=ROOT)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield (
        "to compile kernels, as an installation does beside its downloads",
        time.monotonic() - start,
    )
    yield "CPU of that", after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if subprocess.run(
        [sys.executable, "-m", "nearcast.spark.java"], capture_output=True
    ).returncode:
        sys.stderr.write("no Java 17: the demo on Spark is left out\n")
        return
    yield from demo("spark", 40)


def demo(engine: str, seconds: int) -> Iterator[tuple[str, float]]:
    """Run the demo, and give when it said that it is ready and that it found a match."""
    command = [*NEARCAST, "demo", "--no-browser", "--duration", str(seconds)]
    text = said(command, ENGINE=engine)
    for what, after in _SECONDS.findall(text):
        yield f"demo on {engine}: {what.lower()}", float(after)
    if "First match" not in text:
        raise SystemExit(f"the demo on {engine} found nothing:\n{text}")


def said(command: list[str], **environment: str) -> str:
    """Run a command and give what it printed."""
    done = subprocess.run(
        command, env=os.environ | environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    main()
