"""Events that have no effect, and why; among them what a pipeline does not know yet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nearcast.engine.order import FINE, IN_USE, NOT_YET, REFUSED, Rows, error_of
from nearcast.errors import NearcastError, NotOnSparkError
from nearcast.events import Event, Move, Publish, Retract, Subscribe, Subscription
from nearcast.events.reader import MOVE, RANKED
from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.text import Query


@dataclass
class Refusal:
    """An event that has no effect, and why."""

    row: int
    error: str


def refusals_in(rows: Rows, ids: Any, errors: dict[int, str]) -> list[Refusal]:
    """Say which rows have no effect; `errors` are those that were found when they were read."""
    refusals = []
    for row in np.flatnonzero(rows["verdict"] != FINE).tolist():
        verdict = rows["verdict"][row]
        if verdict == REFUSED:
            refusals.append(Refusal(row, errors[row]))
        elif verdict == IN_USE:
            refusals.append(Refusal(row, str(replaced())))
        elif verdict == NOT_YET:
            refusals.append(Refusal(row, str(_beside_top(int(rows["kind"][row])))))
        else:
            refusals.append(Refusal(row, str(error_of(rows[row], ids[row].as_py()))))
    return refusals


def check_event(event: Event) -> None:
    """Refuse an event with a field or a shape that the pipeline does not know."""
    feature = _unknown_in(event)
    if feature is not None:
        raise _not_known(feature)


def check_shape(region: Region) -> None:
    """Refuse a region of a shape that the pipeline does not know."""
    feature = _unknown_shape(region)
    if feature is not None:
        raise _not_known(feature)


def check_query(query: Query) -> None:
    """Refuse a query with operands that are more than terms."""
    for conjunct in query.conjuncts:
        if not conjunct.is_plain:
            operands = (*conjunct.having, *conjunct.lacking)
            written = operands[0].to_text() if operands else "*"
            raise _not_known(f"query: the operand {written}")


def replaced() -> NearcastError:
    """A message has the id of one that is active or in the window."""
    return _not_known("id: replacing a message", "give each message an id of its own")


def ends_in_window() -> NearcastError:
    """A message at a point has an end, while there are top-k subscriptions."""
    return _not_known("ttl: a message that ends, beside top-k subscriptions,")


def window_has_ends() -> NearcastError:
    """A top-k subscription comes while there are messages with an end in the window."""
    return _not_known("top: a top-k subscription, while the window has messages with ttl,")


def ranked_in_region() -> NearcastError:
    """A top-k subscription is to move to a region."""
    return _not_known("region: a top-k subscription in a region")


def _beside_top(kind: int) -> NearcastError:
    if kind == MOVE:
        return ranked_in_region()
    return window_has_ends() if kind == RANKED else ends_in_window()


def _not_known(feature: str, instead: str = "use the embedded engine") -> NearcastError:
    return NotOnSparkError(f"{feature} is not known to the pipeline on Spark yet; {instead}")


def _unknown_in(event: Event) -> str | None:
    """The first field of an event that the pipeline does not know, with what is meant by it."""
    match event:
        case Retract():
            return "op: retract"
        case Publish(message):
            if message.properties is not None:
                return "properties: a message with properties"
            if message.region is not None and not isinstance(message.region, Box):
                return f"region: a message over a {type(message.region).__name__}"
        case Subscribe(subscription):
            return _unknown_of(subscription)
        case Move(region=region, point=point, ttl=ttl):
            if ttl is not None:
                return "ttl: a subscription with ttl"
            if region is not None and point is not None:
                return "region: a top-k subscription in a region"
            return _unknown_shape(region)
    return None


def _unknown_of(subscription: Subscription) -> str | None:
    for name in ("meta", "ttl", "ops", "filter"):
        if getattr(subscription, name) is not None:
            return f"{name}: a subscription with {name}"
    top, region = subscription.top, subscription.region
    if top is not None:
        for name in ("scale", "min_score"):
            if getattr(top, name) is not None:
                return f"top.{name}: a top-k subscription with {name}"
        return None if region is None else "region: a top-k subscription in a region"
    for name in ("query", "region"):
        if getattr(subscription, name) is None:
            return f"{name}: a subscription without a {name}"
    return _unknown_shape(region)


def _unknown_shape(region: Region | None) -> str | None:
    if region is None or isinstance(region, Box | Circle | Polygon):
        return None
    return f"region: a {type(region).__name__}"
