"""`nearcast explain`: how a query is read, and why a message matches or does not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import typer

from nearcast.cli import options
from nearcast.cli.match import tried_message
from nearcast.cli.remote import (
    URL,
    KeyFileOption,
    KeyOption,
    UrlOption,
    WaitOption,
    chosen_key,
    connect,
    give_hints,
)
from nearcast.engine import Settings
from nearcast.engine.explaining import PLACE, PROPERTY, explain_match, explain_query
from nearcast.errors import InvalidValue, MissingField
from nearcast.events import Subscription

_TRIAL = "trial"
_SIGNS = {True: "yes", False: "no "}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("explain")(explain)


def explain(
    query: Annotated[
        str | None, typer.Argument(metavar="[QUERY]", help="A query to explain.")
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(metavar="W,S,E,N | LON,LAT,METRES | JSON", help="Where it looks."),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The text of a message to try.")
    ] = None,
    point: Annotated[
        str | None,
        typer.Option(metavar="LON,LAT", show_default="anywhere", help="Where that message is."),
    ] = None,
    properties: Annotated[
        str | None, typer.Option(metavar="JSON", help="The properties of that message.")
    ] = None,
    subscription: Annotated[
        str | None,
        typer.Option(
            "--subscription", metavar="ID", help="Instead of a query, a subscription of a server."
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message", metavar="ID", help="A message that is active there, or in the window."
        ),
    ] = None,
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
    stem: options.StemOption = None,
    stop_words: options.StopWordsOption = None,
    cjk: options.CjkOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Explain how a query is read, and why a message matches it or does not.

    It shows the query with all its operators, and for each of its alternatives what a message must
    have and must not have, and what an index finds it by: a message is compared with an alternative
    only if it has the rarest of these. Of a server, it explains one subscription and one message.

    [bold]Example[/bold]

      nearcast explain 'ipad AND (price:<500 OR "on sale") NOT broken'

      nearcast explain "pizza price:<20" --text "Pizza!" --properties '{"price": 25}'

      nearcast explain --subscription s1 --message m1 --url http://127.0.0.1:8080
    """
    if subscription is not None or message is not None:
        given = (query, region, text, point, properties)
        _check_named(subscription, message, any(each is not None for each in given))
        with connect(url, chosen_key(key, key_file), wait) as client:
            explained = client.explain(str(message), str(subscription))
        _show(explained, _about_match(explained), as_json)
        return
    if query is None:
        raise MissingField("QUERY", "a query, or --subscription ID and --message ID of a server")
    settings = Settings(analyser=options.analyser(stem, stop_words, cjk))
    place = None if region is None else options.region(region, "--region")
    read = explain_query(query, settings.analyser)
    if text is None and point is None and properties is None:
        anywhere = place is None
        lines = [f"reads: {read['reads']}", *_about(read["alternatives"], anywhere)]
        explained = read
    else:
        if point is None and place is not None:
            raise MissingField("--point", "LON,LAT, where the message is, beside --region")
        tried = tried_message(text, point or "0,0", None, properties)
        explained = explain_match(Subscription(_TRIAL, query, place), tried, settings)
        explained = {"query": query, "reads": read["reads"], **explained}
        lines = [f"reads: {read['reads']}", *_about_match(explained)]
    _show(explained, lines, as_json)
    give_hints(query)


def _check_named(subscription: str | None, message: str | None, besides: bool) -> None:
    if subscription is None:
        raise MissingField("--subscription", "the id of one, beside --message")
    if message is None:
        raise MissingField("--message", "the id of one, beside --subscription")
    if besides:
        raise InvalidValue("--subscription", subscription, "no query and no message beside it")


def _show(explained: dict[str, Any], lines: Any, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(explained))
        return
    for line in lines:
        typer.echo(line)


def _about_match(explained: dict[str, Any]) -> Iterator[str]:
    """The lines about a message and a subscription."""
    space, top = explained.get("space"), explained.get("top")
    anywhere = space is None or space["kind"] == "anywhere"
    yield from _about(explained["text"]["alternatives"], anywhere)
    if "filter" in explained:
        yield "filter:"
        yield from _about(explained["filter"]["alternatives"], anywhere)
    if space is not None and not anywhere:
        yield f"place: {_SIGNS[space['matches']].strip()}, {_distance(space) or space['kind']}"
    if top is not None:
        yield "score: " + ", ".join(f"{name} {_short(value)}" for name, value in top.items())
    said = "matches" if explained["matches"] else "does not match"
    if "result" in explained:
        said += ", and is a result" if explained["result"] else ", and is no result"
    yield said


def _distance(space: dict[str, Any]) -> str | None:
    if "distance_m" not in space:
        return None
    return f"{space['distance_m']:,.0f} m from the center, the radius is {space['radius_m']:,g} m"


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _about(alternatives: list[dict[str, Any]], anywhere: bool) -> Iterator[str]:
    """The lines about the alternatives of a query."""
    if not alternatives:
        yield "matches no message: it contradicts itself"
    for number, each in enumerate(alternatives, 1):
        yield f"alternative {number} of {len(alternatives)}, {_found_by(each, anywhere)}"
        phrases = {
            term
            for one in each["having"]
            if one["operand"].startswith('"')
            for term in one["operand"].strip('"').split()
        }
        for has, terms, operands in (
            ("has", each["required"], each["having"]),
            ("not", each["excluded"], each["lacking"]),
        ):
            for one in terms:
                if has == "not" or one["term"] not in phrases:
                    yield _line(has, one["term"], "a word", one.get("found"))
            for one in operands:
                yield _line(has, one["operand"], one["means"], one.get("holds"))


def _line(has: str, operand: str, means: str, holds: bool | None) -> str:
    sign = "" if holds is None else f"{_SIGNS[holds is (has == 'has')]} "
    return f"  {sign}{has} {operand:<20}  {means}"


def _found_by(alternative: dict[str, Any], anywhere: bool) -> str:
    """How an index finds an alternative, and what it has to look at it for."""
    keys = alternative["rarest_of"]
    some = keys[0] if len(keys) == 1 else f"the rarest of {', '.join(keys)}"
    near = "" if anywhere else " near its region"
    if alternative["found_by"] == PLACE:
        return f"found by its place: looked at for every message{near}"
    if alternative["found_by"] == PROPERTY:
        return f"found by {some}: looked at for every message{near} that has the property"
    return f"found by {some}"
