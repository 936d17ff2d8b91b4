"""`nearcast kernels`: what is compiled for this machine, and compiling it ahead of time."""

from __future__ import annotations

import sys
from collections import Counter
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from nearcast import _kernel_files
from nearcast.cli.counts import counted
from nearcast.errors import InvalidValue

kernels = typer.Typer(invoke_without_command=True)
_MOST = 10


def add_to(app: typer.Typer) -> None:
    """Register the command and its parts."""
    app.add_typer(kernels, name="kernels")


@kernels.callback()
def show(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, with every kernel.")] = False,
) -> None:
    """Show the compiled kernels for this machine, and how long each took to compile.

    Kernels are the fast parts of Nearcast, in machine code. They come with a wheel, or are compiled
    by `nearcast kernels build` or on first use.

    [bold]Example[/bold]

      nearcast kernels
      nearcast kernels build
    """
    if context.invoked_subcommand is not None:
        return
    found = [_described(path) for path in _kernel_files.kernel_files()]
    report = {
        "made_for": {**_kernel_files.made_for(), "processors": list(_kernel_files.targets())},
        "sources": _kernel_files.stamp(),
        "folders": [str(folder) for folder in _kernel_files.folders()],
        "parts": {part: _kernel_files.at_hand(part) for part in _parts()},
        "misfit": _kernel_files.misfit(),
        "kernels": found,
    }
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
        return
    _print(report, found)


def _described(path: Any) -> dict[str, Any]:
    with path.open("rb") as file:
        head: dict[str, Any] = msgspec.json.decode(file.readline())
        return {
            "kernel": head["kernel"],
            "cpu_s": head["cpu_s"],
            "bytes": path.stat().st_size,
            "processor": path.name.removesuffix(_kernel_files.ENDING).rsplit(".", 1)[1],
            "folder": str(path.parent),
        }


def _parts() -> list[str]:
    from nearcast.kernels.names import PARTS

    return list(PARTS)


def _print(report: dict[str, Any], found: list[dict[str, Any]]) -> None:
    made_for = report["made_for"]
    typer.echo(
        f"Kernels for Python {made_for['python']}, numba {made_for['numba']}, "
        f"{made_for['platform']}, {' or '.join(made_for['processors'])}:"
    )
    folders = Counter(each["folder"] for each in found)
    for folder, count in folders.items():
        typer.echo(f"  {count} in {folder}")
    if not folders:
        typer.echo("  none yet; 'nearcast kernels build' compiles them")
    if report["misfit"]:
        typer.echo(f"  {report['misfit']}")
    ready = [part for part, at_hand in report["parts"].items() if at_hand]
    typer.echo(f"Ready to use: {', '.join(ready) or 'nothing'}")
    missing = [part for part, at_hand in report["parts"].items() if not at_hand]
    if missing:
        typer.echo(f"Not compiled, or not all of it: {', '.join(missing)}")
    if found:
        total = sum(each["cpu_s"] for each in found)
        table = Table(
            title=f"{counted(len(found), 'kernel')}, {total:.0f} s of CPU to compile; the longest"
        )
        table.add_column("kernel")
        table.add_column("CPU s", justify="right")
        table.add_column("KB", justify="right")
        for each in sorted(found, key=lambda each: -each["cpu_s"])[:_MOST]:
            table.add_row(each["kernel"], f"{each['cpu_s']:.2f}", f"{each['bytes'] / 1024:.0f}")
        Console().print(table)


@kernels.command("build")
def build(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PART]...",
            help="What to compile for: engine, spark, or an index by its name.",
            show_default="engine spark",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every part, with the indexes of the papers.")
    ] = False,
    processes: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default="one a core", help="How many at a time."),
    ] = None,
) -> None:
    """Compile kernels ahead of time, so that their first use is fast.

    [bold]Example[/bold]

      nearcast kernels build engine
    """
    from nearcast.kernels.names import FIRST, PARTS

    for part in parts or ():
        if part not in PARTS:
            raise InvalidValue("part", part, f"one of {', '.join(PARTS)}")
    from nearcast.kernels.build import build as build_parts

    wanted = PARTS if everything else parts or FIRST
    columns = (
        TextColumn("kernels {task.completed}/{task.total}"),
        BarColumn(),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("kernels", total=None)

        def report(compiled: int, total: int) -> None:
            bar.update(task, completed=compiled, total=total)

        build_parts(wanted, processes, report)
    count = len(_kernel_files.kernel_files())
    sys.stderr.write(f"{count} kernels are compiled for this machine\n")
