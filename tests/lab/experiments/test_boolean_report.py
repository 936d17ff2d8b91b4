"""`nearcast experiment boolean`: every figure is measured, judged and drawn."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path

import pytest

from nearcast.cli.main import main
from nearcast_lab.experiments.boolean import SECTIONS, measure
from nearcast_lab.experiments.boolean.findings import BooleanReport, report_of
from nearcast_lab.experiments.boolean.lab import BooleanScale, IndexRun
from nearcast_lab.experiments.boolean.lead import (
    PRINTED,
    RIVALS,
    ROWS,
    TIME,
    judged,
    leads,
    parts,
)
from nearcast_lab.report import page

TINY = BooleanScale("tiny", 120, (60, 120), 20, 1, 0.01)
CHEAP = ("regions", "maintenance", "usa")


@pytest.fixture(scope="module")
def report() -> BooleanReport:
    return measure(TINY, 1, lambda _: None, CHEAP)


def test_figures_and_claims_of_a_part_are_measured(report: BooleanReport) -> None:
    numbers = {one["number"] for one in report["figures"]}
    assert numbers == {"14", "16", "17a", "17b", "10a", "10b", "10c", "10d"}
    for one in report["figures"]:
        assert all(len(line) == len(one["points"]) for line in one["lines"].values())
        assert all(value > 0 for line in one["lines"].values() for value in line)
    assert {one["figure"] for one in report["claims"]} >= {"14", "16", "17a", "17b", "10", "all"}
    for one_claim in report["claims"]:
        assert one_claim["measured"]
        assert one_claim["verdict"] in ("holds", "partly", "fails")
        assert not (one_claim["verdict"] == "holds" and one_claim["why"])


def test_the_page_has_every_figure_and_claim(report: BooleanReport) -> None:
    written = page(report_of(report))
    assert written.count("<svg") == written.count("<figure>") == len(report["figures"])
    for one in report["claims"]:
        assert f"<td>{escape(one['claim'])}</td>" in written
    assert all(escape(note) in written for note in report["notes"])


def test_the_command_writes_the_page_and_says_the_claims(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "report.html"
    arguments = ["experiment", "boolean", "--subscriptions", "100", "--only", "regions"]
    assert main([*arguments, "--output", str(output), "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["subscriptions"] == 100
    assert "Figure 14" in output.read_text()


def test_bad_options_are_refused_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["experiment", "boolean", "--output"]
    assert main([*command, str(tmp_path / "a.html"), "--only", "cheese"]) == 2
    assert f"'cheese' given; expected some of {', '.join(SECTIONS)}" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "none" / "a.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_the_lead_is_judged_by_what_was_measured() -> None:
    """Twice the second best on tweets and thirty times on place names, or a part of that."""
    assert parts(2.0, 30.0) == [True, True]
    assert parts(1.9, 31.0) == [False, True]
    assert parts(11.0, 29.0) == [True, False]
    runs = {name: IndexRun(8.0, 1.0, 50.0) for name in RIVALS}
    runs |= {"rq-tree": IndexRun(6.0, 1.0, 90.0), PRINTED: IndexRun(2.0, 1.0, 100.0)}
    assert list(leads(runs, PRINTED).values()) == [3.0, 0.5]


def test_the_verdict_on_the_lead_follows_from_the_runs() -> None:
    """Ahead on tweets alone is a part of the claim; in rows another verdict may follow."""

    def runs(us: float, rows: float) -> dict[str, IndexRun]:
        return {name: IndexRun(60.0, 1.0, 60.0) for name in RIVALS} | {
            PRINTED: IndexRun(us, 1.0, rows)
        }

    found = {"TWEETS": runs(20.0, 90.0), "ANYWHERE": runs(20.0, 20.0), "GN": runs(20.0, 90.0)}
    in_time, in_rows = judged(found, PRINTED, TIME), judged(found, PRINTED, ROWS)
    assert (in_time["verdict"], in_rows["verdict"]) == ("partly", "fails")
    assert "TWEETS 3.00x, ANYWHERE 3.00x, GN 3.00x" in in_time["measured"]
    assert judged(found | {"GN": runs(2.0, 2.0)}, PRINTED, TIME)["verdict"] == "holds"
