"""Term weights for top-k, counted from the messages of an earlier event log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from nearcast.errors import SourceError
from nearcast.events import Publish, open_log
from nearcast.text import DEFAULT, Analyser, Vocabulary


def read_history(path: str | Path, analyser: Analyser = DEFAULT) -> Vocabulary:
    """Count in how many messages of a log each term occurs; other events are ignored.

    A file that `Vocabulary.save` wrote is loaded as it is.
    """
    if Vocabulary.is_saved(path):
        return Vocabulary.load(path)
    with open_log(path) as log:

        def documents() -> Iterator[frozenset[str]]:
            for record in log:
                if record.event is None:
                    raise SourceError(f"{log.name}:{record.line}: {record.error}")
                if isinstance(record.event, Publish):
                    yield analyser.terms(record.event.message.text)

        return Vocabulary.from_documents(documents())
