"""A real browser that looks at a real server, both on this machine and nowhere else.

Debian's Chromium is enough (`apt install chromium`), and so is the one that
`playwright install chromium` fetches. Without any the tests are skipped, and say so.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from served import Served, serving
from watched import Watched, watched

PICTURES = Path(__file__).parents[2] / "out" / "pictures"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
# Root has no sandbox; the rest keeps Chromium from calling its makers, and draws without a GPU: the
# map by SwiftShader, and the page, which costs much less, not through it.
_ARGUMENTS = [
    "--no-sandbox",
    "--no-first-run",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
]


def _chromium(own: str) -> str | None:
    """Where a Chromium is: the one that is named, one that is installed, or Playwright's own."""
    named = os.environ.get("NEARCAST_CHROMIUM")
    installed = named or next(filter(None, map(shutil.which, _NAMES)), None)
    return installed or (own if Path(own).exists() else None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for a file of tests; its event loop must be gone when others start theirs."""
    with sync_playwright() as playwright:
        program = _chromium(playwright.chromium.executable_path)
        if program is None:
            pytest.skip("no Chromium here: 'apt install chromium' or 'playwright install chromium'")
        chromium = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture
def site() -> Iterator[Served]:
    """A server in memory, with a space in which a city is not a point."""
    with serving() as served:
        yield served


@pytest.fixture
def watch(browser: Browser, request: pytest.FixtureRequest) -> Iterator[Watched]:
    """Opens pages; whatever they complain of or ask others for fails the test."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    yield from watched(browser, PICTURES / f"{request.node.name}.png")
