"""`nearcast-client`: the clients work without numba, numpy, pyarrow and the rest of the package."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import client
from served import serving

PROGRAM = """
import sys
for name in ("numba", "numpy", "pyarrow", "shapely", "typer", "zstandard", "nearcast"):
    sys.modules[name] = None  # importing it fails
from nearcast_client import Circle, Client, Polygon
with Client(sys.argv[1]) as client:
    client.subscribe("ada", "ipad", Circle((151.2, -33.87), radius=2000))
    square = [(151, -34), (152, -34), (152, -33), (151, -33), (151, -34)]
    client.subscribe("bob", "sale", Polygon([square]))
    print(client.publish("m1", "iPad sale!", (151.21, -33.87)).updates)
    stream = client.updates(after=0)
    for each in sorted((next(stream), next(stream)), key=lambda each: each.subscription):
        print(each.op, each.subscription, each.body["text"])
"""


def test_the_clients_work_alone(tmp_path: Path) -> None:
    client.write_tree(tmp_path)
    with serving() as server:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, server.url],
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
            env={"PYTHONPATH": str(tmp_path)},
        )
    assert done.stderr == ""
    assert done.stdout == "2\nadd ada iPad sale!\nadd bob iPad sale!\n"


def test_what_it_asks_for_is_what_the_whole_package_asks_for(tmp_path: Path) -> None:
    """Also for everything that its modules import."""
    client.write_metadata(tmp_path)
    text = (tmp_path / "pyproject.toml").read_text("utf-8")
    assert '"httpx>=' in text
    assert '"msgspec>=' in text
    assert "numba>" not in text
