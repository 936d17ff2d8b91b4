"""Runs the demo: a server on a loopback port, the feed beside it, a browser if there is one."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread, Timer

import httpx

from nearcast.demo.city import CENTRE, SPACE, ZOOM, shore
from nearcast.demo.feed import Feed
from nearcast.demo.people import yours
from nearcast.engine.settings import Given
from nearcast.geo import Box
from nearcast.server.config import Config
from nearcast.server.logs import set_up_logs
from nearcast.server.run import Server, bound

_WINDOW = 2000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How large a demo, where, and for how long."""

    port: int = 0
    duration_s: float | None = None
    rate: float = 8.0
    people: int = 20_000
    movers: int = 240
    seed: int = 1
    browser: bool = True
    engine: str = "embedded"


def address(port: int, engine: str = "embedded") -> str:
    """The address of the map, with the visitor's subscriptions and the city in view."""
    known = [each for each in yours() if engine == "embedded" or "top" not in each]
    names = ",".join(each["id"] for each in known)
    return f"http://127.0.0.1:{port}/?yours={names}#{ZOOM}/{CENTRE[1]}/{CENTRE[0]}"


def run(plan: Plan, say: Callable[[str], None]) -> None:
    """Show the demo until Ctrl-C, or for as long as was asked; nothing of it is left behind."""
    set_up_logs("error")
    with (
        TemporaryDirectory(prefix="nearcast-demo-") as folder,
        bound("127.0.0.1", plan.port) as door,
    ):
        port = door.getsockname()[1]
        say(f"Map: {address(port, plan.engine)}")
        given = Given(window_count=_WINDOW, space=Box(*SPACE))
        server = Server(Config(data=Path(folder), given=given, engine=plan.engine))
        story = _Story(plan, port, say, server.stop)
        if plan.browser and has_browser():
            webbrowser.open(address(port, plan.engine))
        with suppress(KeyboardInterrupt):  # how a server ends that was told to with Ctrl-C
            server.run(sockets=[door])
        story.end()


class _Story(Thread):
    """Feeds the server from a thread of its own, for as long as there is time, then ends it."""

    def __init__(
        self, plan: Plan, port: int, say: Callable[[str], None], at_end: Callable[[], None]
    ) -> None:
        super().__init__(name="demo-feed", daemon=True)
        self._plan = plan
        self._port = port
        self._say = say
        self._at_end = at_end
        self._stop_asked = Event()
        self._failure: Exception | None = None
        self.start()

    def run(self) -> None:
        """Tell the story."""
        try:
            self._tell()
        except Exception as error:
            self._failure = error
        finally:
            self._at_end()

    def _tell(self) -> None:
        plan, address = self._plan, f"http://127.0.0.1:{self._port}"
        with httpx.Client(base_url=address, timeout=30, trust_env=False) as client:
            feed = Feed(
                client,
                self._say,
                self._stop_asked,
                seed=plan.seed,
                on_land=shore(),
                piped=plan.engine == "spark",
            )
            try:
                if feed.wait_until_ready():
                    self._start_clock()
                    feed.play(plan.people, plan.movers, plan.rate)
            except httpx.TransportError:
                pass  # the server has gone first
            except httpx.HTTPStatusError as error:
                if error.response.status_code != 503:  # it is about to go
                    raise
            self._say(f"Over: {feed.counts()}.")

    def _start_clock(self) -> None:
        """Count the time from when there is something to see: compiling may take a while."""
        if self._plan.duration_s is not None:
            clock = Timer(self._plan.duration_s, self._stop_asked.set)
            clock.daemon = True
            clock.start()

    def end(self) -> None:
        """Come to an end; what went wrong meanwhile is raised."""
        self._stop_asked.set()
        self.join()
        if self._failure is not None:
            raise self._failure


def has_browser() -> bool:
    """Whether a window can be opened; a browser that takes over the terminal is no help."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
