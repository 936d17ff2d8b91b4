"""The commands and options that people have in their scripts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import typer.main

from nearcast.cli.main import app_for

GOLDEN = Path(__file__).parents[1] / "golden" / "commands.json"


def options_of(command: Any, name: str = "nearcast") -> dict[str, list[str]]:
    """The options of a command and of all commands below it, by their whole names."""
    named = [option for each in command.params for option in (*each.opts, *each.secondary_opts)]
    found = {name: sorted(named)}
    for inner, each in getattr(command, "commands", {}).items():
        found |= options_of(each, f"{name} {inner}")
    return found


def test_no_command_and_no_option_has_gone() -> None:
    now = options_of(typer.main.get_command(app_for([])))
    for name, options in json.loads(GOLDEN.read_text()).items():
        assert set(options) <= set(now.get(name, [])), name
