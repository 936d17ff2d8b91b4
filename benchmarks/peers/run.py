"""Nearcast beside other ways to match standing queries: same data, equal answers, one run.

    python benchmarks/peers/run.py [--subscriptions 100000] [--messages 1000] [--json]
    python benchmarks/peers/run.py --tile38 /path/to/tile38-server     # boxes without words

What is not installed is left out, and said. PostgreSQL runs from a temporary folder, Lucene's jars
are fetched from Maven Central into `--jars`. Fences of Tile38 have no words: with it, and with
`--fences`, subscriptions are boxes alone, and Lucene Monitor, which looks for words, is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

from systems import Lucene, Nearcast, NearcastSingle, PostGis, System, Tile38, Tree
from workload import make

from nearcast_lab.timing import in_turns

ROUNDS = 3


def main() -> None:
    """Load all, match in turns, compare the counts, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--subscriptions", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jars", type=Path, default=Path("out/jars"))
    parser.add_argument("--fences", action="store_true", help="boxes without words")
    parser.add_argument("--tile38", type=Path, metavar="PROGRAM", help="a tile38-server")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    fences = given.fences or given.tile38 is not None
    workload = make(given.subscriptions, given.messages, given.seed, fences=fences)
    makers: list[Callable[[], System]] = [
        lambda: Nearcast(workload),
        lambda: NearcastSingle(workload),
        lambda: Tree(workload),
        lambda: PostGis(workload),
    ]
    if not fences:
        makers.append(lambda: Lucene(workload, ROUNDS + 1, given.jars))
    if given.tile38 is not None:
        makers.append(lambda: Tile38(workload, given.tile38))
    systems: list[System] = []
    for make_one in makers:
        try:
            systems.append(make_one())
        except (FileNotFoundError, OSError) as error:
            sys.stderr.write(f"left out: {error}\n")
    try:
        seconds: dict[str, list[float]] = {system.name: [] for system in systems}
        pairs: dict[str, int] = {}
        for turn, system in in_turns(systems, ROUNDS + 1):
            found, took = system.matched()
            if pairs.setdefault(system.name, found) != found:
                raise SystemExit(f"{system.name} found {found} and {pairs[system.name]} pairs")
            if turn:  # the first warms up
                seconds[system.name].append(took)
    finally:
        for system in systems:
            system.close()
    rows = [
        {"system": name, "pairs": pairs[name], "us_a_message": 1e6 * median(took) / given.messages}
        for name, took in seconds.items()
    ]
    if given.json:
        sizes = {"subscriptions": given.subscriptions, "messages": given.messages}
        print(json.dumps({**sizes, "rows": rows}))
    else:
        print(f"{given.subscriptions} subscriptions, {given.messages} messages")
        for row in rows:
            took = f"{row['us_a_message']:12.1f} us of CPU a message"
            print(f"{row['system']:36} {took}, {row['pairs']} pairs")
    if len(set(pairs.values())) != 1:
        raise SystemExit("the systems do not agree on the number of pairs")


if __name__ == "__main__":
    main()
