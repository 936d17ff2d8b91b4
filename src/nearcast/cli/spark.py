"""`nearcast spark`: the pipeline on Spark."""

from __future__ import annotations

import typer

from nearcast.cli import spark_adjust, spark_plan, spark_run, spark_status, spark_ui

spark = typer.Typer(no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Register the command and its parts."""
    app.add_typer(spark, name="spark")


@spark.callback()
def _spark() -> None:
    """Run and watch the pipeline on Spark.

    [bold]Example[/bold]

      nearcast spark run --input events --output updates --state state

      nearcast spark status state
    """


spark.command("run", context_settings={"auto_envvar_prefix": "NEARCAST_SPARK_RUN"})(spark_run.run)
spark.command("plan")(spark_plan.plan)
spark.command("status")(spark_status.status)
spark.command("adjust")(spark_adjust.adjust)
spark.command("ui")(spark_ui.ui)
