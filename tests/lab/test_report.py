"""The page of an experiment: claims beside results, and every figure with axes and series."""

from __future__ import annotations

from html.parser import HTMLParser

from nearcast_lab.report import OWN, Report, claim, figure, page

LINES = {"LFilter": [1.0, 20.0], "rarest-term": [0.5, 2.0]}
REPORT = Report(
    "Again", "10 subscriptions", notes=["made-up <data>"],
    claims=[
        claim("P", "9", "is fast", "2.0x", [True, False], "it is small"),
        claim("P", "10", "is small", "not measured", None),
        claim(OWN, "all", "ours is faster", "3x", True),
    ],
    figures=[
        figure("P", "9a", "Short messages", "terms", [6, 20], LINES),
        figure("P", "table 1", "Size", "index", ["a", "b"], LINES, "bytes", bars=True),
    ],
)  # fmt: skip


class Elements(HTMLParser):
    """Notes what a page is made of, and whether what is opened is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "link"):
            self.open.append(tag)
        linked = (value for name, value in attrs if not name.startswith("xmlns"))
        assert not any(value and value.startswith("http") for value in linked), attrs

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in ("meta", "link"):
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_needs_nothing_else() -> None:
    elements = Elements()
    elements.feed(page(REPORT))
    assert elements.open == []
    assert elements.seen.count("svg") == elements.seen.count("figure") == len(REPORT.figures)


def test_every_figure_has_its_axes_series_and_values() -> None:
    written = page(REPORT)
    for shown in ("Figure 9a. Short messages", "Table 1. Size", "made-up &lt;data&gt;"):
        assert shown in written
    for shown in ("terms", "index", "us a message", "bytes", *LINES):
        assert f">{shown}</text>" in written
    assert "<td>LFilter</td><td>1</td><td>20</td>" in written


def test_claims_stand_beside_results_and_verdicts_are_counted() -> None:
    written = page(REPORT)
    assert '<td>is fast</td><td>2.0x</td><td class="partly">' in written
    assert '<td class="open">not judged</td>' in written
    assert "Of 1 claims of the papers 0 hold here, 1 hold in part, and 0 do not." in written


def test_a_claim_of_parts_may_hold_in_part() -> None:
    judged = [
        claim("p", "1", "x", "y", holds, "because")["verdict"]
        for holds in (True, [True, True], [True, False], [False, False], False, None)
    ]
    assert judged == ["holds", "holds", "partly", "fails", "fails", "open"]
