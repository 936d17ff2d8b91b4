"""What all commands that measure have in common: lists in options, and the outcome."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from nearcast.errors import InvalidValue, SourceError
from nearcast.index.registry import named_options
from nearcast_lab.charts import need_charts
from nearcast_lab.progress import Progress, status_line
from nearcast_lab.report import Report, claims_table, machine, page

T = TypeVar("T")

OutputOption = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write a page of HTML with claims and charts.")
]
SeedOption = Annotated[int, typer.Option(metavar="S", help="Another seed, other data.")]
WorkersOption = Annotated[
    str, typer.Option(metavar="N,...", help="How many workers, for each run.")
]
GridOption = Annotated[
    str, typer.Option(metavar="CxR", help="Columns and rows of the cells that are dealt out.")
]
MasterOption = Annotated[str, typer.Option(metavar="URL", help="The master of Spark.")]
RatioOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="Messages to one change of subscriptions.")
]
IntervalsOption = Annotated[
    int, typer.Option(metavar="N", min=1, help="How often a tenth of the regions switches.")
]


def numbers(text: str, field: str) -> list[int]:
    """Read whole numbers with commas between them."""
    try:
        read = [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        read = []
    if not read or min(read) < 1:
        raise InvalidValue(field, text, "whole numbers above 0 with commas between them")
    return read


def named(text: str, field: str, known: list[str]) -> list[str]:
    """Read a list of names, each of which must be known."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InvalidValue(field, name, f"one of {', '.join(known)}")
    return names


def cells(text: str) -> dict[str, int]:
    """Read how many columns and rows a grid has."""
    columns, _, rows = text.partition("x")
    try:
        read = {"columns": int(columns), "rows": int(rows)}
    except ValueError:
        read = {"columns": 0}
    if min(read.values()) < 1:
        raise InvalidValue("--grid", text, "columns and rows, such as 512x256")
    return read


def one_workload(text: str, example: str, known: Sequence[str] = ()) -> tuple[str, dict[str, Any]]:
    """Read the name of one workload, of those that are known if any are named, and its options."""
    kinds = named_options(text, "--workload")
    if len(kinds) != 1 or (known and kinds[0][0] not in known):
        raise InvalidValue("--workload", text, example)
    kind, options = kinds[0]
    return kind, dict(options)


def check_drawable(path: str | Path | None) -> None:
    """Refuse a chart or page that could not be written, before anything is measured."""
    if path is not None:
        need_charts()
        folder = Path(path).parent
        if not folder.is_dir():
            raise SourceError(f"{path}: cannot be written: there is no folder {folder}")


def write_drawing(path: str | Path, drawn: str) -> None:
    """Write a chart or a page to the path that an option names."""
    try:
        Path(path).write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"{path}: cannot be written ({error.strerror}); name another") from None


def measured(measure: Callable[[Progress], T], as_json: bool, show: Callable[[T], object]) -> None:
    """Measure, with progress on a terminal, and print what was found."""
    with status_line() as progress:
        outcome = measure(progress)
    give(outcome, as_json, show)


def give(outcome: T, as_json: bool, show: Callable[[T], object]) -> None:
    """Print what was measured: one line of JSON, or what is shown to a person."""
    if as_json:
        typer.echo(msgspec.json.encode(outcome, enc_hook=_plain).decode())
    else:
        show(outcome)


def give_report(
    context: typer.Context,
    outcome: object,
    as_json: bool,
    report: Report,
    output: Path | None,
    *more: Table,
) -> None:
    """Print the claims of an experiment and further tables, and write its page if asked for.

    The page says by which command, on which machine and with which versions it was made.
    """

    def show(_: object) -> None:
        console = Console()
        console.print(claims_table(report.claims, report.about))
        for table in more:
            console.print(table)
        if output is not None:
            console.print(f"All figures, and why what does not hold does not: {output}")

    give(outcome, as_json, show)
    if output is not None:
        made = f"Made by `{_command(context)}` on {machine()}."
        write_drawing(output, page(report._replace(notes=[*report.notes, made])))


def _command(context: typer.Context) -> str:
    """Write a command as it was given."""
    given = []
    for each in context.command.params:
        source = context.get_parameter_source(each.name or "")
        if source is not None and source.name == "COMMANDLINE":
            value = context.params[each.name or ""]
            given += [each.opts[0]] if value is True else [each.opts[0], str(value)]
    return shlex.join([*context.command_path.split(), *given])


def _plain(value: Any) -> Any:
    """A number or an array of numpy, which JSON does not know, as one of Python."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} in what was measured")
