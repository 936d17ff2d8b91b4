"""`nearcast bench distribution`: its report, its table, its options."""

from __future__ import annotations

import json

import pytest

from nearcast.cli.main import main

SMALL = ["--subscriptions", "200", "--window", "200", "--messages", "100", "--texts", "yelp"]


def test_the_report_has_every_mechanism_for_every_number_of_workers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["bench", "distribution", *SMALL, "--workers", "3,32", "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    outcome = json.loads(captured.out)
    rows = {
        (row["simulated"]["mechanism"], row["simulated"]["workers"]): row for row in outcome["rows"]
    }
    assert len(rows) == 16
    assert rows["hashing", 32]["of_hashing"] == 1
    assert rows["hashing", 3]["simulated"]["workers_per_message"] == 3
    keyword, prefix = (rows[name, 32]["simulated"] for name in ("keyword", "prefix"))
    assert 1 < prefix["replication"] <= rows["prefix-any", 32]["simulated"]["replication"]
    assert prefix["replication"] <= keyword["replication"] <= 5
    assert prefix["replication"] < prefix["replication_later"] <= 5
    assert keyword["steep"] == 0 <= prefix["steep"] < 0.5
    assert [check["promise"] for check in outcome["bars"]] == [
        "yelp, 32 workers, keyword: copies of a subscription",
        "yelp, 32 workers, prefix: copies of a subscription",
    ]
    assert set(outcome["costs"]) == {"yelp"}


def test_a_person_gets_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = ["--workers", "4", "--mechanisms", "prefix,keyword-first", "--keywords", "2"]
    assert main(["bench", "distribution", *SMALL, *chosen]) == 0
    shown = capsys.readouterr().out
    assert "yelp, 4 workers" in shown
    assert "keyword-first 2x2" in shown
    assert "…" not in shown  # all of it fits into a narrow terminal
    named = [
        line.split()[0] for line in shown.splitlines() if line.startswith(" ") and line.strip()
    ]
    assert "prefix" in named
    assert "hashing" not in named


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--texts", "letters"], "--texts"),
        (["--mechanisms", "guessing"], "--mechanisms"),
        (["--workers", "0"], "--workers"),
        (["--keywords", "5-1"], "--keywords"),
        (["--keywords", "many"], "--keywords"),
    ],
)
def test_a_wrong_choice_is_named(
    capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str
) -> None:
    assert main(["bench", "distribution", *SMALL, *arguments]) == 2
    error = capsys.readouterr().err
    assert problem in error
    assert error.count("\n") == 1


def test_every_figure_of_the_paper_gets_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    small = ["--subscriptions", "200", "--window", "150", "--sample", "10", "--vocabulary", "900"]
    assert main(["experiment", "topk", *small, "--section", "8.2", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    claimed = {claim["figure"] for claim in report["claims"]}
    assert claimed >= {"table 5", "21a", "21b", "22", "23", "24", "25, tweets", "26, yelp"}
    mechanisms = {row["simulated"]["mechanism"] for row in report["distribution"]}
    assert mechanisms >= {"hashing", "location", "keyword", "prefix", "prefix-sum"}
    levels = {
        tuple(row["simulated"]["levels"])
        for row in report["distribution"]
        if row["simulated"]["mechanism"] == "keyword-first"
    }
    assert levels == {(1, 32), (2, 16), (4, 8), (8, 4), (16, 2), (32, 1)}
    assert report["series"] == []
    assert all(claim["parts"] and claim["measured"] for claim in report["claims"])
    counted = [row["simulated"] for row in report["distribution"]]
    assert all(each["finders_visited"] >= each["visited"] for each in counted)
