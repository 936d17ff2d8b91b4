"""Indexes as a person names them for a benchmark: `gi2`, or `gi2:grid=64,inline=true`."""

from __future__ import annotations

import inspect
from typing import Any, NamedTuple, get_type_hints

import msgspec

from nearcast.errors import InvalidValue
from nearcast.index import Index, Table, index_named

_SHAPE = "names with commas between them, each with options or without: gi2:grid=64,inline=true"


class Choice(NamedTuple):
    """An index and its options; `label` is how it was written."""

    label: str
    name: str
    options: dict[str, Any]

    def make(self, table: Table) -> Index:
        """Make the index over a table."""
        make: Any = index_named(self.name)
        index: Index = make(table, **self.options)
        return index


def named_options(text: str, field: str) -> list[tuple[str, dict[str, str]]]:
    """Read `a,b:x=1,y=2,c` as a, b with the options x and y, and c."""
    read: list[tuple[str, dict[str, str]]] = []
    for part in text.split(","):
        name, colon, rest = part.strip().partition(":")
        if not colon and "=" in name and read:
            rest = name  # another option of the name before it
        elif name and "=" not in name:
            read.append((name, {}))
        else:
            raise InvalidValue(field, text, _SHAPE)
        if not rest and not colon:
            continue
        option, equals, value = rest.partition("=")
        if not (option and equals and value):
            raise InvalidValue(field, text, _SHAPE)
        read[-1][1][option.replace("-", "_")] = value
    return read


def read_choices(text: str) -> list[Choice]:
    """Read the indexes to measure, and refuse names and options that do not exist."""
    choices = []
    for name, given in named_options(text, "--index"):
        written = ",".join(f"{option}={value}" for option, value in given.items())
        label = f"{name}:{written}" if given else name
        choices.append(Choice(label, name, _converted(name, given)))
    return choices


def _converted(name: str, given: dict[str, str]) -> dict[str, Any]:
    make: Any = index_named(name)
    known = [option for option in inspect.signature(make).parameters if option != "table"]
    hints = get_type_hints(make.__init__)
    converted = {}
    for option, value in given.items():
        if option not in known:
            expected = f"one of the options of {name}: {', '.join(known)}"
            if not known:
                expected = f"no options, since {name} has none"
            raise InvalidValue("--index", option, expected)
        try:
            converted[option] = msgspec.convert(value, hints[option], strict=False)
        except msgspec.ValidationError as error:
            expected = str(error).removeprefix("Expected ").replace("`", "")
            raise InvalidValue(f"--index {name}:{option}", value, expected) from None
    make(Table(), **converted)  # its own checks, before any data is made
    return converted
