"""Commands as the documentation and `--help` show them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import typer.main

from nearcast.cli.main import app_for

ROOT = Path(__file__).parents[2]


def help_examples() -> list[str]:
    """The commands in the help of all commands, as they are typed."""
    commands = typer.main.get_command(app_for([])).commands  # type: ignore[attr-defined]
    lines = [line.strip() for each in commands.values() for line in (each.help or "").splitlines()]
    return [line for line in lines if line.startswith("nearcast ")]


def console(document: str, heading: str) -> list[str]:
    """The commands of the first console block below a heading of a document."""
    _, _, after = (ROOT / document).read_text().partition(f"{heading}\n")
    block = re.search(r"```console\n(.*?)```", after, flags=re.DOTALL)
    assert block, f"{document} has no commands below {heading!r}"
    typed = [line.removeprefix("$ ") for line in block[1].splitlines()]
    return [line for line in typed if line.startswith("nearcast ")]


def words(command: str) -> list[str]:
    """The arguments of a command, as a shell would give them to it."""
    return shlex.split(command, comments=True)[1:]
