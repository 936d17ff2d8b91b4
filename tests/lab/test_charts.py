"""Charts show their axes and series as text, and say what to install if they cannot be drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from nearcast.errors import SetupError
from nearcast_lab import charts
from nearcast_lab.charts import figure_chart, line_chart, number_text, stacked_chart
from nearcast_lab.report import figure

NAMES = {"<a & b>": [1.0, 1000.0], "rarest-term": [0.002, 5.0]}


def texts(drawn: str) -> set[str | None]:
    root = ElementTree.fromstring(drawn)  # noqa: S314 - we wrote it ourselves
    return {element.text for element in root.iter() if element.tag.endswith("text")}


def test_a_line_chart_has_a_title_two_axes_and_a_key() -> None:
    """One point is enough, and names with < in them leave the picture well-formed."""
    drawn = line_chart("a & b", "far", "slow", {"<gi2>": [(1000.0, 5.0)], "scan": [(1e6, 50.0)]})
    assert texts(drawn) >= {"a & b", "far", "slow", "<gi2>", "scan", "10,000", "20"}


def test_a_stacked_chart_names_rows_and_parts_and_writes_sums() -> None:
    rows = [("ours", {"matching": 1.0, "expiry": 2.5}), ("taat", {"matching": 4.25})]
    drawn = stacked_chart("Costs", "us", rows)
    assert texts(drawn) >= {"Costs", "us", "ours", "taat", "matching", "expiry", "3.5", "4.2"}


@pytest.mark.parametrize("bars", [False, True])
def test_a_figure_has_its_axes_points_and_series(bars: bool) -> None:
    one = figure("p", "1", "t", "length", ["<1>", "2"], NAMES, "us a move", bars=bars)
    drawn = figure_chart(one, dict.fromkeys(NAMES, "#123456"))
    assert texts(drawn) >= {"length", "us a move", "<1>", "2", *NAMES}
    assert "#123456" in drawn


def test_the_same_chart_is_the_same_file() -> None:
    lines = {"x": [(1.0, 2.0), (2.0, 3.0)]}
    assert line_chart("t", "x", "y", lines) == line_chart("t", "x", "y", lines)


def test_numbers_have_three_digits_or_more() -> None:
    written = [number_text(value) for value in (0, 0.00213, 1.5, 15.21, 152.1, 1521.0)]
    assert written == ["0", "0.00213", "1.5", "15.2", "152", "1,521"]


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(charts, "find_spec", lambda _: None)
    with pytest.raises(SetupError, match=r"pip install 'nearcast\[lab\]'"):
        line_chart("t", "x", "y", {})
