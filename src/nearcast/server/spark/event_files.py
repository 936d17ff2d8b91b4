"""Files of events for the pipeline, named after the number of their first event.

A file is complete and flushed before its events are acknowledged. So after a crash the engine
is repaired from these files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from nearcast.events import Event, event_from_json, event_to_json

_ENDING = ".jsonl"


class EventFiles:
    """The folder that a pipeline reads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for unfinished in folder.glob(".*.new"):
            unfinished.unlink()

    def write(self, first: int, events: Sequence[Event]) -> None:
        """Write events, the first of which has the number `first`."""
        lines = [msgspec.json.encode(event_to_json(event)) for event in events]
        fresh = self._folder / f".{first:015}.new"
        with fresh.open("wb") as file:
            file.write(b"\n".join([*lines, b""]))
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(self._folder / f"{first:015}{_ENDING}")
        descriptor = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def after(self, seq: int) -> Iterator[tuple[int, Event]]:
        """Yield the events after `seq` in order, with their numbers."""
        numbers = self._numbers()
        for at, first in enumerate(numbers):
            following = numbers[at + 1] if at + 1 < len(numbers) else None
            if following is not None and following <= seq + 1:
                continue
            lines = (self._folder / f"{first:015}{_ENDING}").read_bytes().splitlines()
            for number, line in enumerate(lines, first):
                if number > seq:
                    yield number, event_from_json(msgspec.json.decode(line))

    def forget(self, seq: int) -> None:
        """Remove files whose events all have numbers up to `seq`."""
        numbers = self._numbers()
        for first, following in pairwise(numbers):
            if following > seq + 1:
                return
            (self._folder / f"{first:015}{_ENDING}").unlink(missing_ok=True)

    def _numbers(self) -> list[int]:
        found = (path.stem for path in self._folder.glob(f"*{_ENDING}"))
        return sorted(int(stem) for stem in found if stem.isdigit())
