"""Subscriptions and results as the JSON of the API."""

from __future__ import annotations

from typing import Any

from nearcast.events import Message, Subscribe, Subscription, event_to_json
from nearcast.geo import Box


def subscription_to_json(subscription: Subscription) -> dict[str, Any]:
    """A subscription with the keys of the event log, without `op`."""
    fields = event_to_json(Subscribe(subscription))
    del fields["op"]
    return fields


def meets(thing: Subscription | Message, box: Box) -> bool:
    """Whether the place of a subscription or message shares a point with a box."""
    if thing.region is not None:
        return thing.region.meets(box)
    return thing.point is not None and box.contains(*thing.point)
