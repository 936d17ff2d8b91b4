"""Build `nearcast-client`: the clients and the values they take, without numba, numpy and pyarrow.

    python tools/client.py [FOLDER]

An extra can only add to what a package asks for, so `nearcast[client]` has all that an engine
needs. The small one is a distribution of its own, made of the same files under the name
`nearcast_client`: both can be installed together, in any versions.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "src" / "nearcast"
NAME = "nearcast_client"
FIRST = ("_version", "client", "errors", "events", "geo")
NEEDS = ("httpx", "httpx-sse", "msgspec")
INIT = '''"""Clients of a Nearcast server: location-aware publish/subscribe over HTTP."""

from nearcast_client._version import __version__
from nearcast_client.client import (
    AsyncClient,
    Bulk,
    Client,
    Gap,
    Published,
    Received,
    ServerError,
    UnreachableError,
)
from nearcast_client.errors import NearcastError
from nearcast_client.events import Message, Subscription, Top
from nearcast_client.geo import Box, Circle, MultiPolygon, Polygon

__all__ = [
    "AsyncClient",
    "Box",
    "Bulk",
    "Circle",
    "Client",
    "Gap",
    "Message",
    "MultiPolygon",
    "NearcastError",
    "Polygon",
    "Published",
    "Received",
    "ServerError",
    "Subscription",
    "Top",
    "UnreachableError",
    "__version__",
]
'''
README = """# nearcast-client

Clients of a Nearcast server, blocking and for asyncio, in a few megabytes: without the engine,
numba, numpy and pyarrow.

```python
from nearcast_client import Circle, Client

with Client("http://127.0.0.1:8080") as client:
    client.subscribe("ada", "ipad AND (discount OR sale)", Circle((151.2, -33.87), radius=2000))
    print(client.publish("m1", "iPad sale!", (151.21, -33.87)))  # Published(id='m1', updates=1)
    for update in client.updates("ada", after=0):
        print(update)
```

They are the clients of the package `nearcast`, file by file. Polygons are checked by the server.
"""


def main(target: Path) -> None:
    """Write the sources and their metadata into a temporary folder, and pack a wheel."""
    with tempfile.TemporaryDirectory() as folder:
        write_tree(Path(folder))
        write_metadata(Path(folder))
        command = ["-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(target), folder]
        subprocess.run([sys.executable, *command], check=True)
    (wheel,) = target.glob(f"{NAME}-*.whl")
    sys.stdout.write(f"{wheel}  {wheel.stat().st_size / 1e6:.1f} MB\n")


def write_tree(folder: Path) -> None:
    """Copy every module that the clients import, under the other name."""
    package = folder / NAME
    for path in sorted(needed()):
        copy = package / path.relative_to(SOURCES)
        copy.parent.mkdir(parents=True, exist_ok=True)
        text = re.sub(r"\b(from|import) nearcast\b", rf"\1 {NAME}", path.read_text("utf-8"))
        copy.write_text(text, "utf-8")
    (package / "__init__.py").write_text(INIT, "utf-8")
    (package / "py.typed").touch()


def needed() -> set[Path]:
    """The files that are read when the clients are imported."""
    found: set[Path] = set()
    waiting = [f"nearcast.{name}" for name in FIRST]
    while waiting:
        path = file_of(waiting.pop())
        if path is None or path in found:
            continue
        found.add(path)
        waiting += imported(path)
        waiting += ["nearcast." + ".".join(path.parent.relative_to(SOURCES).parts)]
    return found - {SOURCES / "__init__.py"}


def imported(path: Path) -> Iterator[str]:
    """What a module imports as soon as it is imported itself."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def file_of(module: str) -> Path | None:
    """The file of a module of ours, None for everything else."""
    first, *rest = module.rstrip(".").split(".")
    path = SOURCES.joinpath(*rest)
    if first != "nearcast":
        return None
    if (path / "__init__.py").exists():
        return path / "__init__.py"
    return path.with_suffix(".py") if path.with_suffix(".py").exists() else None


def write_metadata(folder: Path) -> None:
    """Write what a builder asks for, with the requirements of the whole package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["client"]]
    asked = {re.split(r"[<>=]", line)[0]: line for line in lines}
    about = {
        "name": "nearcast-client",
        "description": "Clients of a Nearcast server: location-aware publish/subscribe over HTTP.",
        "readme": "README.md",
        "license": "Apache-2.0",
        "requires-python": project["requires-python"],
        "dependencies": [asked[name] for name in NEEDS],
        "dynamic": ["version"],
        "classifiers": project["classifiers"],
        "keywords": project["keywords"],
    }
    tables = ["[build-system]", 'requires = ["hatchling>=1.26"]']
    tables += ['build-backend = "hatchling.build"', "[project]"]
    tables += [f"{key} = {json.dumps(value)}" for key, value in about.items()]
    tables += ["[tool.hatch.version]", f'path = "{NAME}/_version.py"', ""]
    (folder / "pyproject.toml").write_text("\n".join(tables), "utf-8")
    (folder / "README.md").write_text(README, "utf-8")
    (folder / "LICENSE").write_bytes((ROOT / "LICENSE").read_bytes())


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "dist").absolute())
