"""`nearcast demo`: a city's worth of made-up people and happenings on the live map."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

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
            help="End so long after it is ready.",
        ),
    ] = None,
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="0 takes a free one.")
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
        DemoEngine, typer.Option(envvar="ENGINE", help="What matches behind the server.")
    ] = DemoEngine.auto,
) -> None:
    """Watch a city on a live map: deals, incidents and concerts reach the people they concern.

    The city is Sydney; its people, shops and happenings are made up.

    [bold]Example[/bold]

      nearcast demo --duration 60 --no-browser
    """
    need("fastapi", "server")
    from nearcast.demo.show import Plan, run

    chosen, said = _chosen(engine)
    typer.echo(f"A made-up day in Sydney, on {said}. Ctrl-C ends it.")
    plan = Plan(
        port=port,
        duration_s=duration,
        rate=rate,
        people=people,
        movers=movers,
        seed=seed,
        browser=browser,
        engine=chosen,
    )
    run(plan, typer.echo)


def _chosen(engine: DemoEngine) -> tuple[str, str]:
    """What matches, and how to say it: Spark where it can be had, unless told otherwise."""
    if engine is not DemoEngine.embedded:
        try:
            from nearcast.cli.spark_setup import need_spark
            from nearcast.spark.java import find_java

            need_spark()
            java = find_java()
        except (SetupError, ImportError) as error:
            if engine is DemoEngine.spark:
                raise
            return "embedded", f"the embedded engine ({str(error).split(';', 1)[0]})"
        waits = "the first matches take half a minute, ENGINE=embedded is quicker"
        return "spark", f"the pipeline on Spark, with Java {java.version} ({waits})"
    return "embedded", "the embedded engine"
