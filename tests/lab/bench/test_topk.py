"""`nearcast bench topk` and `nearcast experiment topk`: reports, checks, complaints."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nearcast.cli.main import main

SMALL = ["--subscriptions", "300", "--window", "200", "--sample", "20"]
WORDS = "topk:vocabulary=500,cities=5"


def test_methods_run_the_same_stream_and_agree(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chart = tmp_path / "chart.svg"
    arguments = ["--workload", WORDS, "--check", "5", "--json", "--plot", str(chart)]
    methods = ["--method", "ours,ours-lazy,igpt+kmax:parameter=40;traversal=term,engine"]
    assert main(["bench", "topk", *SMALL, *arguments, *methods, "--matching", "taat,ciq"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    report = json.loads(captured.out)
    ours, lazy, igpt = report["runs"]
    assert [row["method"] for row in report["matching"]] == ["ours", "taat", "ciq"]
    assert len({row["affected_per_message"] for row in report["matching"]}) == 1
    assert ours["updates_per_message"] == igpt["updates_per_message"] > 0
    assert lazy["updates_per_message"] == 0
    (engine,) = report["engine"]
    assert (engine["messages"], engine["updates_per_message"] > 0) == (400, True)
    assert all(run["checked"] == 5 and run["messages"] == 400 for run in report["runs"])
    assert all(run["bytes_per_subscription"] > 0 for run in report["runs"])
    assert ElementTree.parse(chart).getroot().tag.endswith("svg")  # noqa: S314 - written just now


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--method", "fast"], "--method"),
        (["--method", "igpt+never"], "--method"),
        (["--method", "igpt+kmax:depth=3"], "--method"),
        (["--matching", "igpt:without=everything"], "without"),
        (["--workload", "tweets"], "--workload"),
    ],
)
def test_a_wrong_choice_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main(["bench", "topk", *SMALL, *arguments]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def test_every_figure_of_the_paper_gets_an_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "topk.html"
    small = ["--subscriptions", "100", "--window", "100", "--turnovers", "0.3", "--sample", "10"]
    assert (
        main(["experiment", "topk", *small, "--section", "8.1", "--json", "--output", str(page)])
        == 0
    )
    report = json.loads(capsys.readouterr().out)
    claimed = {claim["figure"] for claim in report["claims"]}
    assert claimed >= {"10a", "10b", "11", "12", "13a", "13b", *map(str, range(14, 21))}
    assert claimed >= {"10", "table 4", "algorithm 1", "lemma 6"}
    assert all(claim["parts"] for claim in report["claims"])
    methods = {row["method"].partition(":")[0] for row in report["series"]}
    assert methods == {"ours", "igpt+kmax", "igpt+skyband", "igpt+cskyband", "ciq+kmax"}
    assert {row["figure"] for row in report["series"]} >= {"17", "19", "20"}
    assert all(row["arriving_us"] > 0 for row in report["series"])
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 1 + len({row["figure"] for row in report["series"]})
    assert all(f">{name}</text>" in text for name in ("arriving", "max_keywords", "us a message"))
