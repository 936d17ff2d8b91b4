"""`nearcast experiment boolean`: the figures of AP-Tree and LFilter as one page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast.errors import SourceError
from nearcast_lab.cli.measuring import give
from nearcast_lab.experiments.boolean import SCALES, SECTIONS, measure
from nearcast_lab.experiments.boolean.findings import BooleanReport
from nearcast_lab.experiments.boolean.page import page
from nearcast_lab.progress import status_line


class ScaleName(StrEnum):
    """The scales by name."""

    small = "small"
    full = "full"


def boolean(
    scale: Annotated[
        ScaleName, typer.Option(help="Some minutes, or hours with up to 20 M subscriptions.")
    ] = ScaleName.small,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where the page goes.")] = Path(
        "boolean.html"
    ),
    only: Annotated[
        str, typer.Option(metavar="PART,...", help=f"Some parts: {', '.join(SECTIONS)}.")
    ] = "",
    subscriptions: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=100, help="How many instead of the scale's.", show_default="scale's"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, other data.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure the figures of AP-Tree and LFilter, each claim beside what was found.

    Writes one page of HTML with plots and tables, and prints the claims.

    [bold]Example[/bold]

      nearcast experiment boolean --only regions,messages --output report.html
    """
    chosen = SCALES[scale.value]
    if subscriptions is not None:
        factor = subscriptions / chosen.subscriptions
        sizes = tuple(max(100, int(size * factor)) for size in chosen.populations)
        chosen = chosen._replace(subscriptions=subscriptions, populations=sizes)
    parts = tuple(part.strip() for part in only.split(",")) if only else tuple(SECTIONS)
    if not output.parent.is_dir():
        raise SourceError(f"{output}: cannot be written: there is no folder {output.parent}")
    with status_line() as progress:
        report = measure(chosen, seed, progress, parts)
    output.write_text(page(report), encoding="utf-8")
    give(report, as_json, lambda report: _show(report, output))


def _show(report: BooleanReport, output: Path) -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in ("paper", "figure", "the paper says", "measured here", "holds"):
        table.add_column(name, overflow="fold")
    signs = {"holds": "yes", "partly": "partly", "fails": "no"}
    for one in report["claims"]:
        row = (one["paper"], one["figure"], one["claim"], one["measured"])
        table.add_row(*row, signs[one["verdict"]])
    console = Console()
    console.print(table)
    console.print(f"All figures, and why what does not hold does not: {output}")
