"""The report as one page of HTML that needs nothing else."""

from __future__ import annotations

from html import escape

from nearcast_lab.experiments.boolean.chart import chart, colour_of, written
from nearcast_lab.experiments.boolean.findings import BooleanClaim, BooleanReport, Figure

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2430; --dim: #5b6675; --line: #d9dee6;
  --back: #ffffff; --card: #f7f9fb; --good: #14713a; --half: #8a5a00; --bad: #b3261e; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7ecf3; --dim: #9fabba; --line: #333d4a;
  --back: #12171e; --card: #1a212a; --good: #5fd08b; --half: #f0b64a; --bad: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1240px; padding: 2rem 1.2rem 4rem; background: var(--back);
  color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; }
h2 { font-size: 1.25rem; margin: 2.6rem 0 .8rem; }
h3 { font-size: 1rem; margin: 0 0 .4rem; }
p, li { max-width: 52rem; }
.dim { color: var(--dim); }
nav a { margin-right: 1.2rem; }
a { color: inherit; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; }
th, td { text-align: left; vertical-align: top; padding: .45rem .7rem .45rem 0;
  border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; }
.claims td:nth-child(2) { width: 24%; } .claims td:nth-child(3) { width: 27%; }
.numbers td, .numbers th { text-align: right; white-space: nowrap; }
.numbers td:first-child, .numbers th:first-child { text-align: left; }
.holds { color: var(--good); } .partly { color: var(--half); } .fails { color: var(--bad); }
.holds, .partly, .fails { font-weight: 700; white-space: nowrap; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr));
  gap: 1.1rem; }
figure { margin: 0; padding: 1rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem; min-width: 0; }
svg { display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
svg text { fill: var(--dim); } svg .grid { stroke: var(--line); }
polyline { fill: none; stroke-width: 2.2; }
.key { display: flex; flex-wrap: wrap; gap: .2rem 1rem; font-size: .86rem; margin: .2rem 0 .5rem; }
.key i { display: inline-block; width: .8rem; height: .8rem; border-radius: .2rem;
  margin-right: .35rem; vertical-align: -.08rem; }
summary { cursor: pointer; color: var(--dim); font-size: .86rem; margin-top: .5rem; }
"""

_SIGNS = {"holds": "\u2713 holds", "partly": "\u25d0 partly", "fails": "\u2717 does not"}


def page(report: BooleanReport) -> str:
    """Write the whole page."""
    papers = list(dict.fromkeys(figure["paper"] for figure in report["figures"]))
    links = " ".join(f'<a href="#{_anchor(paper)}">{escape(paper)}</a>' for paper in papers)
    sections = "".join(_section(paper, report) for paper in papers)
    rest = [one for one in report["claims"] if one["paper"] not in papers]
    notes = "".join(f"<li>{escape(note)}</li>" for note in report["notes"])
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Boolean subscriptions: the papers' figures, measured again</title>
<link rel="icon" href="data:,"><style>{_STYLE}</style></head><body>
<h1>Boolean subscriptions: the papers' figures, measured again</h1>
<p class="dim">{escape(_summary(report))}</p>
<p>{escape(_verdicts(report))}</p>
<nav>{links}</nav>
<h2>Nearcast beside them</h2>{_claims(rest)}
<h2>How it was measured</h2><ul>{notes}</ul>
{sections}
</body></html>
"""


def _summary(report: BooleanReport) -> str:
    return (
        f"Scale {report['scale']}: {report['subscriptions']:,} subscriptions where nothing else "
        f"is said, up to {report['messages']:,} messages a point, seed {report['seed']}. "
        f"{report['machine']}. {report['cpu_s']:,.0f} s of CPU."
    )


def _verdicts(report: BooleanReport) -> str:
    found = [one["verdict"] for one in report["claims"] if one["paper"] != "Nearcast"]
    return (
        f"Of {len(found)} claims of the papers {found.count('holds')} hold here, "
        f"{found.count('partly')} hold in part, and {found.count('fails')} do not."
    )


def _anchor(paper: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in paper.lower())


def _section(paper: str, report: BooleanReport) -> str:
    own = [one for one in report["claims"] if one["paper"] == paper]
    figures = "".join(_figure(one) for one in report["figures"] if one["paper"] == paper)
    return (
        f'<h2 id="{_anchor(paper)}">{escape(paper)}</h2>{_claims(own)}'
        f'<h2>Figures: {escape(paper)}</h2><div class="figures">{figures}</div>'
    )


def _claims(claims: list[BooleanClaim]) -> str:
    rows = "".join(
        f"<tr><td>{escape(one['figure'])}</td><td>{escape(one['claim'])}</td>"
        f"<td>{escape(one['measured'])}</td>"
        f'<td class="{one["verdict"]}">{_SIGNS[one["verdict"]]}</td>'
        f"<td>{escape(one['why'])}</td></tr>"
        for one in claims
    )
    return (
        '<div class="scroll"><table class="claims"><tr><th>Figure<th>Claim'
        f"<th>Measured here<th>Verdict<th>Why not</tr>{rows}</table></div>"
    )


def _name(figure: Figure) -> str:
    number = figure["number"]
    return number.capitalize() if number.startswith("table") else f"Figure {number}"


def _figure(figure: Figure) -> str:
    key = "".join(
        f'<span><i style="background:{colour_of(name, at)}"></i>{escape(name)}</span>'
        for at, name in enumerate(figure["lines"])
    )
    head = "".join(f"<th>{escape(point)}</th>" for point in figure["points"])
    rows = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{written(value)}</td>" for value in line)
        + "</tr>"
        for name, line in figure["lines"].items()
    )
    return (
        f"<figure><h3>{escape(_name(figure))}. {escape(figure['title'])} "
        f'<span class="dim">({escape(figure["unit"])})</span></h3>'
        f'<div class="key">{key}</div>{chart(figure)}'
        f'<details><summary>Values</summary><div class="scroll"><table class="numbers">'
        f"<tr><th>{escape(figure['across'])}</th>{head}</tr>{rows}</table></div></details></figure>"
    )
