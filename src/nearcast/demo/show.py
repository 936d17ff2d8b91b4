"""Runs the demo: a server on a loopback port, its feed, and a browser if there is one."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread, Timer
from time import monotonic

import httpx

from nearcast.demo.city import CENTRE, SPACE, ZOOM, shore
from nearcast.demo.feed import CityFeed
from nearcast.demo.people import yours
from nearcast.demo.spark_comparison import SparkComparison
from nearcast.engine.settings import GivenSettings
from nearcast.geo import Box
from nearcast.server.config import Config
from nearcast.server.logs import set_up_logs
from nearcast.server.run import Server, bound

_WINDOW = 2000


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """The options of a demo.

    With `beside`, the pipeline on Spark is started beside the embedded engine, once the command
    `install` has installed it, if there is one. `since` is when the command was started.
    """

    port: int = 0
    duration_s: float | None = None
    rate: float = 8.0
    people: int = 20_000
    movers: int = 240
    seed: int = 1
    browser: bool = True
    engine: str = "embedded"
    beside: bool = False
    install: str | None = None
    since: float = field(default_factory=monotonic)


def address(port: int, *, beside: bool = False) -> str:
    """The address of the map, with the visitor's subscriptions and the city in view."""
    names = ",".join(each["id"] for each in yours())
    asked = "&beside" if beside else ""
    return f"http://127.0.0.1:{port}/?yours={names}{asked}#{ZOOM}/{CENTRE[1]}/{CENTRE[0]}"


def run(plan: DemoOptions, say: Callable[[str], None]) -> None:
    """Run the demo until Ctrl-C, or for its duration; its files are removed at the end."""
    set_up_logs("error")
    with (
        TemporaryDirectory(prefix="nearcast-demo-") as folder,
        bound("127.0.0.1", plan.port) as listening,
    ):
        port = listening.getsockname()[1]
        page = address(port, beside=plan.beside)
        say(f"Map: {page}")
        given = GivenSettings(window_count=_WINDOW, space=Box(*SPACE))
        server = Server(Config(data=Path(folder), given=given, engine=plan.engine))
        beside = _watch(server, Path(folder), plan, say) if plan.beside else None
        feed = _FeedThread(plan, port, say, server.stop, beside)
        if plan.browser and has_browser():
            webbrowser.open(page)
        with suppress(KeyboardInterrupt):  # uvicorn raises it again after Ctrl-C
            server.run(sockets=[listening])
        if beside is not None:
            beside.end()
        feed.end()


def _watch(
    server: Server, folder: Path, plan: DemoOptions, say: Callable[[str], None]
) -> SparkComparison:
    beside = SparkComparison(folder / "beside", plan.install, say, plan.since)
    beside.watch(server.application, server.state)
    return beside


class _FeedThread(Thread):
    """Feeds the server for the duration of the demo, then stops it."""

    def __init__(
        self,
        plan: DemoOptions,
        port: int,
        say: Callable[[str], None],
        at_end: Callable[[], None],
        beside: SparkComparison | None,
    ) -> None:
        super().__init__(name="demo-feed", daemon=True)
        self._plan = plan
        self._port = port
        self._say = say
        self._at_end = at_end
        self._beside = beside
        self._stop_asked = Event()
        self._failure: Exception | None = None
        self.start()

    def run(self) -> None:
        """Feed the server, and stop it in the end."""
        try:
            self._feed()
        except Exception as error:
            self._failure = error
        finally:
            self._at_end()

    def _feed(self) -> None:
        plan, address = self._plan, f"http://127.0.0.1:{self._port}"
        with httpx.Client(base_url=address, timeout=30, trust_env=False) as client:
            feed = CityFeed(
                client,
                self._say,
                self._stop_asked,
                seed=plan.seed,
                on_land=shore(),
                piped=plan.engine == "spark",
                since=plan.since,
                beside=self._compared,
            )
            try:
                if feed.wait_until_ready():
                    self._start_clock()
                    feed.play(plan.people, plan.movers, plan.rate)
            except httpx.TransportError:
                pass  # the server stopped first
            except httpx.HTTPStatusError as error:
                if error.response.status_code != 503:  # it is stopping
                    raise
            self._say(f"Over: {feed.counts()}.{self._compared()}")

    def _compared(self) -> str:
        return "" if self._beside is None else f" Spark beside: {self._beside.in_words()}."

    def _start_clock(self) -> None:
        """Count the time from when there is something to see: compiling may take a while."""
        if self._plan.duration_s is not None:
            clock = Timer(self._plan.duration_s, self._stop_asked.set)
            clock.daemon = True
            clock.start()

    def end(self) -> None:
        """Stop the feed, and raise the error that ended it, if any."""
        self._stop_asked.set()
        self.join()
        if self._failure is not None:
            raise self._failure


def has_browser() -> bool:
    """Whether a browser window can be opened; a browser in the terminal does not count."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
