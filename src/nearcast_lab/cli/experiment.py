"""`nearcast experiment`: the papers' figures, measured again."""

from __future__ import annotations

import typer

from nearcast_lab.cli import (
    experiment_boolean,
    experiment_distributed,
    experiment_moving,
    experiment_topk,
)

experiment = typer.Typer(no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Register the command and its parts."""
    app.add_typer(experiment, name="experiment")


@experiment.callback()
def _experiment() -> None:
    """Measure again what the papers claim.

    [bold]Example[/bold]

      nearcast experiment topk --subscriptions 5000 --window 5000
    """


experiment.command("boolean")(experiment_boolean.boolean)
experiment.command("distributed")(experiment_distributed.distributed)
experiment.command("moving")(experiment_moving.moving)
experiment.command("topk")(experiment_topk.topk)
