"""Print the requirements of an extra of the installed package, a line each, for `pip install -r`.

    python tools/extras.py dev | pip install -r /dev/stdin

This way they can be installed without changing the package itself, which may be in use.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import requires

NAME = "nearcast"


def needed(extra: str) -> set[str]:
    """The requirements of an extra, and of those that it is made of."""
    found: set[str] = set()
    for line in requires(NAME) or []:
        requirement, _, marker = line.partition(";")
        if not re.search(rf"extra\s*==\s*['\"]{extra}['\"]", marker):
            continue
        inner = re.fullmatch(rf"{NAME}\[(.+)\]", requirement.strip())
        if inner is None:
            found.add(requirement.strip())
        else:
            found |= {line for each in inner[1].split(",") for line in needed(each.strip())}
    return found


if __name__ == "__main__":
    sys.stdout.write("\n".join(sorted(needed(sys.argv[1]))) + "\n")
