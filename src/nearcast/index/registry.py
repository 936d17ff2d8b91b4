"""The indexes by name, with options: `ap-tree`, or `ap-tree:order=idf,fanout=100`.

`auto` is the one that measures best.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, NamedTuple, cast, get_type_hints

import msgspec

from nearcast.errors import InvalidValue
from nearcast.index.base import Index
from nearcast.index.table import Table
from nearcast.index_names import INDEX_CLASSES

AUTO = "rarest-term"
"""The index that `auto` means."""

_SHAPE = "a name, with options or without, as in gi2:grid=64,inline=true"
_SHAPES = "names with commas between them, each with options or without: gi2:grid=64,inline=true"
_NOT_TEXT = ("table", "history")  # what only Python can give


class _Indexes(Mapping[str, type[Index]]):
    """The classes of all indexes; each is imported when it is asked for."""

    def __getitem__(self, name: str) -> type[Index]:
        module, name_of_class = INDEX_CLASSES[name]
        found = getattr(import_module(f"nearcast.index.{module}"), name_of_class)
        return cast("type[Index]", found)

    def __iter__(self) -> Iterator[str]:
        return iter(INDEX_CLASSES)

    def __len__(self) -> int:
        return len(INDEX_CLASSES)


INDEXES: Mapping[str, type[Index]] = _Indexes()


def index_named(name: str) -> type[Index]:
    """Find an index by its name."""
    try:
        return INDEXES[AUTO if name == "auto" else name]
    except KeyError:
        raise InvalidValue("index", name, f"one of {', '.join(INDEXES)}") from None


class IndexChoice(NamedTuple):
    """An index and its options; `label` is how they are written."""

    label: str
    name: str
    options: dict[str, Any]

    @property
    def kind(self) -> type[Index]:
        """The class of the index."""
        return INDEXES[self.name]

    def make(self, table: Table) -> Index:
        """Make the index over a table."""
        make: Any = self.kind
        index: Index = make(table, **self.options)
        return index


class IndexOption(NamedTuple):
    """An option that an index may be given as text."""

    kind: Any
    default: Any


def options_of(name: str) -> dict[str, IndexOption]:
    """The options of an index; one that passes options on has those of its base class too."""
    found: dict[str, IndexOption] = {}
    for kind in index_named(name).__mro__:
        if "__init__" not in vars(kind):
            continue
        make: Any = vars(kind)["__init__"]
        hints, parameters = get_type_hints(make), inspect.signature(make).parameters
        for option, given in parameters.items():
            if option in hints and option not in _NOT_TEXT and given.kind is not given.VAR_KEYWORD:
                found.setdefault(option, IndexOption(hints[option], given.default))
        if not any(given.kind is given.VAR_KEYWORD for given in parameters.values()):
            break
    return found


def read_index(text: str, field: str = "index") -> IndexChoice:
    """Read an index and its options, and refuse what does not exist or is not possible."""
    choices = read_indexes(text, field)
    if len(choices) != 1:
        raise InvalidValue(field, text, _SHAPE)
    return choices[0]


def read_indexes(text: str, field: str = "index") -> list[IndexChoice]:
    """Read several indexes with commas between them, each with options or without."""
    choices = []
    for name, given in named_options(text, field):
        written = ",".join(f"{option}={value}" for option, value in given.items())
        if name not in INDEXES and name != "auto":
            raise InvalidValue(field, name, f"one of auto, {', '.join(INDEXES)}")
        real = AUTO if name == "auto" else name
        options = _converted(real, given, field)
        choices.append(IndexChoice(f"{real}:{written}" if given else real, real, options))
    return choices


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
            raise InvalidValue(field, text, _SHAPES)
        if not rest and not colon:
            continue
        option, equals, value = rest.partition("=")
        if not (option and equals and value):
            raise InvalidValue(field, text, _SHAPES)
        read[-1][1][option.replace("-", "_")] = value
    return read


def _converted(name: str, given: dict[str, str], field: str) -> dict[str, Any]:
    if not given:
        return {}
    known = options_of(name)
    converted = {}
    for option, value in given.items():
        if option not in known:
            expected = f"one of the options of {name}: {', '.join(known)}"
            if not known:
                expected = f"no options, since {name} has none"
            raise InvalidValue(field, option, expected)
        try:
            converted[option] = msgspec.convert(value, known[option].kind, strict=False)
        except msgspec.ValidationError as error:
            expected = str(error).removeprefix("Expected ").replace("`", "")
            raise InvalidValue(f"{field} {name}:{option}", value, expected) from None
    make: Any = INDEXES[name]
    try:
        make(Table(), **converted)  # its own checks
    except InvalidValue as error:
        raise InvalidValue(f"{field} {name}:{error.field}", error.given, error.expected) from None
    return converted
