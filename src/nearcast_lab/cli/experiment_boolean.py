"""`nearcast experiment boolean`: the figures of AP-Tree and LFilter as one page."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.options import JsonOption
from nearcast_lab.cli.measuring import check_drawable, give_report
from nearcast_lab.experiments.boolean import SCALES, SECTIONS, measure
from nearcast_lab.experiments.boolean.findings import report_of
from nearcast_lab.progress import status_line


class ScaleName(StrEnum):
    """The scales by name."""

    small = "small"
    full = "full"


def boolean(
    scale: Annotated[
        ScaleName,
        typer.Option(
            metavar="|".join(ScaleName), help="Minutes, or hours with up to 20 M subscriptions."
        ),
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
    check_drawable(output)
    with status_line() as progress:
        found = measure(chosen, seed, progress, parts)
    give_report(found, as_json, report_of(found), output)
