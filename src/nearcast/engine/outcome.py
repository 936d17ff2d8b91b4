"""The outcome of one event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from nearcast.errors import NearcastError
from nearcast.events import Update


class EventOutcome(NamedTuple):
    """The outcome of one event: its updates, or the `error` for which it was refused.

    `seq` is its number among all events this engine ever accepted, from 1, and None if it was
    refused. Its updates have the ids `first_id`, `first_id + 1`, ... in the engine's log.
    """

    seq: int | None
    error: NearcastError | None = None
    updates: Sequence[Update] = ()
    first_id: int = 0
