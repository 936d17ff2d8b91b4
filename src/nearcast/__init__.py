"""Location-aware publish/subscribe: every message to exactly the people it concerns."""

from typing import TYPE_CHECKING, Any

from nearcast._version import __version__
from nearcast.engine import Engine
from nearcast.errors import NearcastError
from nearcast.events import Message, Result, Subscription, Top, Update
from nearcast.geo import Box, Circle, MultiPolygon, Polygon

if TYPE_CHECKING:
    from nearcast.client import AsyncClient, Client

__all__ = [
    "AsyncClient",
    "Box",
    "Circle",
    "Client",
    "Engine",
    "Message",
    "MultiPolygon",
    "NearcastError",
    "Polygon",
    "Result",
    "Subscription",
    "Top",
    "Update",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import the clients on first use: they need httpx, an optional dependency."""
    if name not in ("AsyncClient", "Client"):
        raise AttributeError(f"module 'nearcast' has no attribute {name!r}")
    try:
        from nearcast import client
    except ModuleNotFoundError as error:
        if error.name not in ("httpx", "httpx_sse"):
            raise
        from nearcast.errors import SetupError

        raise SetupError(
            f"{error.name}: is not installed; the clients need: pip install 'nearcast[client]'"
        ) from None
    return getattr(client, name)
