"""Commands that talk to a server: what they share."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.need import need

if TYPE_CHECKING:
    from nearcast.client import Client

UrlOption = Annotated[
    str, typer.Option("--url", metavar="URL", envvar="NEARCAST_URL", help="Where the server is.")
]
KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="KEY", envvar="NEARCAST_KEY", help="Better in the environment than here."
    ),
]
LinesOption = Annotated[
    bool, typer.Option("--json", help="One JSON object a line; so it is when piped.")
]
URL = "http://127.0.0.1:8080"


def connect(url: str, key: str | None, *, retries: int = 1) -> Client:
    """A client for a server; what it needs is said if it is not installed."""
    need("httpx", "client")
    from nearcast.client import Client

    return Client(url, key, retries=retries)


def as_lines(wanted: bool) -> bool:
    """Whether to write JSON: when asked, and whenever no person is looking."""
    return wanted or not sys.stdout.isatty()
