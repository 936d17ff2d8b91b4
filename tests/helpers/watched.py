"""Pages of a browser whose every request and complaint is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, Locator, Page, expect

from patience import PATIENCE_S

expect.set_options(timeout=1000 * PATIENCE_S)  # drawing without a GPU on a busy machine

SYDNEY = "#11/-33.87/151.2"


class Watched:
    """Opens pages of one browser, and keeps what they ask for and what they say."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self.pages: list[Page] = []
        self.hosts: set[str | None] = set()
        self.complaints: list[str] = []
        self.expected: set[str] = {"GPU stall"}  # parts of what may be said

    def open(
        self, url: str, *, size: tuple[int, int] = (900, 640), ready: bool = True, **options: Any
    ) -> Page:
        """Open a page in a window of its own, by default until it is connected."""
        viewport = {"width": size[0], "height": size[1]}
        context = self._browser.new_context(viewport=viewport, **options)  # type: ignore[arg-type]
        context.set_default_timeout(1000 * PATIENCE_S)
        page = context.new_page()
        page.on("request", lambda request: self.hosts.add(_host(request.url)))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", self._said)
        self.pages.append(page)
        page.goto(url)
        if ready:
            expect(page.locator("#status")).to_have_attribute("data-state", "live")
        return page

    def _said(self, message: Any) -> None:
        expected = any(part in message.text for part in self.expected)
        if message.type in ("error", "warning") and not expected:
            self.complaints.append(message.text)


def _host(url: str) -> str | None:
    parts = urlsplit(url)
    return None if parts.scheme in ("blob", "data") else parts.hostname


def watched(browser: Browser, picture: Path) -> Iterator[Watched]:
    """Watch pages; at the end take a picture of the last one, and fail if any misbehaved."""
    watch = Watched(browser)
    try:
        yield watch
        if watch.pages:
            watch.pages[-1].screenshot(path=picture)
    finally:
        for page in watch.pages:
            page.context.close()
    assert watch.hosts <= {"127.0.0.1", None}, watch.hosts
    assert not watch.complaints, watch.complaints


def drag(page: Page, start: tuple[int, int], end: tuple[int, int]) -> None:
    """Press, move in a few steps, let go."""
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move((start[0] + end[0]) / 2, (start[1] + end[1]) / 2)
    page.mouse.move(*end)
    page.mouse.up()


def lit(page: Page) -> Locator:
    """The canvas, once something on it has lit up."""
    return page.locator("#effects[data-lit]")
