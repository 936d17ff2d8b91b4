"""What an experiment found, as one HTML page that needs nothing else, or as a table to print."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.metadata import version
from typing import Literal, NamedTuple, TypedDict

from rich.table import Table

from nearcast_lab.charts import COLOURS, Figure, figure_chart, number_text
from nearcast_lab.tables import results_table

OWN = "Nearcast"
"""The `paper` of claims that are in no paper."""

Verdict = Literal["holds", "partly", "fails", "open"]
_SIGNS: dict[Verdict, str] = {
    "holds": "\u2713 holds",
    "partly": "\u25d0 partly",
    "fails": "\u2717 does not",
    "open": "not judged",
}
_STYLE = """
:root { color-scheme: light dark; --dim: light-dark(#5b6675, #9fabba);
  --line: light-dark(#d9dee6, #333d4a); }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 2rem 1.2rem 4rem;
  background: light-dark(#fff, #12171e); color: light-dark(#1c2430, #e7ecf3);
  font: 16px/1.5 system-ui, sans-serif; }
h2 { margin-top: 2.6rem; } h3 { font-size: 1rem; margin: 0 0 .4rem; }
p, li { max-width: 52rem; } a { color: inherit; margin-right: 1.2rem; }
.dim, th, summary { color: var(--dim); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem .45rem 0;
  border-bottom: 1px solid var(--line); }
.claims td:nth-child(2) { width: 24%; } .claims td:nth-child(3) { width: 27%; }
.numbers :not(:first-child) { text-align: right; white-space: nowrap; }
.holds, .partly, .fails, .open { font-weight: 700; white-space: nowrap; }
.holds { color: light-dark(#14713a, #5fd08b); } .partly { color: light-dark(#8a5a00, #f0b64a); }
.fails { color: light-dark(#b3261e, #ff8a80); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1.1rem; }
figure { margin: 0; padding: 1rem; border: 1px solid var(--line); min-width: 0; }
svg { display: block; width: 100%; height: auto; }
"""


class Claim(TypedDict):
    """What a paper says, what was measured, and what follows.

    `parts` are predicates by name, of which all, some or none hold; None if nothing was judged.
    """

    paper: str
    figure: str
    claim: str
    measured: str
    parts: dict[str, bool] | None
    verdict: Verdict
    why: str


class Report(NamedTuple):
    """All that the page of an experiment shows."""

    title: str
    about: str
    claims: Sequence[Claim]
    figures: Sequence[Figure]
    notes: Sequence[str] = ()


def figure(
    paper: str, number: str, title: str, across: str, points: Sequence[object],
    lines: Mapping[str, Sequence[float]], unit: str = "us a message", bars: bool = False,
) -> Figure:  # fmt: skip
    """Describe a figure."""
    return Figure(
        paper=paper,
        number=number,
        title=title,
        across=across,
        unit=unit,
        points=[str(point) for point in points],
        lines={name: [float(value) for value in values] for name, values in lines.items()},
        bars=bars,
    )


def claim(
    paper: str, number: str, says: str, measured: str,
    holds: bool | Sequence[bool] | Mapping[str, bool] | None, why: str = "",
) -> Claim:  # fmt: skip
    """Judge a claim: of several parts some may hold; None leaves it open.

    A reason is only given where a claim does not hold.
    """
    parts = None if holds is None else _named(holds)
    verdict: Verdict = "open"
    if parts is not None:
        held = parts.values()
        verdict = "holds" if all(held) else "partly" if any(held) else "fails"
    return Claim(
        paper=paper,
        figure=number,
        claim=says,
        measured=measured,
        parts=parts,
        verdict=verdict,
        why="" if verdict == "holds" else why,
    )


def _named(holds: bool | Sequence[bool] | Mapping[str, bool]) -> dict[str, bool]:
    if isinstance(holds, Mapping):
        return {name: bool(part) for name, part in holds.items()}
    each = [holds] if isinstance(holds, bool) else holds
    return {f"part {number}": bool(part) for number, part in enumerate(each, start=1)}


def machine() -> str:
    """Say what this machine is, and which versions things are measured with."""
    versions = (f"{name} {version(name)}" for name in ("nearcast", "numba", "numpy", "pyarrow"))
    return (
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, "
        + ", ".join(versions)
    )


def claims_table(claims: Iterable[Claim], title: str | None = None) -> Table:
    """Show claims on a terminal."""
    columns = ("paper", "figure", "claim", "measured here", "holds", "likely why not")
    table = results_table(columns, [], title)
    words = {"holds": "yes", "partly": "partly", "fails": "no", "open": "-"}
    for one in claims:
        row = (one["paper"], one["figure"], one["claim"], one["measured"])
        table.add_row(*row, words[one["verdict"]], one["why"])
    return table


def page(report: Report) -> str:
    """Write the whole page: claims beside results, paper by paper, then the paper's figures."""
    papers = list(dict.fromkeys(one["paper"] for one in (*report.claims, *report.figures)))
    links = " ".join(f'<a href="#{_anchor(paper)}">{escape(paper)}</a>' for paper in papers)
    sections = "".join(_section(paper, report) for paper in papers)
    notes = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    method = f"<h2>How it was measured</h2><ul>{notes}</ul>" if notes else ""
    title = escape(report.title)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="icon" href="data:,"><style>{_STYLE}</style></head><body>
<h1>{title}</h1>
<p class="dim">{escape(report.about)}</p>
<p>{_verdicts(report.claims)}</p>
<nav>{links}</nav>
{method}
{sections}
</body></html>
"""


def _verdicts(claims: Iterable[Claim]) -> str:
    found = [one["verdict"] for one in claims if one["paper"] != OWN and one["verdict"] != "open"]
    return (
        f"Of {len(found)} claims of the papers {found.count('holds')} hold here, "
        f"{found.count('partly')} hold in part, and {found.count('fails')} do not."
    )


def _anchor(paper: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in paper.lower())


def _section(paper: str, report: Report) -> str:
    claims = [one for one in report.claims if one["paper"] == paper]
    figures = [one for one in report.figures if one["paper"] == paper]
    # What has a name has one colour in all figures of a paper.
    names = dict.fromkeys(name for one in figures for name in one["lines"])
    colours = {name: COLOURS[at % len(COLOURS)] for at, name in enumerate(names)}
    drawn = "".join(_figure(one, colours) for one in figures)
    return f'<h2 id="{_anchor(paper)}">{escape(paper)}</h2>{_claims(claims)}' + (
        f'<h2>Figures: {escape(paper)}</h2><div class="figures">{drawn}</div>' if drawn else ""
    )


def _claims(claims: Sequence[Claim]) -> str:
    rows = "".join(
        f"<tr><td>{escape(one['figure'])}</td><td>{escape(one['claim'])}</td>"
        f"<td>{escape(one['measured'])}</td>"
        f'<td class="{one["verdict"]}">{_SIGNS[one["verdict"]]}</td>'
        f"<td>{escape(one['why'])}</td></tr>"
        for one in claims
    )
    return (
        '<div class="scroll"><table class="claims"><tr><th>Figure</th><th>Claim</th>'
        f"<th>Measured here</th><th>Verdict</th><th>Why not</th></tr>{rows}</table></div>"
    )


def _figure(figure: Figure, colours: Mapping[str, str]) -> str:
    number = figure["number"]
    name = number.capitalize() if number.startswith("table") else f"Figure {number}"
    head = "".join(f"<th>{escape(point)}</th>" for point in figure["points"])
    rows = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{number_text(value)}</td>" for value in values)
        + "</tr>"
        for name, values in figure["lines"].items()
    )
    return (
        f"<figure><h3>{escape(name)}. {escape(figure['title'])}</h3>"
        f"{figure_chart(figure, colours)}"
        f'<details><summary>Values</summary><div class="scroll"><table class="numbers">'
        f"<tr><th>{escape(figure['across'])}</th>{head}</tr>{rows}</table></div></details></figure>"
    )
