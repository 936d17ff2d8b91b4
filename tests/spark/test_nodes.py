"""What nodes lack is said in one line, before anything runs on them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from nearcast import __version__
from nearcast.spark import nodes
from nearcast.spark.nodes import check_nodes, problems_in

HERE = list(sys.version_info[:2])


def said(**change: object) -> str:
    return json.dumps({"python": HERE, "lacks": [], "version": __version__} | change)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ("sh: 1: python3: not found", "does not work there (sh: 1: python3: not found)"),
        (said(python=[2, 7]), f"Python 2.7; the driver has {HERE[0]}.{HERE[1]}"),
        (said(lacks=["numba", "nearcast"]), "which lacks numba, nearcast"),
        (said(version="0.0.1"), f"which has nearcast 0.0.1; the driver has {__version__}"),
    ],
)
def test_a_node_that_is_not_suitable_is_reported(answer: str, problem: str) -> None:
    found = problems_in([f"10.0.0.1 {said()}", f"10.0.0.2 {answer}"], "python3")
    assert list(found) == [f"the node 10.0.0.2 runs tasks with 'python3', {problem}".replace(
        "'python3', does", "'python3', which does")]  # fmt: skip


@pytest.mark.parametrize(
    ("program", "right"), [(sys.executable, True), ("no-such-python", False), ("/bin/false", False)]
)
def test_the_question_is_answered_in_one_line_whatever_the_program_is(
    program: str, right: bool, tmp_path: Path
) -> None:
    asked = subprocess.run(
        ["/bin/sh", "-c", nodes.ASK, program, nodes.LOOK],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    (line,) = asked.stdout.splitlines()
    assert (list(problems_in([line], program)) == []) is right


def test_one_machine_is_not_asked(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "_jsc", None)
    check_nodes(spark)
