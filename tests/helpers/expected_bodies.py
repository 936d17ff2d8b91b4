"""What updates carry besides, from a plain reading of the log: a second opinion for tests."""

from __future__ import annotations

from typing import Any

from nearcast.events import Event, Publish, Subscribe, Update
from nearcast.geo import region_to_json

Attached = tuple[dict[str, Any] | None, dict[str, Any] | None]
"""The body and the meta of an update."""


class ExpectedBodies:
    """Knows the latest message with each id, and the meta of each subscription."""

    def __init__(self) -> None:
        self.now = 0.0
        self.bodies: dict[str, dict[str, Any]] = {}
        self.metas: dict[str, Any] = {}

    def accept(self, event: Event) -> None:
        """Take note of an event that was accepted."""
        self.now = self.now if event.at is None else event.at
        match event:
            case Subscribe(subscription):
                self.metas[subscription.id] = subscription.meta
            case Publish(message):
                body: dict[str, Any] = {"at": self.now}
                if message.text:
                    body["text"] = message.text
                if message.point is not None:
                    body["point"] = list(message.point)
                if message.region is not None:
                    body["region"] = region_to_json(message.region)
                if message.properties is not None:
                    body["properties"] = message.properties
                if message.ttl > 0:
                    body["ttl"] = message.ttl
                self.bodies[message.id] = body

    def attached(self, op: str, subscription: str, message: str) -> Attached:
        """What an update of the latest event carries."""
        body = None if op == "remove" else self.bodies[message]
        return body, self.metas[subscription]

    def of(self, update: Update) -> Attached:
        """The same, of an update."""
        return self.attached(update.op, update.subscription, update.message)
