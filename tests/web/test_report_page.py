"""The page of an experiment in a browser."""

from __future__ import annotations

from pathlib import Path

from nearcast_lab.report import Report, claim, figure, page
from watched import Watched


def test_the_report_opens_on_a_phone_without_complaints(watch: Watched, tmp_path: Path) -> None:
    """Nothing is fetched, nothing is wider than the window, and values unfold."""
    lines = {"LFilter": [1.0, 20.0], "rarest-term": [0.5, 2.0]}
    report = Report(
        "Measured again", "10 subscriptions", notes=["n"],
        claims=[claim("P", "9", "is fast", "2.0x " * 30, [True, False], "why " * 40)],
        figures=[figure("P", "9a", "Short messages", "terms", [6, 20], lines),
                 figure("P", "table 1", "Size", "index", ["a", "b"], lines, bars=True)],
    )  # fmt: skip
    path = tmp_path / "report.html"
    path.write_text(page(report), encoding="utf-8")
    shown = watch.open(path.as_uri(), size=(390, 844), ready=False)
    assert watch.hosts <= {None, ""}
    assert shown.evaluate("() => document.documentElement.scrollWidth") == 390
    assert shown.locator("svg").count() == 2
    assert shown.locator(".partly").inner_text() == "\u25d0 partly"
    shown.get_by_text("Values").first.click()
    assert shown.get_by_role("cell", name="LFilter").first.is_visible()
    watch.hosts.clear()
