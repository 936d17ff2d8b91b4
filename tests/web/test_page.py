"""The page itself: on a phone, in the dark, while it waits, and when the line breaks."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from served import IPAD, SALE, Served, serving
from watched import SYDNEY, Watched


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_within_its_width(
    site: Served, watch: Watched, scheme: str
) -> None:
    page = watch.open(f"{site.url}/{SYDNEY}", size=(390, 844), color_scheme=scheme)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    for control in page.locator("#panel button:visible, #panel input:visible").all():
        box = control.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    fold = page.get_by_role("button", name="Show or hide the panel")
    fold.click()
    expect(page.get_by_label("What do you want to hear about?")).to_be_hidden()
    fold.click()
    expect(page.get_by_label("What do you want to hear about?")).to_be_visible()
    ink = page.evaluate("() => getComputedStyle(document.body).color")
    assert (ink == "rgb(234, 240, 248)") == (scheme == "dark")


def test_every_control_has_a_name(site: Served, watch: Watched) -> None:
    page = watch.open(f"{site.url}/{SYDNEY}")
    for control in page.locator("button:visible, input:visible, a:visible").all():
        assert page.evaluate(
            "(e) => e.ariaLabel || e.textContent.trim() || e.labels?.length || e.title || ''",
            control.element_handle(),
        ), control.evaluate("(e) => e.outerHTML")


def test_the_page_says_what_it_waits_for_while_the_server_warms_up(
    site: Served, watch: Watched
) -> None:
    watch.expected.add("503")
    page = watch.open("about:blank", ready=False)
    asked = []

    def not_yet(route: Route) -> None:
        asked.append(route)
        if len(asked) > 2:
            route.continue_()
            return
        problem = '{"detail": "still reading 1,000,000 subscriptions"}'
        route.fulfill(status=503, body=problem, content_type="application/problem+json")

    page.route("**/readyz", not_yet)
    page.goto(f"{site.url}/{SYDNEY}")
    expect(page.locator("#veil")).to_contain_text("still reading 1,000,000 subscriptions")
    expect(page.locator("#status")).to_have_attribute("data-state", "live")
    expect(page.locator("#veil")).to_be_hidden()


def test_a_server_with_keys_is_opened_with_one(site: Served, watch: Watched) -> None:
    watch.expected.add("401")
    page = watch.open("about:blank", ready=False)

    def guard(route: Route) -> None:
        if route.request.headers.get("authorization") == "Bearer right":
            route.continue_(headers=_without_key(route))
        else:
            route.fulfill(status=401, body="{}", content_type="application/problem+json")

    page.route("**/v1/**", guard)
    page.goto(f"{site.url}/{SYDNEY}")
    page.get_by_label("API key").fill("right")
    page.get_by_role("button", name="Open the map").click()
    expect(page.locator("#status")).to_have_attribute("data-state", "live")


def _without_key(route: Route) -> dict[str, str]:
    """The server of this test knows no keys: the guard stands before it."""
    return {name: value for name, value in route.request.headers.items() if name != "authorization"}


def test_after_the_server_was_away_nothing_is_missing(watch: Watched, tmp_path: Path) -> None:
    watch.expected |= {"ERR_CONNECTION", "ERR_INCOMPLETE", "503"}
    with serving(tmp_path) as site:
        port = site.port
        site.http.put("/v1/subscriptions/mine", json=IPAD)
        page = watch.open(f"{site.url}/?yours=mine{SYDNEY}")
        expect(page.locator("#mine > li")).to_contain_text("ipad")
        site.post("/v1/messages", {"id": "m1", **SALE})
        expect(page.locator("#matches li.mine")).to_have_count(1)
    expect(page.locator("#status")).to_have_attribute("data-state", "lost")
    expect(page.locator("#status")).to_contain_text("connection lost, trying again")
    with serving(tmp_path, port=port) as site:
        site.post("/v1/messages", {"id": "m2", "text": "Another iPad", "point": SALE["point"]})
        expect(page.locator("#status")).to_have_attribute("data-state", "live")
        expect(page.locator("#matches li.mine")).to_have_count(2)
        page.screenshot()
