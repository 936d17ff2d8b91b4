"""What all commands that measure have in common: lists in options, progress, and the outcome."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import typer

from nearcast.errors import InvalidValue, SourceError

T = TypeVar("T")


def numbers(text: str, field: str) -> list[int]:
    """Read whole numbers with commas between them."""
    try:
        read = [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        read = []
    if not read or min(read) < 1:
        raise InvalidValue(field, text, "whole numbers above 0 with commas between them")
    return read


def named(text: str, field: str, known: list[str]) -> list[str]:
    """Read a list of names, each of which must be known."""
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in known:
            raise InvalidValue(field, name, f"one of {', '.join(known)}")
    return names


def cells(text: str) -> dict[str, int]:
    """Read how many columns and rows a grid has."""
    columns, _, rows = text.partition("x")
    try:
        read = {"columns": int(columns), "rows": int(rows)}
    except ValueError:
        read = {"columns": 0}
    if min(read.values()) < 1:
        raise InvalidValue("--grid", text, "columns and rows, such as 512x256")
    return read


def write_plot(path: str, drawn: str) -> None:
    """Write a picture to where the option `--plot` says."""
    try:
        Path(path).write_text(drawn, encoding="utf-8")
    except OSError as error:
        raise SourceError(f"{path}: cannot be written ({error.strerror}); name another") from None


def give(outcome: T, as_json: bool, show: Callable[[T], object]) -> None:
    """Print what was measured: one line of JSON, or what is shown to a person."""
    if as_json:
        typer.echo(msgspec.json.encode(outcome, enc_hook=_plain).decode())
    else:
        show(outcome)


def _plain(value: Any) -> Any:
    """A number or an array of numpy, which JSON does not know, as one of Python."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} in what was measured")
