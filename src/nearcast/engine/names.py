"""The names of the indexes and rankings that an engine can have."""

from nearcast.errors import InvalidValue
from nearcast.index_names import INDEX_NAMES

RANKING_NAMES = ("auto", "skype")
"""What keeps the results of top-k subscriptions: `auto` is the core of `nearcast.topk`, `skype` the
system of the paper."""


def check_index(text: str, field: str = "index") -> None:
    """Refuse an index that an engine cannot have; its class is loaded only if it has options."""
    name, colon, _ = text.partition(":")
    if name not in INDEX_NAMES:
        raise InvalidValue(field, text, f"one of {', '.join(INDEX_NAMES)}")
    if colon and name in ("auto", "scan"):
        raise InvalidValue(field, text, f"{name} without options, since it has none")
    if colon:
        from nearcast.index import read_index

        read_index(text, field)
