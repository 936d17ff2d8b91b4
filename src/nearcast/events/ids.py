"""Ids for subscriptions and messages that are sent without one."""

from __future__ import annotations

from itertools import count
from secrets import token_hex

_START = token_hex(8)
_numbers = count()


def new_id(kind: str) -> str:
    """Return a unique id: a random part, drawn when the process starts, and a number."""
    return f"{kind}-{_START}-{next(_numbers):x}"
