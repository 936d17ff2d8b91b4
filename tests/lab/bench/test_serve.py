"""`nearcast bench serve` on a small scale: it measures what it says, and loses nothing."""

import json

import pytest

from nearcast.cli.main import main


def test_it_reports_rates_latency_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--subscriptions", "50", "--listeners", "3", "--rate", "50", "--seconds", "0.3"]
    sizes += ["--steady", "0.36"]
    assert main(["bench", "serve", *sizes, "--connections", "2", "--lines", "20", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["subscriptions"] == 50
    assert report["single"]["failures"] == report["lines"]["failures"] == 0
    assert report["single"]["per_s"] > 0
    assert report["lines"]["per_s"] > 0
    for latency in report["latency"], report["latency_beside_slow"]:
        assert (latency["heard"], latency["missed"]) == (9, 0)
        assert 0 < latency["p50_ms"] <= latency["p99_ms"] <= latency["max_ms"]
    assert report["server_mib_loaded"] > 0
    assert min(report["server_mib_listening"]) > 0
