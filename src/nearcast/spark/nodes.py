"""What the nodes of a cluster have, looked at before anything runs on them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

from pyspark.sql import SparkSession

from nearcast import __version__
from nearcast.errors import SetupError
from nearcast.spark.session import is_local_master

_NEEDED = ("nearcast", "numpy", "numba", "pandas", "pyarrow", "shapely", "msgspec")

LOOK = f"""
import importlib.util, json, sys
found = {{"python": list(sys.version_info[:2]), "lacks": [
    name for name in {_NEEDED!r} if importlib.util.find_spec(name) is None]}}
if "nearcast" not in found["lacks"]:
    import nearcast
    found["version"] = nearcast.__version__
print(json.dumps(found))
"""

# Whatever goes wrong is a line of output too: a program that fails would fail the job.
ASK = 'where="${SPARK_LOCAL_HOSTNAME:-$(hostname)}"; echo "$where $("$0" -c "$1" 2>&1 | tail -n 1)"'

_WAYS = (
    "set PYSPARK_PYTHON to an interpreter that every node has, or send one with spark.archives "
    "(docs/how-to/spark-cluster.md)"
)
_looked: set[str] = set()


def check_nodes(session: SparkSession) -> None:
    """Ask the nodes of a cluster for their Python, once in an application.

    Spark itself would say `EOFException`, after minutes. The question is asked by the JVM of each
    node, which needs no Python for it.
    """
    context = session.sparkContext
    if is_local_master(context.master) or context.applicationId in _looked:
        return
    program = context.pythonExec
    jvm_context: Any = context._jsc
    tasks = context.defaultParallelism
    rows = jvm_context.parallelize([str(at) for at in range(tasks)], tasks)
    answers = rows.pipe(["sh", "-c", ASK, program, LOOK]).collect()
    problems = sorted(set(problems_in(answers, program)))
    if problems:
        raise SetupError(f"{problems[0]}; {_WAYS}")
    _looked.add(context.applicationId)


def problems_in(answers: Iterable[str], program: str) -> Iterable[str]:
    """What is wrong with the Python of nodes, by what each of them has answered."""
    here = list(sys.version_info[:2])
    for answer in answers:
        where, _, said = answer.partition(" ")
        at = f"the node {where} runs tasks with {program!r}"
        try:
            found = json.loads(said)
        except ValueError:
            yield f"{at}, which does not work there ({said})"
            continue
        if found["python"] != here:
            yield f"{at}, Python {_dotted(found['python'])}; the driver has {_dotted(here)}"
        elif found["lacks"]:
            yield f"{at}, which lacks {', '.join(found['lacks'])}"
        elif found["version"] != __version__:
            yield f"{at}, which has nearcast {found['version']}; the driver has {__version__}"


def _dotted(version: list[int]) -> str:
    return ".".join(map(str, version))
