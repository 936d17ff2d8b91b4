"""The journal of an engine: its log of updates and, if it is durable, its stored state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from nearcast.engine.changes import EngineChanges
from nearcast.engine.update_log import RECENT, RecentUpdates, UpdateLog
from nearcast.errors import StateError

if TYPE_CHECKING:
    from nearcast.engine.core import EventCore
    from nearcast.engine.settings import Settings

Clock = Callable[[], float]
KEYS_FOR = 86_400.0
"""For how many seconds answers under idempotency keys are stored."""


class Journal(Protocol):
    """Stores the changes of an engine, those of each call atomically."""

    settings: Settings
    seq: int
    """The number of the latest event that was accepted."""
    heals: bool
    """Whether `restore` can bring back the state of the latest commit."""

    @property
    def log(self) -> UpdateLog:
        """The updates so far."""
        ...

    def size(self) -> tuple[int, int]:
        """About how many subscriptions and messages `restore` would bring back."""
        ...

    def restore(self, core: EventCore) -> None:
        """Bring an engine's core, which is empty, to the state of the latest commit."""
        ...

    def commit(self, core: EventCore, changes: EngineChanges, answers: Mapping[str, bytes]) -> None:
        """Store the changes of a call, and the answers that belong to it."""
        ...

    def remember(self, key: str, answer: bytes, at: float | None) -> None:
        """Store an answer under an idempotency key."""
        ...

    def recall(self, key: str) -> bytes | None:
        """The answer under a key, for a day."""
        ...

    def stored_bytes(self) -> int:
        """How many bytes of a file are in use."""
        ...

    def frees_by(self, at: float) -> bool:
        """Whether the commit of an event of that time would remove something."""
        ...

    def backup(self, path: str | Path) -> None:
        """Write a copy of the state of the latest commit."""
        ...

    def close(self, core: EventCore | None) -> None:
        """Close the journal; `core` has the state of the latest commit, unless it is None."""
        ...


class MemoryJournal:
    """Keeps only the latest updates, in memory."""

    heals = False

    def __init__(self, settings: Settings, clock: Clock, retain_updates: int | None) -> None:
        self.settings = settings
        self.seq = 0
        self.log = RecentUpdates(RECENT if retain_updates is None else retain_updates)
        self._clock = clock
        self._answers: dict[str, tuple[float, bytes]] = {}

    def size(self) -> tuple[int, int]:
        """Do nothing: no state is stored."""
        return 0, 0

    def restore(self, core: EventCore) -> None:
        """Do nothing: no state is stored."""

    def commit(self, core: EventCore, changes: EngineChanges, answers: Mapping[str, bytes]) -> None:
        """Add the updates to the log."""
        del core
        self.seq = changes.seq
        if changes.updates:
            self.log.append(changes.updates)
        for key, answer in answers.items():
            self.remember(key, answer, None)

    def remember(self, key: str, answer: bytes, at: float | None) -> None:
        """Store an answer under an idempotency key."""
        now = self._clock() if at is None else at
        self._answers[key] = (now, answer)
        for old, (made, _) in list(self._answers.items()):  # oldest first
            if made > now - KEYS_FOR:
                break
            del self._answers[old]

    def recall(self, key: str) -> bytes | None:
        """The answer under a key, for a day."""
        made, answer = self._answers.get(key, (0.0, None))
        return answer if made > self._clock() - KEYS_FOR else None

    def stored_bytes(self) -> int:
        """Nothing: there is no file."""
        return 0

    def frees_by(self, at: float) -> bool:
        """Nothing is freed: there is no file."""
        del at
        return False

    def backup(self, path: str | Path) -> None:
        """Refuse: there is no file to copy."""
        raise StateError(
            f"{path}: this engine is in memory and has no file to copy; make it with path=..."
        )

    def close(self, core: EventCore | None) -> None:
        """Do nothing: no file is open."""
