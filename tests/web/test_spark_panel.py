"""The map shows a pipeline behind its server: how far it is, its plan, and its workers."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from axe import violations
from nearcast.engine.settings import Settings
from nearcast.geo import Box
from nearcast.server.keys import DEFAULT
from nearcast.server.spark.folders import PipelineFolders
from nearcast.server.spark.progress import PipelineProgress
from served import IPAD, SALE, Served
from small_pipeline import Small, churn, write_events
from watched import SYDNEY, Watched

PICTURES = Path(__file__).parents[2] / "out" / "pictures"


def test_workers_lag_and_plan_are_shown(
    site: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, watch: Watched
) -> None:
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    small = Small(tmp_path, Settings(space=Box(-30, -15, 30, 15)))
    small.partitioner, small.workers, small.step_rows = "space-kd", 4, 1000
    paths = write_events(tmp_path / "in", churn(160, seed=4), 2, 100)
    tenant = site.state.tenants.find(DEFAULT)
    assert tenant is not None
    folders = PipelineFolders(*(tmp_path / name for name in ("in", "state", "out", "refused")))
    now, settled = 0.0, 0
    tenant.progress = PipelineProgress(folders, tenant.accepted, lambda: settled, lambda: now)
    assert site.http.get("/v1/map/pipeline").json()["pipeline"] == {
        "state": "starting", "behind_events": 0, "behind_s": 0.0,
        "batch": None, "plan": None, "workers": [],
    }  # fmt: skip
    page = watch.open(f"{site.url}/{SYDNEY}", size=(1280, 800))
    expect(page.locator("#spark-state")).to_have_text("Spark is starting")
    expect(page.locator("#spark-more")).to_be_hidden()

    feed = small.open()
    for batch in (0, 1):
        small.take(feed, batch, [paths[batch]])
    expect(page.locator("#spark")).to_have_attribute("data-state", "level")
    expect(page.locator("#spark-state")).to_have_text("Spark is level")
    expect(page.locator("#spark-plan")).to_contain_text("4 workers, plan 1 (space-kd), batch 2 in ")
    rows = page.locator("#spark-workers tr")
    expect(rows).to_have_count(4)
    told = site.http.get("/v1/map/pipeline").json()["pipeline"]
    reports = feed.pipeline.state
    assert told["plan"] == {
        "number": reports.plans()[-1], "partitioner": "space-kd", "kind": "grid", "workers": 4
    }  # fmt: skip
    for row, worker in zip(rows.all(), told["workers"], strict=True):
        expect(row.locator("td").nth(2)).to_have_text(f"{worker['rows']:,}")
    expect(page.locator("#spark-balance")).to_contain_text(
        f"{told['batch']['events']} events, {told['batch']['updates']} updates"
    )
    assert sum(worker["rows"] for worker in told["workers"]) > 0

    site.http.put("/v1/subscriptions/a", json=IPAD)
    now = 60.0
    site.post("/v1/messages", SALE)
    now = 72.0
    expect(page.locator("#spark-state")).to_have_text("Spark is 2 events behind (72 s)")
    expect(page.locator("#spark")).to_have_attribute("data-state", "behind")
    settled = 1
    expect(page.locator("#spark-state")).to_have_text("Spark is 1 event behind (12 s)")
    page.add_style_tag(content="* { animation: none !important; transition: none !important; }")
    assert violations(page) == []
    page.screenshot(path=PICTURES / "spark.png")
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    assert violations(page) == []
    page.screenshot(path=PICTURES / "spark-phone-dark.png")


def test_a_server_without_a_pipeline_is_asked_once(site: Served, watch: Watched) -> None:
    assert site.http.get("/v1/map/pipeline").json() == {"pipeline": None}
    page = watch.open(f"{site.url}/{SYDNEY}")
    page.wait_for_function(
        "() => performance.getEntriesByName(location.origin + '/v1/map/pipeline').length"
    )
    expect(page.locator("#spark")).to_be_hidden()
