"""What the live map has besides drawing: publishing, places, themes, lists, trails and links."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from axe import violations
from served import Served, serving
from watched import SYDNEY, Watched

STYLE = {
    "version": 8,
    "sources": {},
    "layers": [{"id": "streets", "type": "background", "paint": {"background-color": "#e8e8e8"}}],
}


def box(west: float, south: float, east: float, north: float) -> dict[str, object]:
    return {"type": "Box", "bbox": [west, south, east, north]}


def test_a_message_is_published_from_the_page(site: Served, watch: Watched) -> None:
    """Where it is said, with what it has besides; the answer says how many heard of it."""
    site.http.put("/v1/subscriptions/cheap", json={"query": "pizza AND price:<9"})
    page = watch.open(f"{site.url}/{SYDNEY}")
    page.get_by_role("tab", name="Subscribe").focus()
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", name="Publish")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_label("What do you want to hear about?")).to_be_hidden()
    page.get_by_label("What is the news?").fill("Pizza for everyone")
    page.get_by_role("button", name="Publish").click()
    says = page.locator("#publish-says")
    expect(says).to_have_text("Pick the point on the map, or type its numbers.")
    page.get_by_role("button", name="Pick").click()
    page.mouse.click(640, 320)
    expect(page.locator("#at")).to_have_value(re.compile(r"^151\.\d+, -33\.\d+$"))
    page.get_by_text("Lasting, moving, properties").click()
    page.get_by_label("Properties, as JSON").fill("price 5")
    page.get_by_role("button", name="Publish").click()
    expect(says).to_contain_text("Properties are a JSON object")
    page.get_by_label("Properties, as JSON").fill('{"price": 5}')
    page.get_by_label("Lasts, in seconds").fill("60")
    page.get_by_role("textbox", name="Id").fill("stall")
    page.get_by_role("button", name="Publish").click()
    expect(says).to_have_text("Published. 1 update.")
    stored = site.http.get("/v1/messages/stall").json()
    assert (stored["text"], stored["ttl"]) == ("Pizza for everyone", 60)
    assert stored["properties"] == {"price": 5}


def test_lists_are_filtered_and_show_what_matched_nobody(site: Served, watch: Watched) -> None:
    for number in range(20):
        site.http.put(f"/v1/subscriptions/s{number}", json={"query": "rain OR snow"})
    page = watch.open(f"{site.url}/{SYDNEY}")
    page.get_by_role("button", name="Unmatched").click()
    for text in ("Rain at noon", "Snow at night", "Sun all day"):
        site.post("/v1/messages", {"text": text, "point": [151.2, -33.87]})
    rows = page.locator("#matches li")
    expect(rows).to_have_count(3)
    expect(page.locator("#matches li.none")).to_contain_text("matched nobody")
    # more than can be drawn one by one: their number is shown instead, and a dozen of them
    expect(page.locator("#effects")).to_have_attribute("data-clusters", "20")
    expect(page.locator("#effects")).to_have_attribute("data-lit", "24")
    page.get_by_label("Filter the list").fill("NOON")
    expect(page.locator("#matches li:visible")).to_have_count(1)
    page.get_by_label("Filter the list").fill("hail")
    expect(page.locator("#matches-empty")).to_have_text("Nothing here has this in it.")


def test_it_opens_at_the_data_and_goes_where_one_wants(site: Served, watch: Watched) -> None:
    """Places by name; light or dark and the link are kept; a popup says what was clicked."""
    site.http.put(
        "/v1/subscriptions/fair", json={"query": "fair", "region": box(10, 50, 10.2, 50.1)}
    )
    page = watch.open(
        f"{site.url}/",
        permissions=["clipboard-read", "clipboard-write", "geolocation"],
        geolocation={"longitude": -70.67, "latitude": -33.45},
    )
    west, east = page.evaluate(
        "() => [nearcast.map.getBounds().getWest(), nearcast.map.getBounds().getEast()]"
    )
    assert 5 < west < 10
    assert 10.2 < east < 15

    expect(page.locator("#map")).to_have_attribute("data-outlines", "1")
    spot = page.evaluate("() => nearcast.map.project([10.1, 50.05])")
    page.wait_for_function(
        "([x, y]) => nearcast.map.queryRenderedFeatures([x, y], { layers: ['subs-fill'] }).length",
        arg=[spot["x"], spot["y"]],
    )
    page.mouse.click(spot["x"], spot["y"])
    popup = page.locator(".maplibregl-popup-content")
    expect(popup).to_contain_text("id fair")
    assert re.fullmatch(
        r"rgb\(\d+, \d+, \d+\)", popup.evaluate("(e) => getComputedStyle(e).backgroundColor")
    )
    middle = popup.bounding_box()
    assert middle is not None
    assert page.evaluate(
        "([x, y]) => document.elementFromPoint(x, y).closest('.maplibregl-popup-content') !== null",
        [middle["x"] + 20, middle["y"] + 10],
    )

    page.get_by_label("Go to a place").press_sequentially("sao pau")
    expect(page.get_by_role("option", name="São Paulo")).to_be_visible()
    page.keyboard.press("Enter")
    page.wait_for_function("() => Math.abs(nearcast.map.getCenter().lat + 23.5) < 1")

    page.get_by_role("button", name="Find my location").click()
    page.wait_for_function("() => Math.abs(nearcast.map.getCenter().lng + 70.67) < 0.5")

    assert page.evaluate("() => document.documentElement.dataset.theme") == "light"
    page.get_by_role("button", name="Light or dark").click()
    assert page.evaluate("() => getComputedStyle(document.body).color") == "rgb(234, 240, 248)"
    page.get_by_role("button", name="Copy a link to this view").click()
    expect(page.locator("#shared")).to_have_text("The link is copied.")
    assert "/-33." in page.evaluate("() => navigator.clipboard.readText()")
    page.reload()
    assert page.evaluate("() => document.documentElement.dataset.theme") == "dark"


def test_a_finger_draws(site: Served, watch: Watched) -> None:
    """Corner by corner, on a phone; the button ends the polygon."""
    page = watch.open(f"{site.url}/{SYDNEY}", size=(390, 844), has_touch=True)
    page.get_by_role("radio", name="Polygon").check(force=True)
    page.get_by_role("button", name="Draw").tap()
    for corner in ((100, 160), (200, 160), (200, 300)):
        page.touchscreen.tap(*corner)
    expect(page.locator("#hint")).to_have_text(re.compile(r"^\d+\.\d+ km²$"))
    page.get_by_role("button", name="Finish").tap()
    expect(page.locator("#where-says")).to_have_text(
        re.compile(r"^Shown on the map: \d+\.\d+ km²\.$")
    )


@pytest.mark.parametrize(("scheme", "size"), [("light", (1280, 800)), ("dark", (390, 844))])
def test_axe_finds_nothing(
    site: Served, watch: Watched, scheme: str, size: tuple[int, int]
) -> None:
    region = box(151.1, -33.9, 151.3, -33.8)
    site.http.put("/v1/subscriptions/fair", json={"query": "fair", "region": region})
    best = {"query": "fair", "point": [151.2, -33.87], "top": {"k": 3, "alpha": 0.5}}
    site.http.put("/v1/subscriptions/best", json=best)
    page = watch.open(
        f"{site.url}/?yours=fair,best{SYDNEY}", size=size, color_scheme=scheme, bypass_csp=True
    )
    site.post("/v1/messages", {"text": "A fair", "point": [151.2, -33.87]})
    expect(page.locator("#matches li.mine")).to_have_count(2)
    # what fades in has other colours meanwhile
    page.add_style_tag(content="* { animation: none !important; transition: none !important; }")
    assert violations(page) == []
    page.get_by_role("tab", name="Publish").click()
    page.get_by_text("Lasting, moving, properties").click()
    page.get_by_label("Go to a place").fill("par")
    expect(page.get_by_role("option").first).to_be_visible()
    assert violations(page) == []


@pytest.fixture
def styled() -> Iterator[Served]:
    with serving(map_style="http://127.0.0.1:1/style.json") as served:
        yield served


def test_a_style_of_others_is_laid_under(styled: Served, watch: Watched) -> None:
    """Without it the shipped map is shown, and the page says so."""
    watch.expected |= {"ERR_CONNECTION", "net::"}
    policy = styled.http.get("/").headers["content-security-policy"]
    assert "connect-src 'self' https: http://127.0.0.1:1;" in policy
    page = watch.open(f"{styled.url}/{SYDNEY}")
    expect(page.locator("#shared")).to_contain_text("The map style cannot be loaded")
    assert page.evaluate("() => nearcast.map.getLayer('land-far') !== undefined")

    page = watch.open("about:blank", ready=False)
    page.route(
        "http://127.0.0.1:1/style.json",
        lambda route: route.fulfill(
            body=json.dumps(STYLE),
            content_type="application/json",
            headers={"access-control-allow-origin": "*"},
        ),
    )
    page.goto(f"{styled.url}/{SYDNEY}")
    expect(page.locator("#status")).to_have_attribute("data-state", "live")
    assert page.evaluate("() => nearcast.map.getLayer('streets') !== undefined")
    assert page.evaluate("() => nearcast.map.getLayer('land-far') === undefined")
    assert page.evaluate("() => nearcast.map.getLayer('mine-line') !== undefined")
