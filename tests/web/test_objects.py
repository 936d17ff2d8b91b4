"""The live map shows objects that report again, what they have besides, and who hears anywhere."""

from __future__ import annotations

from playwright.sync_api import expect

from served import Served
from watched import SYDNEY, Watched

BUS = {"id": "bus-7", "point": [151.21, -33.87], "ttl": 600, "properties": {"line": 333}}


def test_objects_that_move_and_subscriptions_without_a_region_or_a_query(
    site: Served, watch: Watched
) -> None:
    box = {"type": "Box", "bbox": [151.0, -34.0, 151.4, -33.7]}
    site.http.put("/v1/subscriptions/fence", json={"region": box})
    site.http.put("/v1/subscriptions/anywhere", json={"query": "line:333"})
    page = watch.open(f"{site.url}/?yours=fence,anywhere{SYDNEY}")
    expect(page.locator("#mine > li")).to_have_count(2)
    expect(page.locator("#mine")).to_contain_text("everything")
    expect(page.locator("#mine")).to_contain_text("anywhere")
    assert site.post("/v1/messages", BUS).json()["updates"] == 2
    rows = page.locator("#matches li.mine")
    expect(rows).to_have_count(2)
    expect(rows.first.locator(".properties")).to_have_text("line: 333")
    site.post("/v1/messages", BUS | {"point": [151.22, -33.87]})
    expect(page.locator("#matches li.change.mine")).to_have_count(2)
    expect(page.locator("#matches li.change").first).to_contain_text("again for")
    trails = page.locator("#effects")
    expect(trails).to_have_attribute("data-objects", "1")
    site.http.delete("/v1/messages/bus-7")
    expect(trails).to_have_attribute("data-objects", "0")
    expect(page.locator("#matches li.remove.mine")).to_have_count(2)
