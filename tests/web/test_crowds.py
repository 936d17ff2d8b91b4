"""A million subscriptions on the map: how they are shown, and what a second of matches costs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page, expect

from axe import violations
from crowds import HERE, serving_crowd
from served import Served
from watched import Watched

PICTURES = Path(__file__).parents[2] / "out" / "pictures"
MANY = 1_000_000
CITY = f"#10.3/{HERE[1]}/{HERE[0]}"
STREETS = f"#14.2/{HERE[1] + 0.06}/{HERE[0] + 0.09}"
DESKTOP, PHONE = (1280, 800), (390, 844)
QUIET = "* { animation: none !important; transition: none !important; }"


@pytest.fixture(scope="module")
def crowd() -> Iterator[Served]:
    with serving_crowd(MANY) as served:
        yield served


def keep(page: Page, name: str) -> None:
    """Take a picture when everything is drawn."""
    page.wait_for_function("() => nearcast.map.loaded()")
    page.screenshot(path=PICTURES / f"{name}.png")


def test_a_million_are_counts_in_cells_that_add_up(crowd: Served, watch: Watched) -> None:
    page = watch.open(f"{crowd.url}/#1/20/60", size=DESKTOP)
    page.add_style_tag(content=QUIET)
    expect(page.locator("#in-view")).to_have_text("1,000,000")
    expect(page.locator("#map")).to_have_attribute("data-outlines", "0")
    scale = page.locator("#scale")
    expect(scale).to_contain_text(re.compile(r"^Subscriptions in a cell of \d"))
    expect(page.locator("#one-subscription")).to_be_hidden()
    overview = crowd.http.get("/v1/map/overview").json()
    assert sum(count for _, _, count in overview["cells"]) == overview["count"] == MANY

    shades = [float(each) for each in page.evaluate(
        "() => [...document.querySelectorAll('#scale .shade')]"
        ".map((each) => each.style.getPropertyValue('--shade').replace('%', ''))"
    )]  # fmt: skip
    assert shades == sorted(shades)
    assert len(shades) == 5
    page.wait_for_function("() => nearcast.map.querySourceFeatures('cells').length")
    shown = page.evaluate(
        "() => nearcast.map.querySourceFeatures('cells')"
        ".map(({ properties: { count, shade } }) => [count, shade])"
    )
    assert len({count for count, _ in shown}) > 10
    assert [shade for _, shade in sorted(shown)] == sorted(shade for _, shade in shown)

    spot = page.evaluate("() => nearcast.map.project([151.2, -33.87])")
    page.mouse.click(spot["x"], spot["y"])
    popup = page.locator(".maplibregl-popup-content")
    expect(popup).to_contain_text(re.compile(r"^[\d,]+ subscriptionscentred in this cell of "))
    number = int(re.sub(r"\D", "", popup.locator("strong").inner_text()))
    assert number in {count for count, _ in shown}
    box, side = popup.bounding_box(), page.locator("#side").bounding_box()
    assert box is not None
    assert side is not None
    assert box["x"] + box["width"] <= side["x"], "a panel covers the popup"
    assert violations(page) == []
    keep(page, "million-desktop")
    page.get_by_role("button", name="Close popup").click()
    page.get_by_role("button", name="Light or dark").click()
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    expect(page.locator("#map")).not_to_have_attribute("data-cells", "0")
    assert page.evaluate("() => document.documentElement.scrollWidth") == PHONE[0]
    assert violations(page) == []
    keep(page, "million-phone-dark")


def test_twenty_thousand_in_a_city_and_outlines_close_up(crowd: Served, watch: Watched) -> None:
    page = watch.open(f"{crowd.url}/{CITY}", size=DESKTOP)
    page.add_style_tag(content=QUIET)
    expect(page.locator("#in-view")).to_have_text(re.compile(r"^2\d,\d{3}$"))
    expect(page.locator("#scale")).to_be_visible()
    keep(page, "20000-desktop")
    page.get_by_role("button", name="Light or dark").click()
    keep(page, "20000-desktop-dark")
    page.evaluate("(hash) => { location.hash = hash; }", STREETS)
    expect(page.locator("#map")).to_have_attribute("data-cells", "0")
    expect(page.locator("#map")).not_to_have_attribute("data-outlines", "0")
    expect(page.locator("#scale")).to_be_hidden()
    expect(page.locator("#one-subscription")).to_be_visible()
    keep(page, "streets-desktop-dark")


def seconds(session: CDPSession) -> dict[str, float]:
    """What the page's main thread has worked on so far."""
    found = {
        each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]
    }
    return {name: found[f"{name}Duration"] for name in ("Task", "Script", "Layout", "RecalcStyle")}


WATCH_FRAMES = (Path(__file__).parent / "frames.js").read_text("utf-8")


def test_a_second_with_ten_messages_that_match_is_little_work(
    crowd: Served, watch: Watched
) -> None:
    """The map under the moving things is not drawn for them, nor asked for again.

    How many frames a second the browser made is kept in `out/pictures/frames.json`: it depends on
    the machine, so nothing is asserted about it.
    """
    page = watch.open(f"{crowd.url}/{CITY}", size=DESKTOP)
    expect(page.locator("#in-view")).to_have_text(re.compile(r"^2\d,\d{3}$"))
    page.wait_for_function("() => nearcast.map.areTilesLoaded() && !nearcast.map.isMoving()")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")
    before = seconds(session)
    told: dict[str, Any] = page.evaluate(
        f"async (options) => {{ {WATCH_FRAMES}; return watchFrames(options); }}",
        {"messages": 60, "everyMs": 100, "place": HERE},
    )
    told["seconds_of"] = {name: value - before[name] for name, value in seconds(session).items()}
    (PICTURES / "frames.json").write_text(json.dumps(told, indent=2) + "\n", "utf-8")
    keep(page, "busy-desktop")
    assert told["published"] == 60
    assert told["updates"] > 60
    work = told["work"]
    assert (work["sourceChanges"], work["mapRenders"]) == (0, 0), "the map is drawn for messages"
    # of each message a dozen are drawn; their subscriptions are asked for together, and once
    assert work["lookups"] <= told["messages"]
    assert work["lookedUp"] <= 12 * told["messages"]
    assert work["rows"] <= 60
    assert work["mostStrokesInAFrame"] <= 2500
