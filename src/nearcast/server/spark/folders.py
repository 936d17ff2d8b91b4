"""Where a tenant before Spark keeps what it shares with its pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class PipelineFolders(NamedTuple):
    """Folders below one: events that the pipeline reads, what it remembers, what it gives."""

    events: Path
    state: Path
    updates: Path
    refused: Path

    @classmethod
    def below(cls, folder: Path) -> PipelineFolders:
        """The folders of a tenant, made if they are new."""
        events = folder / "events"
        events.mkdir(parents=True, exist_ok=True)
        return cls(events, folder / "state", folder / "updates", folder / "refused")
