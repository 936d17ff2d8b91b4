"""Bitmaps over terms that threads take and give back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from nearcast.index.verify import Bitmap, bitmap_for


class Bitmaps:
    """Keeps empty bitmaps: over a large vocabulary one is expensive to make."""

    def __init__(self) -> None:
        self._idle: list[Bitmap] = []

    @contextmanager
    def borrow(self, terms: int) -> Iterator[Bitmap]:
        """Lend an empty bitmap over `terms` terms that no other thread has; give it back empty."""
        bitmap = self._take(terms)
        yield bitmap
        self._idle.append(bitmap)  # one that a failure left marked does not come back

    def _take(self, terms: int) -> Bitmap:
        while self._idle:
            try:
                bitmap = self._idle.pop()
            except IndexError:  # another thread took the last one
                break
            if 64 * len(bitmap) > terms:
                return bitmap
        return bitmap_for(terms)
