"""The map says how far the pipeline beside a server is, and shows a difference in red."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from nearcast.demo.spark_comparison import SparkComparison
from nearcast.server.spark.engine import Row
from served import IPAD, SALE, Served
from watched import SYDNEY, Watched


class Played:
    """A server, the page that looks at it, and a pipeline whose steps the test plays."""

    def __init__(self, site: Served, folder: Path) -> None:
        self.site = site
        self.now = 0.0
        self.beside = SparkComparison(folder, None, print, 0.0, lambda: self.now)
        self.beside.watch(site.server.application, site.state)
        site.post("/v1/subscriptions", {"id": "a", **IPAD})

    def publish(self, id: str) -> None:
        self.site.post("/v1/messages", {"id": id, **SALE})

    def step(self, rows: list[Row], seq: int) -> None:
        self.beside.take(rows)
        self.beside.settle(seq)


@pytest.fixture
def played(site: Served, tmp_path: Path) -> Played:
    return Played(site, tmp_path)


def colour(page: Page, id: str) -> Any:
    return page.evaluate(f"getComputedStyle(document.getElementById('{id}')).color")


@pytest.mark.parametrize("size", [(1280, 800), (400, 800)])
def test_the_page_follows_the_pipeline_beside(
    played: Played, watch: Watched, size: tuple[int, int]
) -> None:
    page = watch.open(f"{played.site.url}/?beside{SYDNEY}", size=size)
    place, state = page.locator("#beside"), page.locator("#beside-state")
    expect(state).to_have_text("Spark starts on the same events")
    expect(page.locator("#beside-counts")).to_be_hidden()

    played.publish("m")
    played.now += 12
    played.step([], 1)
    expect(state).to_have_text("Spark is catching up, 1 event (12 s) behind")
    expect(place).to_have_attribute("data-state", "behind")
    played.step([(1, "add", "a", "m", None, None)], 2)
    expect(place).to_have_attribute("data-state", "level")
    expect(state).to_have_text(re.compile(r"^Spark has caught up \(\d+\.\d s behind\)$"))
    expect(page.locator("#beside-counts")).to_have_text("1 update from both engines, 0 differ")
    good = colour(page, "beside-differ")

    played.publish("n")
    played.step([], 3)
    expect(place).to_have_attribute("data-state", "differ")
    expect(page.locator("#beside-counts")).to_have_text(
        "1 update from both engines, 1 differ event 3: only the embedded engine has add n for a"
    )
    assert colour(page, "beside-differ") != good
    assert colour(page, "beside-counts") == colour(page, "beside-differ")


def test_a_server_without_a_pipeline_beside_is_not_asked_for_one(
    site: Served, watch: Watched
) -> None:
    page = watch.open(f"{site.url}/{SYDNEY}")
    expect(page.locator("#beside")).to_be_hidden()
