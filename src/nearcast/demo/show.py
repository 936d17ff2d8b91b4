"""Runs the demo: a server on a free loopback port, the feed beside it, a browser if there is one."""

from __future__ import annotations

import os
import signal
import sys
import webbrowser
from collections.abc import Callable
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
from nearcast.server.run import bound, serve

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


def address(port: int) -> str:
    """The address of the map, with the visitor's subscriptions and the city in view."""
    names = ",".join(each["id"] for each in yours())
    return f"http://127.0.0.1:{port}/?yours={names}#{ZOOM}/{CENTRE[1]}/{CENTRE[0]}"


def run(plan: Plan, say: Callable[[str], None]) -> None:
    """Show the demo until Ctrl-C, or for as long as was asked; nothing of it is left behind."""
    set_up_logs("error")
    stop = Event()
    with TemporaryDirectory(prefix="nearcast-demo-") as folder, bound("127.0.0.1", plan.port) as door:
        port = door.getsockname()[1]
        say(f"Map: {address(port)}")
        config = Config(data=Path(folder), given=Given(_WINDOW, None, Box(*SPACE), None, None))
        worker = Thread(target=_work, args=(plan, port, say, stop), name="demo-feed", daemon=True)
        worker.start()
        if plan.browser and has_browser():
            webbrowser.open(address(port))
        try:
            serve(config, door)
        except KeyboardInterrupt:
            pass  # how a server ends that was told to
        finally:
            stop.set()
            worker.join()


def _work(plan: Plan, port: int, say: Callable[[str], None], stop: Event) -> None:
    """Feed the server, then end it; it was ended already if somebody pressed Ctrl-C."""
    clock = Timer(plan.duration_s, stop.set) if plan.duration_s is not None else None
    if clock is not None:
        clock.daemon = True
        clock.start()
    feed = None
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
            feed = Feed(client, say, stop, seed=plan.seed, on_land=shore())
            if feed.wait_until_ready():
                movers = feed.settle(plan.people, plan.movers)
                feed.stream(movers, plan.rate)
    except httpx.TransportError:
        pass  # the server has gone first
    finally:
        if clock is not None:
            clock.cancel()
        if feed is not None:
            say(f"Over: {feed.counts()}.")
        if not stop.is_set() or plan.duration_s is not None:
            stop.set()
            signal.raise_signal(signal.SIGINT)


def has_browser() -> bool:
    """Whether a window can be opened; a browser that takes over the terminal is no help."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
