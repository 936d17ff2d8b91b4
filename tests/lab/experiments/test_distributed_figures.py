"""`nearcast experiment distributed` says of every figure what the paper claims, and the result."""

import json
from pathlib import Path

import pytest

from nearcast.cli.main import main


def test_every_figure_has_a_claim_and_a_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "report.html"
    sizes = ["--subscriptions", "800", "--messages", "300", "--workers", "2,4", "--intervals", "1"]
    arguments = ["experiment", "distributed", *sizes, "--grid", "16x8", "--output", str(page)]
    assert main([*arguments, "--json"]) == 0
    findings = json.loads(capsys.readouterr().out)
    assert [finding["figure"].split(" ")[0].strip(",") for finding in findings] == [
        *("6a", "6b", "6", "7c", "7", "7", "9", "10", "11", "12a", "12b", "16", "12c", "8")
    ]
    for finding in findings:
        assert finding["claim"]
        assert finding["found"]
        assert all(value > 0 for values in finding["values"].values() for value in values.values())
    assert list(findings[0]["values"]["space-kd"]) == ["sts-q1", "sts-q1 without H2"]
    text = page.read_text(encoding="utf-8")
    for finding in findings[:-2]:
        assert f"<td>{finding['figure']}</td>" in text
    assert text.count("<svg") == len(findings) - 2
    assert all(f">{name}</text>" in text for name in ("space-kd", "sts-q1", "MB"))
    assert "--spark" in findings[-2]["found"]
