"""Options that several commands share, and how their values are read."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from nearcast.errors import InvalidValue
from nearcast.events.log import decode_json
from nearcast.geo import Box, Circle, Region, region_from_json
from nearcast.index_names import INDEX_NAMES
from nearcast.text import DEFAULT, ENGLISH_STOP_WORDS, Analyser

PICTURES = (".html", ".htm", ".png")
"""The file extensions of pictures of plans."""

StemOption = Annotated[
    str | None,
    typer.Option("--stem", metavar="LANGUAGE", help="Reduce words to their stems, e.g. english."),
]
StopWordsOption = Annotated[
    str | None,
    typer.Option(
        "--stop-words",
        metavar="english|FILE",
        help="Ignore common words: a list, or a file of them.",
    ),
]
CjkOption = Annotated[
    bool,
    typer.Option("--cjk", help="Cut Chinese, Japanese and Korean text into pairs of characters."),
]
WindowCountOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", show_default="100000", help="Top-k chooses from the last N messages."
    ),
]
WindowSecondsOption = Annotated[
    float | None, typer.Option(metavar="S", help="Top-k chooses from the last S seconds.")
]
SpaceOption = Annotated[
    str | None,
    typer.Option(
        metavar="W,S,E,N",
        show_default="the world",
        help="The space in which top-k measures distances.",
    ),
]
HistoryOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A log whose messages give the term weights of top-k."),
]
WorkersOption = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, show_default="one for each core", help="How many workers, on Spark."
    ),
]
PartitionerOption = Annotated[
    str, typer.Option(metavar="NAME", help="How the work on Spark is shared out.")
]
IndexOption = Annotated[
    str,
    typer.Option(
        metavar="NAME[:OPTION=VALUE,...]",
        help="The index of the embedded engine, as in ap-tree:cut=again. "
        f"Names: {', '.join(INDEX_NAMES)}. Options: docs/explanation/indexes.md.",
    ),
]
IncludeOption = Annotated[
    str,
    typer.Option(
        "--include",
        metavar="message,meta",
        show_default="nothing",
        help="What updates also have: the message, the meta of the subscription.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Write JSON instead of a table.")]


def numbers(value: str, count: int, field: str, shape: str) -> list[float]:
    """Read `count` numbers with commas between them."""
    parts = value.split(",")
    try:
        read = [float(part) for part in parts]
    except ValueError:
        read = []
    if len(read) != count:
        raise InvalidValue(field, value, f"{count} numbers with commas between them: {shape}")
    return read


def box(value: str, field: str) -> Box:
    """Read a box from `W,S,E,N`."""
    try:
        return Box(*numbers(value, 4, field, "W,S,E,N"))
    except InvalidValue as error:
        raise error if error.field == field else error.inside(field) from None


def region(value: str, field: str) -> Region:
    """Read a region: `W,S,E,N` for a box, `LON,LAT,METRES` for a circle, or its JSON."""
    try:
        if value.lstrip().startswith("{"):
            return region_from_json(decode_json(value.encode(errors="replace"), "JSON"))
        if value.count(",") == 2:
            lon, lat, radius = numbers(value, 3, field, "LON,LAT,METRES")
            return Circle((lon, lat), radius)
        return box(value, field)
    except InvalidValue as error:
        raise error if error.field.startswith(field) else error.inside(field) from None


def json_object(value: str, field: str) -> dict[str, Any]:
    """Read a JSON object."""
    read = decode_json(value.encode(errors="replace"), field)
    if not isinstance(read, dict):
        raise InvalidValue(field, value, 'a JSON object such as {"price": 199}')
    return read


def check_window(count: int | None, seconds: float | None) -> None:
    """Refuse two windows at once."""
    if count is not None and seconds is not None:
        raise InvalidValue(
            "--window-seconds", seconds, "only one of --window-count and --window-seconds"
        )


def analyser(stem: str | None, stop_words: str | None, cjk: bool = False) -> Analyser:
    """Create the analyser that the text options describe."""
    if stem is None and stop_words is None and not cjk:
        return DEFAULT
    words: list[str] = []
    if stop_words == "english":
        words = list(ENGLISH_STOP_WORDS)
    elif stop_words is not None:
        try:
            words = Path(stop_words).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidValue(
                "--stop-words", stop_words, f"english, or a readable file of words ({error})"
            ) from None
    return Analyser(stem, words, cjk)


def given_text(stem: str | None, stop_words: str | None, cjk: bool) -> Analyser | None:
    """The analyser that the text options describe; None if none is given."""
    described = analyser(stem, stop_words, cjk)
    return None if stem is None and stop_words is None and not cjk else described
