"""Ids for those who bring none."""

from __future__ import annotations

from itertools import count
from secrets import token_hex

_START = token_hex(8)
_numbers = count()


def new_id(kind: str) -> str:
    """An id that nobody else has: a part drawn at the start of the process, and a number."""
    return f"{kind}-{_START}-{next(_numbers):x}"
