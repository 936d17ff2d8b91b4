"""Location-aware publish/subscribe: every message to exactly the people it concerns."""

from nearcast._version import __version__

__all__ = ["__version__"]
