"""The folders that a tenant shares with its pipeline on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class PipelineFolders(NamedTuple):
    """The folders of a pipeline: its input, its state, its output, and refused events."""

    events: Path
    state: Path
    updates: Path
    refused: Path

    @classmethod
    def below(cls, folder: Path) -> PipelineFolders:
        """The folders below one; creates the folder of events."""
        events = folder / "events"
        events.mkdir(parents=True, exist_ok=True)
        return cls(events, folder / "state", folder / "updates", folder / "refused")
