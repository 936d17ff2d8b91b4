"""Findings as one HTML page that needs nothing else: claims beside results, and charts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from nearcast_lab.bench.bars import bar_chart
from nearcast_lab.experiments.distributed import DistributedFinding

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; color: #222 }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .4rem .6rem; border-bottom: 1px solid #ddd }
td { vertical-align: top } .yes { color: #15803d } .no { color: #b91c1c } .none { color: #777 }
svg { max-width: 100%; height: auto; margin: 1rem 0 }
"""
_HEADS = ("figure", "the paper says", "found here", "agrees")


def html_report(title: str, about: str, findings: Sequence[DistributedFinding]) -> str:
    """Write the page."""
    rows = "\n".join(_row(finding) for finding in findings)
    heads = "".join(f"<th>{head}</th>" for head in _HEADS)
    charts = "\n".join(_charts(finding) for finding in findings)
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>
<body><h1>{escape(title)}</h1><p>{escape(about)}</p>
<table><thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody></table>
{charts}
</body></html>
"""


def agreement(finding: DistributedFinding) -> str:
    """Say whether a finding agrees with the paper."""
    return {True: "yes", False: "no", None: "-"}[finding["agrees"]]


def _row(finding: DistributedFinding) -> str:
    shown = {True: "yes", False: "no", None: "none"}[finding["agrees"]]
    cells = (finding["figure"], finding["claim"], finding["found"])
    told = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr>{told}<td class="{shown}">{agreement(finding)}</td></tr>'


def _charts(finding: DistributedFinding) -> str:
    """Draw one chart for each kind of run, a bar for each method."""
    columns = list(dict.fromkeys(key for each in finding["values"].values() for key in each))
    drawn = []
    for column in columns:
        bars = [
            (name, {"": each[column]}) for name, each in finding["values"].items() if column in each
        ]
        drawn.append(bar_chart(f"{finding['figure']}: {column}", finding["unit"], bars))
    return "\n".join(drawn)
