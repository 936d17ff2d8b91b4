"""What the live map asks for: counts, cells, and those that something reached."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast import Box, Circle, Engine, Polygon, Top
from nearcast.engine.outcome import EventOutcome
from nearcast.events import Message, Publish, Update
from nearcast.server.backend import CommittedBatch
from nearcast.server.density import Density
from nearcast.server.live import LiveMap
from served import IPAD, SALE, Ear, Served, serving

LON = st.floats(-180, 180)
LAT = st.floats(-90, 90)
BOXES = st.builds(
    lambda x1, x2, y1, y2: (min(x1, x2), min(y1, y2), max(x1, x2), max(y1, y2)), LON, LON, LAT, LAT
)
VIEWS = st.builds(lambda w, e, y1, y2: Box(w, min(y1, y2), e, max(y1, y2)), LON, LON, LAT, LAT)


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    with serving() as served:
        yield served


@given(st.lists(BOXES, max_size=30), VIEWS)
def test_counts_and_cells_have_exactly_the_boxes_that_meet_the_view(
    boxes: list[tuple[float, float, float, float]], view: Box
) -> None:
    told = Density(np.array(boxes, np.float64).reshape(-1, 4)).summary(view)
    met = [Box(*box) for box in boxes if Box(*box).meets(view)]
    assert told["count"] == len(met) == sum(count for _, _, count in told["cells"])
    reach = told["size"] + 1e-5  # to which places are rounded
    for lon, lat, _ in told["cells"]:
        assert any(
            abs((box.west + box.east) / 2 - lon) <= reach
            and abs((box.south + box.north) / 2 - lat) <= reach
            for box in met
        )


@pytest.mark.parametrize("index", ["auto", "rarest-term", "scan"])
def test_every_subscription_has_one_box(index: str) -> None:
    engine = Engine(index=index)
    engine.subscribe("plain", "a", Box(1, 2, 3, 4))
    engine.subscribe("or", "a OR b NOT c", Box(5, 6, 7, 8))
    engine.subscribe("across", "a", Box(170, 0, -170, 1))
    engine.subscribe("around", "a", Circle((0, 0), 1000))
    engine.subscribe("corners", "a", Polygon([[(10, 10), (12, 10), (11, 14), (10, 10)]]))
    engine.subscribe("best", "a", point=(20, 30), top=Top(3, 0.5))
    engine.subscribe("gone", "a", Box(1, 1, 1, 1))
    engine.unsubscribe("gone")
    rows = {tuple(row) for row in engine.boxes().tolist()}
    assert len(engine.boxes()) == len(rows) == 6
    assert {(1, 2, 3, 4), (5, 6, 7, 8), (10, 10, 12, 14), (20, 30, 20, 30)} <= rows
    assert rows & {(170, 0, 180, 1), (-180, 0, -170, 1)}


def test_the_overview_of_a_server(site: Served) -> None:
    lines = [json.dumps({"id": f"o{i}", **IPAD}) for i in range(3)]
    site.lines("/v1/subscriptions", "\n".join(lines))
    near = site.http.get("/v1/map/overview", params={"bbox": "151,-34,152,-33"}).json()
    assert near["count"] == 3
    assert near["cells"] == [[151.2, -33.87, 3]]
    far = site.http.get("/v1/map/overview", params={"bbox": "-10,-10,10,10"}).json()
    assert far["count"] == 0
    assert site.http.get("/v1/map/overview").json()["count"] == 3


def test_some_subscriptions_and_messages_by_id(site: Served) -> None:
    site.http.put("/v1/subscriptions/a b", json=IPAD)
    site.post("/v1/messages", {"id": "lasting", "ttl": 600, **SALE})
    found = site.http.get("/v1/map/subscriptions", params={"id": ["a b", "unknown"]}).json()
    assert found == {"subscriptions": [{"id": "a b", **IPAD}]}
    kept = site.http.get("/v1/map/messages", params={"id": ["lasting", "unknown"]}).json()
    assert kept == {"messages": [{"id": "lasting", **SALE}]}
    for path in ("subscriptions", "messages"):
        many = site.http.get(f"/v1/map/{path}", params={"id": ["x"] * 101})
        assert many.status_code == 422
        assert many.json()["field"] == "id"


def test_one_s_own_updates_are_shown_wherever_they_happen(site: Served) -> None:
    site.http.put("/v1/subscriptions/own", json=IPAD)
    with Ear(site.port, "/v1/live?bbox=0,0,1,1&subscription=own") as ear:
        site.post("/v1/messages", {"id": "far", **SALE})
        shown = ear.event()
        assert shown["event"] == "message"
        update = ear.event()
        assert update["event"] == "update"
        said = json.loads(update["data"])
        assert (said["subscription"], said["message"]) == ("own", "far")
        assert (said["text"], said["point"]) == (SALE["text"], SALE["point"])


def test_one_s_own_do_not_fill_the_memory_for_somebody_who_reads_nothing() -> None:
    live = LiveMap(per_second=10, clock=lambda: 0.0)
    listener = live.join(Box(0, 0, 1, 1), ["own"])
    published = Publish(Message("m", "iPad", (151.2, -33.87)))
    outcome = EventOutcome(1, None, [Update("add", "own", "m")], 1)
    for _ in range(500):
        live.committed(CommittedBatch([published], [outcome], [0.0], last=1, seq=1, seconds=0.0))
    assert len(listener.queue) < 50
    assert listener.left_out > 400
