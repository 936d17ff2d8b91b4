"""Help for people: `--json`, not `--json <bool>`, and `EVENTS`, not `EVENTS <str>`.

Typer shows the Python type of whatever has no metavar, and has no switch for it.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperOption


def leave_out_types() -> None:
    """Have no help of this process show the types of Python."""
    TyperArgument.display_type_rich = _nothing  # type: ignore[method-assign, assignment]
    TyperOption.display_type_rich = _metavar  # type: ignore[method-assign, assignment]


def _nothing(parameter: Any, ctx: object) -> None:
    """What an argument is: its name says so already."""


def _metavar(parameter: Any, ctx: object) -> str | None:
    """What an option takes, by the name that we gave it; a flag takes nothing."""
    del ctx
    metavar: str | None = parameter.metavar
    return metavar
