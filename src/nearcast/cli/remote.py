"""Options and connections of commands that talk to a server."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearcast.cli.need import need
from nearcast.errors import InvalidValue, SourceError
from nearcast.text import hints

if TYPE_CHECKING:
    from nearcast.client import Client, UnreachableError

UrlOption = Annotated[
    str, typer.Option("--url", metavar="URL", envvar="NEARCAST_URL", help="Where the server is.")
]


def _discourage(context: typer.Context, key: str | None) -> str | None:
    """Warn of a key on the command line, where other users of the machine can read it."""
    source = context.get_parameter_source("key")
    if source is not None and source.name == "COMMANDLINE":
        say("--key shows the key to other users of this machine; use --key-file or NEARCAST_KEY")
    return key


KeyOption = Annotated[
    str | None,
    typer.Option(
        "--key",
        metavar="KEY",
        envvar="NEARCAST_KEY",
        hidden=True,
        callback=_discourage,
        help="The key of the server, seen by all users of this machine; take --key-file instead.",
    ),
]
KeyFileOption = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        help="A file with the key of the server; or the key in NEARCAST_KEY.",
    ),
]
WaitOption = Annotated[
    float | None,
    typer.Option(
        "--wait",
        metavar="SECONDS",
        min=0.0,
        show_default="5",
        help="Wait this long for the server; inf waits until it is there.",
    ),
]
LinesOption = Annotated[
    bool, typer.Option("--json", help="One JSON object a line; the default when piped.")
]
URL = "http://127.0.0.1:8080"
A_WHILE_S = 5.0
_PAUSE_S = 0.5
_ANSWER_S = (1.0, 30.0)


def read_key(file: Path, option: str) -> str:
    """The key in a file, without the white space around it."""
    try:
        key = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidValue(option, str(file), f"a file with a key ({error})") from None
    if not key:
        raise InvalidValue(option, str(file), "a file with a key, not an empty one")
    return key


def chosen_key(key: str | None, key_file: Path | None) -> str | None:
    """The key of the file, if there is one, or that of the environment."""
    return key if key_file is None else read_key(key_file, "--key-file")


def connect(
    url: str,
    key: str | None,
    wait_s: float | None,
    *,
    retries: int = 1,
    sleep: Callable[[float], None] = time.sleep,
) -> Client:
    """Connect a client to a server, and wait until the server is ready."""
    need("httpx", "client")
    need("httpx_sse", "client")
    from nearcast.client import Client

    client = Client(url, key, retries=retries, sleep=sleep)
    try:
        reach(client, A_WHILE_S if wait_s is None else wait_s)
    except BaseException:
        client.close()
        raise
    return client


def reach(
    client: Client,
    wait_s: float,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Return as soon as the server is ready; report what it waits for, and give up in the end.

    A short wait is reported on a terminal only: there the reader wonders, a log has the outcome.
    """
    from nearcast.client import UnreachableError

    begun, reports = clock(), sys.stderr.isatty() or wait_s > A_WHILE_S
    for tries in count(1):
        left = wait_s - (clock() - begun)
        least, most = _ANSWER_S
        try:
            client.check_ready(timeout=min(max(left, least), most))
        except UnreachableError as error:
            left = wait_s - (clock() - begun)
            if not left > 0:
                raise _unreachable(error, wait_s, tries) from None
            if tries == 1 and reports:
                say(f"waiting for {error.url} ({error.reason}) ...")
            sleep(min(_PAUSE_S, left))
        else:
            if tries > 1 and reports:
                say("connected")
            return


def _unreachable(error: UnreachableError, wait_s: float, tries: int) -> SourceError:
    tried = "tried once" if tries == 1 else f"tried {tries} times in {wait_s:g} s"
    return SourceError(
        f"{error.url}: cannot be reached ({error.reason}), {tried}; start a server there "
        "with 'nearcast serve', give another address (--url or NEARCAST_URL), or wait longer "
        "with --wait SECONDS"
    )


def say(text: str) -> None:
    """Print a note on standard error; standard output is for results."""
    sys.stderr.write(f"nearcast: {text}\n")
    sys.stderr.flush()


def give_hints(*queries: str | None) -> None:
    """Point out on standard error what queries may not mean."""
    for query in queries:
        for hint in hints(query or ""):
            say(hint)


def as_lines(wanted: bool) -> bool:
    """Whether to write JSON: on request, and when standard output is not a terminal."""
    return wanted or not sys.stdout.isatty()
