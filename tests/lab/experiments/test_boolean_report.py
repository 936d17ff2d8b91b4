"""`nearcast experiment boolean`: every figure is measured, judged and drawn."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from nearcast.cli.main import main
from nearcast_lab.experiments.boolean import SECTIONS, measure
from nearcast_lab.experiments.boolean.chart import chart, written
from nearcast_lab.experiments.boolean.findings import BooleanReport, claim, figure
from nearcast_lab.experiments.boolean.lab import BooleanScale
from nearcast_lab.experiments.boolean.page import page

TINY = BooleanScale("tiny", 120, (60, 120), 20, 1, 0.01)
CHEAP = ("regions", "maintenance", "usa")


class Checked(HTMLParser):
    """Notes what a page is made of, and whether what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "link", "line", "th"):
            self.open.append(tag)
        assert not any(value and value.startswith("http") for _, value in attrs), attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("line", "th"):
            assert self.open.pop() == tag


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
    for judged in report["claims"]:
        assert judged["measured"]
        assert judged["verdict"] in ("holds", "partly", "fails")
        assert not (judged["verdict"] == "holds" and judged["why"])


def test_the_page_is_whole_and_needs_nothing_else(report: BooleanReport) -> None:
    checked = Checked()
    checked.feed(page(report))
    assert checked.open == []
    assert checked.seen.count("svg") == checked.seen.count("figure") == len(report["figures"])
    assert checked.seen.count("tr") > len(report["claims"])


def test_a_claim_of_parts_may_hold_in_part() -> None:
    judged = [
        claim("p", "1", "x", "y", holds, "because")["verdict"]
        for holds in (True, [True, True], [True, False], [False, False], False)
    ]
    assert judged == ["holds", "holds", "partly", "fails", "fails"]


@pytest.mark.parametrize("bars", [False, True])
def test_a_chart_shows_every_value_and_escapes_names(bars: bool) -> None:
    lines = {"<a & b>": [1.0, 1000.0], "rarest-term": [0.002, 5.0]}
    drawn = chart(figure("p", "1", "t", "x", ["<1>", "2"], lines, bars=bars))
    root = ElementTree.fromstring(drawn)  # noqa: S314 - we wrote it ourselves
    shapes = [element for element in root if element.tag == ("rect" if bars else "circle")]
    told = [shape.findtext("title") for shape in shapes]
    assert told[1] == "<a & b>, 2: 1,000 us a message"
    assert len(told) == 4
    assert [written(value) for value in (0, 0.00213, 1.5, 15.21, 152.1, 1521.0)] == [
        *("0", "0.00213", "1.50", "15.2", "152", "1,521")
    ]


def test_the_command_writes_the_page_and_says_the_claims(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output = tmp_path / "report.html"
    arguments = ["experiment", "boolean", "--subscriptions", "100", "--only", "regions"]
    assert main([*arguments, "--output", str(output), "--json"]) == 0
    read = json.loads(capsys.readouterr().out)
    assert read["subscriptions"] == 100
    assert "Figure 14" in output.read_text()


def test_what_cannot_be_is_told_before_anything_is_measured(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    command = ["experiment", "boolean", "--output"]
    assert main([*command, str(tmp_path / "a.html"), "--only", "cheese"]) == 2
    assert f"'cheese' given; expected some of {', '.join(SECTIONS)}" in capsys.readouterr().err
    assert main([*command, str(tmp_path / "none" / "a.html")]) == 2
    assert "cannot be written" in capsys.readouterr().err
