"""The page of a stream on Spark shows cells that change hands while it is looked at."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from random import Random

import pytest
from playwright.sync_api import expect

from any_targets import any_target
from nearcast.engine.settings import Settings
from nearcast.geo import Box
from nearcast.server.stream_page import StreamPage
from small_pipeline import WORDS, Small, churn, write_events
from watched import Watched

PICTURES = Path(__file__).parents[2] / "out" / "pictures"


def test_a_move_is_seen_as_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: Watched
) -> None:
    """A few cells get a red border, and the move is listed; nothing else is asked for."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    small = Small(tmp_path, Settings(space=Box(-30, -15, 30, 15)))
    small.partitioner, small.workers, small.step_rows = "space-kd", 4, 1000
    paths = write_events(tmp_path / "in", churn(160, seed=4), 4, 100)
    feed = small.open()
    for batch in (0, 1):
        small.take(feed, batch, [paths[batch]])
    with closing(StreamPage(str(tmp_path / "state"))) as served:
        page = watch.open(f"http://127.0.0.1:{served.port}/", size=(1280, 760))
        expect(page.locator("#facts")).to_contain_text("4 workers, batch 2")
        expect(page.locator("#quiet")).to_be_visible()
        plan = feed.pipeline.history.plan
        assert plan is not None
        feed.pipeline.state.write_target(any_target(plan, Random(2), WORDS, workers=4))
        small.take(feed, 2, [paths[2]])
        expect(page.locator("#moves li")).to_have_count(1)
        expect(page.locator("#moves li")).to_contain_text("batch 3")
        expect(page.locator("#cells")).not_to_have_attribute("data-changed", "0")
        page.screenshot(path=PICTURES / "stream.png")
        watch.pages.remove(page)
        page.context.close()  # before there is nobody to ask any more
