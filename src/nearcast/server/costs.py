"""How much work an event is, in characters: what waits for it should not wait for long."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from unicodedata import normalize

from nearcast.events import Event, Publish, Subscribe

LEAST_COST = 64
"""Of an event without a text."""


def event_cost(event: Event) -> int:
    """The length of the text as the analyser sees it, at most.

    One character may stand for up to 18 of them: U+FDFA is a sentence. They are counted one by
    one, because it takes long to write them out.
    """
    match event:
        case Publish(message):
            text = message.text
        case Subscribe(subscription):
            text = f"{subscription.query or ''}{subscription.filter or ''}"
        case _:
            return LEAST_COST
    if text.isascii():
        return LEAST_COST + len(text)
    return LEAST_COST + sum(times * _length(letter) for letter, times in Counter(text).items())


@lru_cache(1 << 16)
def _length(letter: str) -> int:
    return len(normalize("NFKC", letter))
