"""Compare kernels for a level of processors, as wheels bring them, with those for this machine.

    python benchmarks/kernel_targets.py [--subscriptions 1000000] [--rounds 3]

All kinds are compiled first, each into a folder of its own. Then `nearcast bench match` runs with
each in turns, a process each, on the same data; CPU time counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from nearcast import _kernel_files
from nearcast_lab.timing import in_turns

KINDS = (*(level.name for level in _kernel_files.levels()), "this machine")


def main() -> None:
    """Compile, measure in turns, and print all beside each other."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
        for kind in KINDS:
            measure(folder, kind, 1000)  # compiles what is missing
        for number, kind in in_turns(KINDS, given.rounds):
            found[kind].append(measure(folder, kind, given.subscriptions))
            rate = found[kind][-1]["messages_per_cpu_s"]
            print(f"round {number + 1}: {kind:12}  {rate:,.0f} messages a CPU second", flush=True)
    if len({each["matches_per_message"] for some in found.values() for each in some}) != 1:
        raise SystemExit("the kinds found different matches")
    *levels, here = (median(each["messages_per_cpu_s"] for each in found[kind]) for kind in KINDS)
    for kind, rate in zip(KINDS, levels, strict=False):
        print(f"{kind} / this machine: {rate / here:.3f} (medians of {given.rounds})")


def measure(folder: str, kind: str, subscriptions: int) -> dict[str, Any]:
    """Run the benchmark once with one kind of kernels."""
    environment = os.environ | {"NEARCAST_KERNELS": str(Path(folder) / kind)}
    for level in _kernel_files.levels():
        if level.name == kind:
            environment |= level.environment
    command = ["bench", "match", "--index", "rarest-term", "--json", "--rounds", "5"]
    done = subprocess.run(
        [sys.executable, "-m", "nearcast", *command, "--subscriptions", str(subscriptions)],
        env=environment, stdout=subprocess.PIPE, check=True,
    )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout)[0]
    return answer


if __name__ == "__main__":
    main()
