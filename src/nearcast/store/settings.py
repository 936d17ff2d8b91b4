"""The settings of an engine, kept in its file: they decide what its state means."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nearcast.engine.settings import GivenSettings, Settings
from nearcast.errors import StoreError
from nearcast.geo import Box
from nearcast.store.connect import reading_file
from nearcast.text import Analyser, Vocabulary
from nearcast.topk import Window


def settle(path: Path, connection: sqlite3.Connection, given: GivenSettings) -> Settings:
    """The settings of the file, if those given agree; a new file gets those given."""
    found = dict(connection.execute("SELECT key, value FROM about").fetchall())
    if "settings" not in found:
        settings = given.settings()
        history = _history_bytes(settings.history)
        rows = [("settings", json.dumps(_described(settings))), ("history", history)]
        connection.executemany("INSERT INTO about VALUES (?, ?)", rows)
        return settings
    with reading_file(path):
        kept, history = json.loads(found["settings"]), found["history"]
        settings = _settings(kept, history)
    _compare(path, kept, history, given)
    return settings


def _described(settings: Settings) -> dict[str, Any]:
    space, analyser = settings.space, settings.analyser
    return {
        "window_count": settings.window.count,
        "window_seconds": settings.window.seconds,
        "space": [space.west, space.south, space.east, space.north],
        "stemmer": analyser.stemmer,
        "stop_words": sorted(analyser.stop_words),
        "cjk": analyser.cjk,
    }


def _settings(kept: dict[str, Any], history: bytes | None) -> Settings:
    return Settings(
        Window(kept["window_count"], kept["window_seconds"]),
        Box(*kept["space"]),
        _history(history),
        Analyser(kept["stemmer"], kept["stop_words"], _cjk(kept)),
    )


def _cjk(kept: dict[str, Any]) -> bool:
    return bool(kept.get("cjk"))  # which files of versions 1 and 2 do not have


def _compare(path: Path, kept: dict[str, Any], history: bytes | None, given: GivenSettings) -> None:
    """Refuse settings that differ from those of the file; settings not given are not compared."""
    said: dict[str, Any] = {}
    described = _described(given.settings())
    if given.window_count is not None or given.window_seconds is not None:
        said |= {name: described[name] for name in ("window_count", "window_seconds")}
    if given.space is not None:
        said["space"] = described["space"]
    if given.analyser is not None:
        said |= {name: described[name] for name in ("stemmer", "stop_words", "cjk")}
    kept = kept | {"cjk": _cjk(kept)}
    for name, value in said.items():
        if value != kept[name]:
            raise _disagreement(path, name, _shown(kept[name]), _shown(value))
    if given.history is not None:
        before = _history(history)
        if before is None or _counts(before) != _counts(given.history):
            raise _disagreement(path, "history", _about(before), _about(given.history))


def _disagreement(path: Path, name: str, kept: str, given: str) -> StoreError:
    return StoreError(
        f"{path}: was made with {name} {kept}, opened with {given}; leave it out to use that of "
        "the file, or make another file"
    )


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _counts(history: Vocabulary) -> tuple[int, dict[str, int]]:
    terms = (history.term(number) for number in range(len(history)))
    counts = {term: history.document_frequency(term) for term in terms}
    return history.documents, {term: count for term, count in counts.items() if count}


def _about(history: Vocabulary | None) -> str:
    if history is None:
        return "none"
    documents, counts = _counts(history)
    return f"of {documents} messages and {len(counts)} terms"


def _history_bytes(history: Vocabulary | None) -> bytes | None:
    if history is None:
        return None
    with TemporaryDirectory() as folder:
        file = Path(folder) / "history"
        history.save(file)
        return file.read_bytes()


def _history(kept: bytes | None) -> Vocabulary | None:
    if kept is None:
        return None
    with TemporaryDirectory() as folder:
        file = Path(folder) / "history"
        file.write_bytes(kept)
        return Vocabulary.load(file)
