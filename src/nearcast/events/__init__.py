"""The model: subscriptions, messages, updates, events, and the event log."""

from nearcast.events.bodies import LateBody
from nearcast.events.events import (
    Event,
    Move,
    Publish,
    Retract,
    Subscribe,
    Unsubscribe,
    event_from_json,
    event_to_json,
    message_from_json,
    subscription_from_json,
)
from nearcast.events.fields import UpdateOp
from nearcast.events.log import EventLog, Record, open_log
from nearcast.events.values import (
    Message,
    Point,
    Reached,
    Result,
    Subscription,
    Top,
    Update,
    as_top,
    in_order,
)
from nearcast.events.writer import EventWriter, open_writer

__all__ = [
    "Event",
    "EventLog",
    "EventWriter",
    "LateBody",
    "Message",
    "Move",
    "Point",
    "Publish",
    "Reached",
    "Record",
    "Result",
    "Retract",
    "Subscribe",
    "Subscription",
    "Top",
    "Unsubscribe",
    "Update",
    "UpdateOp",
    "as_top",
    "event_from_json",
    "event_to_json",
    "in_order",
    "message_from_json",
    "open_log",
    "open_writer",
    "subscription_from_json",
]
