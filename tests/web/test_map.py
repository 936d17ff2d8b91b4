"""The live map as a person uses it: draw, type, subscribe, and see what comes."""

from __future__ import annotations

import json
import math
import re

import pytest
from playwright.sync_api import expect

from served import Served
from watched import SYDNEY, Watched, drag, lit

METRES = 2 * math.pi * 6371008.8 * math.cos(math.radians(33.87)) / (512 * 2**11)
"""How much a pixel shows at zoom 11 in Sydney."""


def subscriptions(site: Served) -> list[dict[str, object]]:
    found: list[dict[str, object]] = site.http.get("/v1/subscriptions").json()["subscriptions"]
    return found


def test_a_drawn_region_gets_a_match_that_lights_up_and_is_listed(
    site: Served, watch: Watched
) -> None:
    page = watch.open(f"{site.url}/{SYDNEY}")
    page.get_by_role("button", name="Draw").click()
    drag(page, (640, 320), (720, 320))
    expect(page.locator("#where-says")).to_have_text(
        re.compile(r"^Shown on the map: radius 2\.\d+ km, 20 km²\.$")
    )

    query = page.get_by_label("What do you want to hear about?")
    query.press_sequentially("pizza AND")
    says = page.locator("#query-says")
    expect(says).to_contain_text("Character 7: AND without a term after it")
    expect(says.locator("mark")).to_have_text("AND")
    expect(query).to_have_attribute("aria-invalid", "true")
    query.press_sequentially(" (cheap OR free)")
    expect(says).to_have_text("Understood: pizza AND (cheap OR free)")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.locator("#mine > li")).to_contain_text("pizza AND (cheap OR free)")

    (made,) = subscriptions(site)
    assert made["query"] == "pizza AND (cheap OR free)"
    region = made["region"]
    assert isinstance(region, dict)
    assert region["type"] == "Circle"
    assert region["radius"] == pytest.approx(80 * METRES, rel=0.01)

    answer = site.post("/v1/messages", {"text": "Cheap pizza!", "point": region["center"]})
    assert answer.json()["updates"] == 1
    row = page.locator("#matches li.mine")
    expect(row).to_contain_text("Cheap pizza!")
    expect(row).to_contain_text("pizza AND (cheap OR free)")
    expect(row.locator("time")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))
    expect(lit(page)).to_have_attribute("data-lit", "1")
    expect(page.locator("#mine .heard")).to_have_text("1 heard")
    expect(page.locator("#spoken")).to_contain_text("Cheap pizza!")


@pytest.mark.parametrize("shape", ["Box", "Polygon"])
def test_boxes_and_polygons_are_what_was_drawn(site: Served, watch: Watched, shape: str) -> None:
    page = watch.open(f"{site.url}/{SYDNEY}")
    page.get_by_role("radio", name=shape).check()
    page.get_by_role("button", name="Draw").click()
    if shape == "Box":
        drag(page, (600, 300), (700, 380))
    else:
        for corner in ((600, 300), (700, 300), (700, 380)):
            page.mouse.click(*corner)
        page.mouse.dblclick(600, 380)
    page.get_by_label("What do you want to hear about?").fill("storm")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.locator("#mine > li")).to_have_count(1)
    (made,) = subscriptions(site)
    region = made["region"]
    assert isinstance(region, dict)
    if shape == "Box":
        west, south, east, north = region["bbox"]
    else:
        (ring,) = region["coordinates"]
        assert len(ring) == 5
        assert ring[0] == ring[-1]
        west, south = (min(point[axis] for point in ring) for axis in (0, 1))
        east, north = (max(point[axis] for point in ring) for axis in (0, 1))
    degree = 2 * math.pi * 6371008.8 / 360
    assert (north - south) * degree == pytest.approx(80 * METRES, rel=0.01)
    assert (east - west) * degree * math.cos(math.radians(33.87)) == pytest.approx(
        100 * METRES, rel=0.01
    )


def test_several_polygons_are_drawn_one_after_the_other(site: Served, watch: Watched) -> None:
    """Each is added to those before it, also as numbers; Escape leaves these as they are."""
    page = watch.open(f"{site.url}/{SYDNEY}")
    page.get_by_role("radio", name="Polygon").check()
    add, said = page.get_by_role("button", name="Add a polygon"), page.locator("#where-says")
    expect(add).to_have_count(0)
    for count, left in enumerate((560, 660, 760), 1):
        (page.get_by_role("button", name="Draw") if count == 1 else add).click()
        for corner in ((left, 300), (left + 60, 300), (left, 360)):
            page.mouse.click(*corner)
        expect(page.locator("#hint")).to_have_text(re.compile(r"^\d+\.\d+ km²$"))
        if count == 3:
            page.keyboard.press("Escape")
        else:
            page.keyboard.press("Enter")
            expect(said).to_contain_text("2 polygons" if count == 2 else "Shown on the map")
    where = page.locator("#where")
    assert where.input_value().count(";") == 1
    where.fill(where.input_value() + "; 151.1 -33.9, 151.2 -33.9, 151.2 -33.8")
    expect(said).to_contain_text("3 polygons")
    page.get_by_label("What do you want to hear about?").fill("storm")
    page.get_by_role("button", name="Subscribe").click()
    expect(page.locator("#mine > li")).to_contain_text("in several polygons")
    expect(add).to_have_count(0)
    (made,) = subscriptions(site)
    region = made["region"]
    assert isinstance(region, dict)
    assert region["type"] == "MultiPolygon"
    assert [len(ring) for (ring,) in region["coordinates"]] == [4, 4, 4]


def test_everything_works_by_keyboard_with_a_region_in_numbers(
    site: Served, watch: Watched
) -> None:
    page = watch.open(f"{site.url}/{SYDNEY}")
    page.get_by_label("What do you want to hear about?").focus()
    page.keyboard.type("ferry")
    page.keyboard.press("Tab")  # to the shapes, which arrows go through
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("radio", name="Box")).to_be_checked()
    page.keyboard.press("Tab")
    where = page.get_by_label("Edges: west, south, east, north")
    expect(where).to_be_focused()
    page.keyboard.type("151.1, -33.7, 151.3")
    expect(page.locator("#where-says")).to_contain_text("3 of 4 numbers")
    page.keyboard.press("Enter")
    expect(where).to_be_focused()
    assert subscriptions(site) == []
    page.keyboard.type(", -33.9")
    expect(page.locator("#where-says")).to_contain_text("South is above north")
    where.fill("")
    page.keyboard.type("151.1, -33.9, 151.3, -33.7")
    page.keyboard.press("Enter")
    expect(page.locator("#mine > li")).to_contain_text("ferry")
    (made,) = subscriptions(site)
    assert made["region"] == {"type": "Box", "bbox": [151.1, -33.9, 151.3, -33.7]}

    page.get_by_role("button", name="Remove ferry").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#mine > li")).to_have_count(0)
    assert subscriptions(site) == []


def test_a_ranked_list_changes_as_better_messages_come(site: Served, watch: Watched) -> None:
    page = watch.open(f"{site.url}/{SYDNEY}")
    page.get_by_role("radio", name="Best few").check()
    query = page.get_by_label("What do you want to hear about?")
    query.fill("jazz OR blues")
    expect(page.locator("#query-says")).to_contain_text("'OR' in a top-k query")
    query.fill("jazz blues")
    page.get_by_label("How many").fill("2")
    page.get_by_role("button", name="Draw").click()
    page.mouse.click(640, 320)
    page.get_by_role("button", name="Subscribe").click()
    ranking = page.get_by_role("list", name="Best for jazz blues")
    expect(ranking).to_be_attached()
    (made,) = subscriptions(site)
    assert made["top"] == {"k": 2, "alpha": 0.5}

    point = made["point"]
    for text in ("jazz and much else besides tonight", "jazz tonight", "jazz blues"):
        site.post("/v1/messages", {"text": text, "point": point})
    rows = ranking.locator("li")
    expect(rows).to_have_count(2)
    expect(rows.nth(0)).to_contain_text("jazz blues")
    expect(rows.nth(1)).to_contain_text("jazz tonight")


def test_what_moves_on_the_server_moves_on_the_map(site: Served, watch: Watched) -> None:
    def put(lon: float) -> None:
        region = {"type": "Circle", "center": [lon, -33.87], "radius": 900}
        site.http.put("/v1/subscriptions/bus", json={"query": "delays", "region": region})

    put(151.18)
    page = watch.open(f"{site.url}/{SYDNEY}")
    expect(page.locator("#map")).to_have_attribute("data-outlines", "1")  # it knows the place
    put(151.2)
    expect(page.locator("#effects")).to_have_attribute("data-movers", "1")
    where = page.evaluate("() => nearcast.effects.where('bus').center[0]")
    assert 151.18 <= where <= 151.2


def test_the_results_of_a_mover_change_as_it_moves(site: Served, watch: Watched) -> None:
    """What comes into its range is listed, what leaves it too, and again when it comes back."""

    def region(lon: float) -> dict[str, object]:
        return {"type": "Circle", "center": [lon, -33.87], "radius": 900}

    def go(lon: float) -> None:
        answer = site.http.patch("/v1/subscriptions/walker", json={"region": region(lon)})
        assert answer.status_code == 200

    for id, lon in (("west", 151.18), ("east", 151.24)):
        message = {"id": id, "text": f"Coffee in the {id}", "point": [lon, -33.87], "ttl": 3600}
        site.post("/v1/messages", message)
    walker = {"query": "coffee", "region": region(151.21)}
    site.http.put("/v1/subscriptions/walker", json=walker)
    page = watch.open(f"{site.url}/?yours=walker{SYDNEY}")
    expect(page.locator("#mine > li")).to_contain_text("coffee")
    listed = page.locator("#matches li.mine")
    expect(listed).to_have_count(0)

    told: list[tuple[str, bool]] = []
    for lon, count in ((151.18, 1), (151.24, 3), (151.18, 5)):
        go(lon)
        expect(listed).to_have_count(count)
        rows = listed.all()[: count - len(told)]
        told += sorted(
            (row.get_attribute("class") or "", "west" in row.inner_text()) for row in rows
        )
        expect(page.locator("#mine .heard")).to_have_text(f"{count} heard")
        results = site.http.get("/v1/subscriptions/walker/results").json()["results"]
        assert [result["message"] for result in results] == ["west" if lon < 151.2 else "east"]
    came = [("add" in name, west) for name, west in told]
    assert came == [(True, True), (True, False), (False, True), (True, True), (False, False)]


def test_thousands_are_shown_as_a_crowd_and_close_up_one_by_one(
    site: Served, watch: Watched
) -> None:
    lines = [
        json.dumps(
            {
                "id": f"s{x}-{y}",
                "query": "rain",
                "region": {
                    "type": "Circle",
                    "center": [151 + x / 250, -34 + y / 250],
                    "radius": 99,
                },
            }
        )
        for x in range(80)
        for y in range(40)
    ]
    site.lines("/v1/subscriptions", "\n".join(lines))
    page = watch.open(f"{site.url}/#9.5/-33.9/151.15")
    expect(page.locator("#in-view")).to_have_text("3,200")
    world = page.locator("#map")
    expect(world).to_have_attribute("data-outlines", "0")
    expect(world).not_to_have_attribute("data-cells", "0")
    page.evaluate("() => nearcast.map.jumpTo({ center: [151.1, -33.9], zoom: 14 })")
    expect(world).to_have_attribute("data-cells", "0")
    expect(world).not_to_have_attribute("data-outlines", "0")
    site.post("/v1/messages", {"text": "rain", "point": [151.1, -33.9]})
    expect(lit(page)).to_have_attribute("data-lit", "1")
