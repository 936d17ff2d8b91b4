"""Location-aware publish/subscribe: every message to exactly the people it concerns."""

from nearcast._version import __version__
from nearcast.engine import Engine
from nearcast.errors import NearcastError
from nearcast.geo import Box, Circle, Polygon
from nearcast.model import Message, Result, Subscription, Top, Update

__all__ = [
    "Box",
    "Circle",
    "Engine",
    "Message",
    "NearcastError",
    "Polygon",
    "Result",
    "Subscription",
    "Top",
    "Update",
    "__version__",
]
