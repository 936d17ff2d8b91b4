"""Numbers with their nouns, in the singular and in the plural."""

from __future__ import annotations


def counted(count: int, noun: str) -> str:
    """Write a number and what it counts.

    >>> counted(1, "update"), counted(2000, "update")
    ('1 update', '2,000 updates')
    """
    if count == 1:
        return f"1 {noun}"
    ending = "es" if noun.endswith(("s", "ch")) else "s"
    return f"{count:,} {noun}{ending}"
