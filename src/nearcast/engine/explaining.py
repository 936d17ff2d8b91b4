"""Why a message matches a subscription or does not, and how a query is read."""

from __future__ import annotations

import math
from typing import Any

from nearcast.engine.settings import Settings
from nearcast.events import Message, Subscription
from nearcast.geo import EARTH_RADIUS_M, Circle, planar_distance
from nearcast.geo.predicates import haversine, longitude_difference
from nearcast.text import (
    EVERYTHING,
    NO_CONTENT,
    Analyser,
    Conjunct,
    Content,
    Equals,
    Operand,
    Phrase,
    Prefix,
    Within,
    hints,
    parse_bag,
    parse_expression,
    parse_query,
)
from nearcast.text.keys import is_found_by_range

TERMS, RANGE, PROPERTY, PLACE = "terms", "range", "property", "place"
"""What an index finds an alternative of a query by."""


def found_by(alternative: Conjunct) -> str:
    """What an index finds an alternative by: the rarest of its terms and of what is like a term.

    Without one, ranges of numbers narrow it down, or all messages that have some property are
    looked at, or all that are near.
    """
    if is_found_by_range(alternative):
        return RANGE
    exact = (Prefix, Phrase, Equals)
    if alternative.required or any(isinstance(each, exact) for each in alternative.having):
        return TERMS
    return PROPERTY if alternative.having else PLACE


def explain_query(text: str, analyser: Analyser) -> dict[str, Any]:
    """Say how a query is read: its operators, and what each of its alternatives asks for."""
    return {
        "query": text,
        "reads": parse_expression(text, analyser).to_text(),
        "alternatives": [_alternative(each) for each in parse_query(text, analyser).conjuncts],
        "hints": list(hints(text)),
    }


def explain_match(
    subscription: Subscription, message: Message, settings: Settings
) -> dict[str, Any]:
    """Say why a message matches a subscription or does not, and what its score is made of."""
    return (_ranked if subscription.top else _boolean)(subscription, message, settings)


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
        "alternatives": [_alternative(each, terms, content) for each in query.conjuncts],
    }


def _alternative(
    asked: Conjunct, terms: frozenset[str] | None = None, content: Content = NO_CONTENT
) -> dict[str, Any]:
    """What an alternative asks for and is found by; of a message, also what of it is there."""
    by = found_by(asked)
    return {
        "required": _terms(asked.required, terms),
        "excluded": _terms(asked.excluded, terms),
        "having": _operands(asked.having, terms, content),
        "lacking": _operands(asked.lacking, terms, content),
        "found_by": by,
        "rarest_of": [*sorted(asked.required), *(_key(one, by) for one in asked.having)],
    }


def _terms(wanted: frozenset[str], terms: frozenset[str] | None) -> list[dict[str, Any]]:
    if terms is None:
        return [{"term": term} for term in sorted(wanted)]
    return [{"term": term, "found": term in terms} for term in sorted(wanted)]


def _operands(
    operands: tuple[Operand, ...], terms: frozenset[str] | None, content: Content
) -> list[dict[str, Any]]:
    said: list[dict[str, Any]] = []
    for one in operands:
        said.append({"operand": one.to_text(), "means": one.in_words()})
        if terms is not None:
            said[-1]["holds"] = one.holds(content)
    return said


def _key(operand: Operand, by: str) -> str:
    """What an index looks for in messages to find who asks for an operand."""
    if isinstance(operand, Within) and by != RANGE:
        return f"{operand.name}:*"
    return operand.to_text()


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
    terms = frozenset(tokens)
    text: dict[str, Any] = {
        "matches": not terms.isdisjoint(wanted),
        "terms": sorted(terms),
        "alternatives": [_alternative(Conjunct(frozenset([term])), terms) for term in wanted],
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
