"""Run simulated worlds, by many seeds; what breaks a promise is told with the seed.

    .venv/bin/python tests/soak/simulate.py --seeds 10000 [--from 0] [--minutes 60] [--events]

With `--events` all that happened is written out too.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "helpers"))

from nearcast.server.logs import set_up_logs
from simulation.world import run_seed


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> int:
    """Run the seeds, and return how many of them broke a promise, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--from", type=int, default=0, dest="first")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--events", action="store_true")
    given = parser.parse_args()
    set_up_logs("error")
    gc.freeze()  # what was imported stays; a run makes much that does not
    gc.set_threshold(20_000)
    started, found = time.monotonic(), 0
    for count, seed in enumerate(range(given.first, given.first + given.seeds), 1):
        run = run_seed(seed)
        if given.events:
            say("\n".join(run.events))
        if run.violation is not None:
            found += 1
            say(run.told())
        elif given.seeds <= 10:
            say(f"{seed} {run.trace}")
        minutes = (time.monotonic() - started) / 60
        if count % 50 == 0 or minutes > given.minutes:
            say(f"{count} seeds, {found} broken, {minutes:.1f} minutes")
        if minutes > given.minutes:
            break
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main())
