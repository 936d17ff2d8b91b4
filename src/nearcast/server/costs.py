"""How much work an event is, in characters: what waits for it should not wait for long."""

from __future__ import annotations

from unicodedata import normalize

from nearcast.events import Event, Publish, Subscribe

_LEAST = 64  # an event without a text is some work too


def event_cost(event: Event) -> int:
    """The length of the text as the analyser sees it.

    One character may stand for up to 18 of them: U+FDFA is a sentence.
    """
    match event:
        case Publish(message):
            text = message.text
        case Subscribe(subscription):
            text = f"{subscription.query or ''}{subscription.filter or ''}"
        case _:
            return _LEAST
    if not text.isascii():
        text = normalize("NFKC", text)
    return _LEAST + len(text)
