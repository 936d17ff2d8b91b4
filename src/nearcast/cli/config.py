"""`nearcast config`: every setting of the server and the pipeline, and where it comes from."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.config_file import COMMANDS

_SOURCES = {"ENVIRONMENT": "environment", "DEFAULT_MAP": "file"}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("config")(config_command)


def config_command(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show what serve and spark run would do now: every setting, and where it comes from.

    An option on the command line comes before the environment (NEARCAST_SERVE_PORT), and that
    before the file that --config or NEARCAST_CONFIG names, with a table for each command.

    [bold]Example[/bold]

      nearcast config

      nearcast --config nearcast.toml config --json
    """
    rows = [row for words in COMMANDS for row in _settings(context, words)]
    if as_json or not sys.stdout.isatty():
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(rows)).decode() + "\n")
        return
    table = Table("command", "setting", "value", "from")
    for row in rows:
        style = None if row["from"] == "default" else "bold"
        value = "" if row["value"] is None else str(row["value"]).strip("[]")
        table.add_row(row["command"], row["setting"], value, row["from"], style=style)
    Console().print(table)


def _settings(context: typer.Context, words: tuple[str, ...]) -> list[dict[str, Any]]:
    """The settings of a command as they would be if it were given no options."""
    above: Any = context.parent
    command: Any = above.command
    for word in words:
        command = command.commands[word]
        above = command.make_context(word, [], parent=above, resilient_parsing=True)
    above.resilient_parsing = False  # it was, as some options must be given and are not
    rows = []
    for each in command.params:
        if each.param_type_name != "option" or each.name == "help":
            continue
        given, source = each.consume_value(above, {})
        known = _SOURCES.get(source.name)
        value = above.params.get(each.name) if known is None else each.process_value(above, given)
        setting = each.opts[0].removeprefix("--")
        rows.append(
            {
                "command": " ".join(words),
                "setting": setting,
                "value": _plain(value),
                "from": known or "default",
            }
        )
    return rows


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)
