"""`nearcast demo`: a city of made-up people and messages on the live map."""

from __future__ import annotations

from enum import StrEnum
from time import monotonic
from typing import Annotated, NamedTuple

import typer

from nearcast.cli.need import need
from nearcast.errors import SetupError


class DemoEngine(StrEnum):
    """What matches behind the demo's server."""

    auto = "auto"
    embedded = "embedded"
    spark = "spark"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("demo")(demo)


def demo(
    duration: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0.0,
            show_default="until Ctrl-C",
            help="End this long after it is ready.",
        ),
    ] = None,
    port: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=65535, help="The port to listen on; 0 picks a free one."
        ),
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser where there is one.")
    ] = True,
    rate: Annotated[
        float, typer.Option(metavar="N", min=0.1, max=1000, help="Messages a second.")
    ] = 8.0,
    people: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many stay where they are.")
    ] = 20_000,
    movers: Annotated[int, typer.Option(metavar="N", min=0, help="How many move about.")] = 240,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, another story.")] = 1,
    engine: Annotated[
        DemoEngine,
        typer.Option(
            metavar="|".join(DemoEngine),
            envvar="ENGINE",
            help="What matches behind the server: one of them, or [bold]auto[/bold], the embedded "
            "engine with Spark beside it where there is Java.",
        ),
    ] = DemoEngine.auto,
    spark_install: Annotated[
        str | None,
        typer.Option(
            metavar="COMMAND",
            envvar="SPARK_INSTALL",
            help="What installs Spark, if it is to start beside; the map does not wait for it.",
        ),
    ] = None,
) -> None:
    """Watch a city on a live map: deals, incidents and concerts reach the people they concern.

    The city is Sydney; its people, shops and happenings are made up.

    [bold]Example[/bold]

      nearcast demo --duration 60 --no-browser
    """
    since = monotonic()
    need("fastapi", "server")
    from nearcast.demo.show import DemoOptions, run

    chosen = _chosen(engine, installed_later=spark_install is not None)
    typer.echo(f"A made-up day in Sydney, on {chosen.description}. Ctrl-C ends it.")
    plan = DemoOptions(
        port=port,
        duration_s=duration,
        rate=rate,
        people=people,
        movers=movers,
        seed=seed,
        browser=browser,
        engine=chosen.engine,
        beside=chosen.beside,
        install=spark_install if chosen.beside else None,
        since=since,
    )
    run(plan, typer.echo)


class _EngineChoice(NamedTuple):
    """The engine of the server, whether Spark runs beside it, and a description of both."""

    engine: str
    beside: bool
    description: str


def _chosen(engine: DemoEngine, *, installed_later: bool) -> _EngineChoice:
    """Choose the engine: by default the embedded one, with Spark beside it where it can run."""
    if engine is DemoEngine.embedded:
        return _EngineChoice("embedded", False, "the embedded engine")
    from nearcast.cli.spark_setup import need_spark
    from nearcast.spark.java import find_java

    try:
        java = find_java()
        if not installed_later or engine is DemoEngine.spark:
            need_spark()
    except SetupError as error:
        if engine is DemoEngine.spark:
            raise
        why = str(error).split(";", 1)[0]
        return _EngineChoice("embedded", False, f"the embedded engine alone ({why})")
    spark = f"the pipeline on Spark, with Java {java.version}"
    if engine is DemoEngine.spark:
        return _EngineChoice("spark", False, spark)
    return _EngineChoice("embedded", True, f"the embedded engine, and beside it on {spark}")
