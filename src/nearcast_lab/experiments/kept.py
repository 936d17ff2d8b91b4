"""Parts of an experiment in a file, so that one that takes hours can be stopped and go on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from nearcast.errors import InvalidValue, SourceError


class KeptParts:
    """Measures each part once: what is in the file already is taken from there.

    `about` says what the parts depend on, such as sizes and the seed; a file about something else
    is refused. Without a path nothing is kept.
    """

    def __init__(self, path: Path | None, about: dict[str, Any]) -> None:
        self._path = path
        self._about: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(about))
        self._parts: dict[str, Any] = {}
        if path is None or not path.exists():
            return
        try:
            read = msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, Any]])
            known, self._parts = read["about"], read["parts"]
        except (OSError, KeyError, msgspec.DecodeError) as error:
            raise SourceError(f"{path}: not a file of measured parts ({error})") from None
        if known != self._about:
            differing = (name for name, value in self._about.items() if known.get(name) != value)
            other = ", ".join(sorted(differing))
            raise InvalidValue("--resume", str(path), f"a file of the same {other}, or a new one")

    def part(self, name: str, measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Measure a part, or give what was measured; it must be made of what JSON knows."""
        if name not in self._parts:
            self._parts[name] = measure()
            if self._path is not None:
                written = self._path.with_name(f"{self._path.name}.new")
                kept = {"about": self._about, "parts": self._parts}
                written.write_bytes(msgspec.json.encode(kept))
                written.replace(self._path)
        found: dict[str, Any] = self._parts[name]
        return found
