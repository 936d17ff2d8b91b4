"""Nodes get compiled kernels from the state of a pipeline, and none compiles twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from nearcast import _kernel_files
from nearcast.spark import match_stream
from nearcast.spark.io.files import Files
from nearcast.spark.workers import kernels

_NODE = """
import json, sys
from nearcast.spark.workers import kernels
kernels.fetch(sys.argv[1])
from nearcast import _jit
from nearcast.spark.warm import warm_tasks
warm_tasks()
print(json.dumps(_jit.compiled))
"""


def started(folder: Path, state: Path) -> subprocess.Popen[str]:
    """A node with kernels of its own in a folder."""
    return subprocess.Popen(
        [sys.executable, "-c", _NODE, str(state)],
        env=os.environ | {"NEARCAST_KERNELS": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
    )


def compiled_by(node: subprocess.Popen[str]) -> list[str]:
    said = node.communicate()[0]
    assert node.returncode == 0
    found: list[str] = json.loads(said)
    return found


def test_a_node_takes_what_the_driver_offers(tmp_path: Path) -> None:
    """A node that starts with none runs everything that tasks run, and compiles nothing."""
    kernels.build()
    kernels.offer(str(tmp_path / "state"))
    assert compiled_by(started(tmp_path / "node", tmp_path / "state")) == []
    offered = [path.name for path in (tmp_path / "state" / "kernels").iterdir()]
    assert f"{_kernel_files.stamp()}.{_kernel_files.built_for()}.zip" in offered


def test_a_torn_offer_is_passed_over(tmp_path: Path) -> None:
    """It is as good as none."""
    kernels.build()
    state = tmp_path / "state"
    kernels.offer(str(state))
    for offered in (state / "kernels").iterdir():
        offered.write_bytes(offered.read_bytes()[:1000])
    assert kernels._take(Files(str(state))) is False


def test_executors_with_no_kernels_compile_none(spark: SparkSession, tmp_path: Path) -> None:
    """A batch on Spark leaves the folder of kernels as it was."""
    kernels.build()
    before = len(_kernel_files.kernel_files())
    rows = [
        {"seq": 0, "op": "subscribe", "id": "s", "query": "a", "region": _BOX},
        {"seq": 1, "op": "publish", "id": "m", "text": "a b", "point": "[0.5, 0.5]"},
    ]
    schema = (
        "seq long, op string, id string, query string, region string, text string, point string"
    )
    events = spark.createDataFrame(rows, schema)
    found = match_stream(events, state=str(tmp_path / "state")).collect()
    assert [(row.subscription, row.message) for row in found] == [("s", "m")]
    assert len(_kernel_files.kernel_files()) == before


_BOX = '{"type": "Box", "bbox": [0, 0, 1, 1]}'
