"""`nearcast bench spark-topk`, small: updates are those of the engines, and all is measured."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from nearcast_lab.bench.spark_topk import TopkReport

pytestmark = pytest.mark.soak


def test_the_pipeline_and_two_engines_give_the_same_updates() -> None:
    options = ["--subscriptions", "3000", "--window", "1000", "--batch", "500", "--rounds", "2"]
    command = [sys.executable, "-m", "nearcast", "bench", "spark-topk", *options, "--json"]
    done = subprocess.run([*command, "--rate", "100"], capture_output=True, check=True)
    report: TopkReport = json.loads(done.stdout)
    assert report["same_updates"]
    assert report["updates_per_message"] > 1
    assert min(report["ratio"], report["recovered_s"], report["loaded_s"]) > 0
    assert report["p50_s"] is not None
