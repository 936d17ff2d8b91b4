"""A file of settings, in TOML: what `serve` and `spark run` take where nothing else says it.

An option on the command line comes first, then the environment, then the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from nearcast.errors import InvalidValue

COMMANDS = (("serve",), ("spark", "run"))
"""The commands that have a table in the file."""


def read_config(path: Path) -> dict[str, Any]:
    """The tables of a file, checked as far as that needs no command."""
    try:
        tables = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InvalidValue("--config", str(path), f"a file ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidValue("--config", str(path), f"TOML ({error})") from None
    for name, table in tables.items():
        known = sorted({words[0] for words in COMMANDS})
        if name not in known:
            raise InvalidValue(f"{path}", name, f"one of the tables {', '.join(known)}")
        if not isinstance(table, dict):
            raise InvalidValue(f"{path}: {name}", table, f"a table: [{name}]")
    return tables


def settings_for(path: Path, tables: Mapping[str, Any], command: Any) -> dict[str, Any]:
    """The settings of all commands below one, by the names of their parameters."""
    found: dict[str, Any] = {}
    for words in COMMANDS:
        table, below = _at(path, tables, words), command
        for word in words:
            below = getattr(below, "commands", {}).get(word)
        if table is None or below is None:  # of a command that is not the one to run
            continue
        inner = found
        for word in words[:-1]:
            inner = inner.setdefault(word, {})
        inner[words[-1]] = _named(path, ".".join(words), table, below)
    return found


def _at(path: Path, tables: Mapping[str, Any], words: tuple[str, ...]) -> Any:
    table: Any = tables
    for number, word in enumerate(words):
        if not isinstance(table, dict):
            name = ".".join(words[:number])
            raise InvalidValue(f"{path}: {name}", table, f"a table: [{name}]")
        table = table.get(word)
        if table is None:
            return None
    if not isinstance(table, dict):
        name = ".".join(words)
        raise InvalidValue(f"{path}: {name}", table, f"a table: [{name}]")
    return table


def _named(path: Path, name: str, table: dict[str, Any], command: Any) -> dict[str, Any]:
    """The values of a table by parameter; each is an option without its dashes."""
    options = {
        option.removeprefix("--"): each.name
        for each in command.params
        if each.param_type_name == "option" and each.name != "help"
        for option in each.opts
    }
    values = {}
    for key, value in table.items():
        place = f"{path}: {name}.{key}"
        if key not in options:
            near = get_close_matches(key, options, n=1)
            hint = f", such as {near[0]}" if near else ""
            raise InvalidValue(place, value, f"the name of an option of nearcast {name}{hint}")
        if isinstance(value, dict):
            raise InvalidValue(place, value, "a value, not a table")
        values[options[key]] = value
    return values
