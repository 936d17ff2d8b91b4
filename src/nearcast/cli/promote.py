"""`nearcast promote`: a standby takes the place of its primary."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from nearcast.cli import remote
from nearcast.cli.need import need
from nearcast.errors import SourceError

_ANSWER_S = 60.0


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("promote")(promote)


def promote(
    url: Annotated[str, typer.Argument(metavar="URL", help="Where the standby is.")],
    key: remote.KeyOption = None,
    key_file: remote.KeyFileOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="The answer as JSON.")] = False,
) -> None:
    """Make a standby the primary: it accepts changes from now on.

    If the old primary can be reached, it accepts no more changes first, and the standby takes over
    its last ones: nothing is lost. If not, what it had not sent yet is lost, and it is told as soon
    as it is back. The key has the scope admin.

    [bold]Example[/bold]

      nearcast promote http://127.0.0.1:8081
    """
    need("httpx", "client")
    import httpx
    import msgspec

    key = remote.chosen_key(key, key_file)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    try:
        answer = httpx.post(f"{url.rstrip('/')}/v1/promote", headers=headers, timeout=_ANSWER_S)
        said: Any = msgspec.json.decode(answer.content)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise SourceError(f"{url}: cannot be reached ({error}); check the address") from None
    except ValueError:
        raise SourceError(f"{url}: something else answers there; check the address") from None
    if not answer.is_success:
        raise SourceError(f"{url}: {said.get('detail', answer.status_code)}")
    if as_json:
        typer.echo(answer.text)
        return
    typer.echo(f"{url} is the primary, in term {said['term']}")
    if not said["fenced"]:
        typer.echo("the old primary could not be reached: what it had not sent is lost")
    elif not said["caught_up"]:
        typer.echo("the old primary is fenced, but had more than it could send: that is lost")
    for name, place in said["tenants"].items():
        typer.echo(f"tenant {name}: the latest update is {place['last_update']}")
