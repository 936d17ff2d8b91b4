"""What a measurement reports while it runs, and how a terminal shows it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

Progress = Callable[[str], None]
"""Called with one line of text whenever a measurement begins something new."""


@contextmanager
def status_line() -> Iterator[Progress]:
    """Show progress on standard error if that is a terminal, and nothing otherwise."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with Console(stderr=True).status("starting") as status:
        yield status.update
