"""`/v1/explain`: why a message matches a subscription, or does not."""

from __future__ import annotations

import math
from typing import Any

from starlette.responses import Response

from nearcast.engine import Engine
from nearcast.engine.settings import Settings
from nearcast.errors import InvalidValue
from nearcast.events import Message, Subscription
from nearcast.geo import EARTH_RADIUS_M, Circle, planar_distance
from nearcast.geo.predicates import haversine, longitude_difference
from nearcast.server.bodies import json_response
from nearcast.server.describe import describe, needed
from nearcast.server.problems import Problem
from nearcast.server.routes import RequestContext, Routes
from nearcast.text import (
    EVERYTHING,
    Conjunct,
    Content,
    Equals,
    Operand,
    Phrase,
    Prefix,
    parse_bag,
    parse_query,
)
from nearcast.text.keys import is_found_by_range

routes = Routes()


@routes.add(
    "GET",
    "/v1/explain",
    "subscribe",
    describe(
        "subscriptions",
        200,
        "Which terms were found, whether the place fits, and what the score is made of.",
        answer="Explanation",
        parameters=(
            needed("message", "A message that is active or in the window."),
            needed("subscription", "A subscription."),
        ),
        problems=(404,),
    ),
)
async def explain(context: RequestContext) -> Response:
    """Explain why a message matches a subscription, or does not."""
    context.caller.pay()
    message_id, subscription_id = _needed(context, "message"), _needed(context, "subscription")

    def read(engine: Engine) -> tuple[Subscription | None, Message | None, bool]:
        subscription = engine.get(subscription_id)
        message = engine.message(message_id)
        is_result = subscription is not None and any(
            result.message == message_id for result in engine.results(subscription_id)
        )
        return subscription, message, is_result

    subscription, message, is_result = await context.tenant.backend.ask(read)
    if subscription is None:
        raise Problem(404, "unknown-subscription", f"there is no subscription {subscription_id!r}")
    if message is None:
        raise Problem(
            404,
            "unknown-message",
            f"there is no message {message_id!r}: it is neither active nor in the window",
        )
    settings = context.tenant.settings
    explained = _ranked if subscription.top else _boolean
    return json_response(explained(subscription, message, settings) | {"result": is_result})


def _needed(context: RequestContext, name: str) -> str:
    given = context.request.query_params.get(name)
    if not given:
        raise InvalidValue(name, given, f"?message=ID&subscription=ID, with the id of a {name}")
    return given


def _boolean(subscription: Subscription, message: Message, settings: Settings) -> dict[str, Any]:
    text = _asked(subscription.query, message, settings)
    space = _place(subscription, message)
    return {"matches": text["matches"] and space["matches"], "text": text, "space": space}


def _asked(asked: str | None, message: Message, settings: Settings) -> dict[str, Any]:
    """What a query makes of a message; without a query, every message will do."""
    tokens = settings.analyser.tokens(message.text)
    terms, content = frozenset(tokens), Content(tokens, message.properties)
    query = EVERYTHING if asked is None else parse_query(asked, settings.analyser)
    return {
        "matches": query.matches(terms, content),
        "terms": sorted(terms),
        "alternatives": [
            {
                "required": _found(each.required, terms),
                "excluded": _found(each.excluded, terms),
                "having": _holding(each.having, content),
                "lacking": _holding(each.lacking, content),
                "found_by": _found_by(each),
            }
            for each in query.conjuncts
        ],
    }


def _found(wanted: frozenset[str], terms: frozenset[str]) -> list[dict[str, Any]]:
    return [{"term": term, "found": term in terms} for term in sorted(wanted)]


def _found_by(alternative: Conjunct) -> str:
    """What an index finds an alternative by; without terms, all near the message are looked at."""
    exact = (Prefix, Phrase, Equals)
    if is_found_by_range(alternative):
        return "range"
    if alternative.required or any(isinstance(each, exact) for each in alternative.having):
        return "terms"
    return "property" if alternative.having else "place"


def _holding(operands: tuple[Operand, ...], content: Content) -> list[dict[str, Any]]:
    return [
        {"operand": one.to_text(), "means": one.in_words(), "holds": one.holds(content)}
        for one in operands
    ]


def _place(subscription: Subscription, message: Message) -> dict[str, Any]:
    region = subscription.region
    if region is None:
        return {"matches": True, "kind": "anywhere"}
    if message.region is not None:
        return {"matches": region.meets(message.region), "kind": "area meets region"}
    assert message.point is not None  # noqa: S101 - a message has a point or an area
    place: dict[str, Any] = {
        "matches": region.contains(*message.point),
        "kind": "point in region",
        "point": message.point,
    }
    if isinstance(region, Circle):
        place |= {"distance_m": _metres(region.center, message.point), "radius_m": region.radius}
    return place


def _metres(one: tuple[float, float], other: tuple[float, float]) -> float:
    across = longitude_difference(one[0], other[0])
    half = haversine(one[1], other[1], one[1] - other[1], across)
    return 2.0 * EARTH_RADIUS_M * math.asin(math.sqrt(min(1.0, half)))


def _ranked(subscription: Subscription, message: Message, settings: Settings) -> dict[str, Any]:
    analyser, scorer, top = settings.analyser, settings.scorer(), subscription.top
    assert top is not None and subscription.point is not None  # noqa: S101, PT018 - by kind
    wanted = parse_bag(subscription.query or "", analyser)
    tokens = analyser.tokens(message.text)
    text: dict[str, Any] = {
        "matches": not set(wanted).isdisjoint(tokens),
        "terms": sorted(set(tokens)),
        "alternatives": [
            {"required": [each], "excluded": [], "having": [], "lacking": [], "found_by": "terms"}
            for each in _found(frozenset(wanted), frozenset(tokens))
        ],
    }
    if message.point is None:
        return {"matches": False, "text": text, "top": {"score": None}}
    query, bag = scorer.bag(wanted), scorer.bag(tokens)
    here, there, scale = subscription.point, message.point, top.scale
    score = scorer.score(top.alpha, query, here, bag, there, scale)
    parts: dict[str, Any] = {
        "score": score,
        "likeness": scorer.score(0.0, query, here, bag, there, scale),
        "k": top.k,
        "alpha": top.alpha,
    }
    if scale is None:
        distance = planar_distance(*here, *there)
        parts["distance_degrees"] = distance
        parts["nearness"] = 1.0 - distance / settings.diagonal
    else:
        metres = _metres(here, there)
        parts |= {"distance_m": metres, "scale_m": scale}
        parts["nearness"] = max(0.0, 1.0 - metres / scale)
    matches = score is not None
    if top.min_score is not None:
        parts["min_score"] = top.min_score
        matches = matches and score is not None and score >= top.min_score
    explained: dict[str, Any] = {"text": text, "top": parts}
    if subscription.filter is not None:
        explained["filter"] = _asked(subscription.filter, message, settings)
        matches = matches and explained["filter"]["matches"]
    if subscription.region is not None:
        explained["space"] = _place(subscription, message)
        matches = matches and explained["space"]["matches"]
    return {"matches": matches, **explained}
