"""Subscribers on roads and on recorded tracks."""

from __future__ import annotations

from math import cos, radians
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest

from nearcast.errors import InvalidValue, SourceError
from nearcast_lab.workloads import generate
from nearcast_lab.workloads.roads import Vehicles, build_roads
from nearcast_lab.workloads.space import SPACES, WorldBox

Event = dict[str, Any]


def log(subscriptions: int = 300, messages: int = 1000, **options: Any) -> list[Event]:
    options = {"vocabulary": 5000} | options
    events = generate("moving", subscriptions=subscriptions, messages=messages, seed=2, **options)
    return list(events)


def test_a_fifth_moves_at_each_timestamp() -> None:
    """In each of 100 steps of 30 seconds, about 20 % of the subscribers move, each once at most."""
    moves = [event for event in log() if event["op"] == "move"]
    steps = [int((event["at"] - 1_700_000_000) / 30) for event in moves]
    assert set(steps) == set(range(100))
    assert len(moves) == pytest.approx(300 * 0.2 * 100, rel=0.05)
    assert len({(step, event["id"]) for step, event in zip(steps, moves, strict=True)}) == len(
        moves
    )


def test_messages_last_ten_timestamps() -> None:
    """`ttl` is 300 seconds on average, between half and one and a half times that."""
    lives = [event["ttl"] for event in log() if event["op"] == "publish"]
    assert len(lives) == 1000
    assert np.mean(lives) == pytest.approx(300, rel=0.04)
    assert min(lives) >= 150
    assert max(lives) <= 450


def test_a_tenth_of_the_messages_is_there_first() -> None:
    """Initial messages come before the first move; the others spread over the whole time."""
    stream = log()[300:]
    assert [event["op"] for event in stream[:100]] == ["publish"] * 100
    later = [e["at"] - 1_700_000_000 for e in stream if e["op"] == "publish"][100:]
    counts, _ = np.histogram(later, bins=10, range=(0, 3000))
    assert counts.tolist() == [90] * 10


def test_so_many_messages_come_at_each_timestamp() -> None:
    """With `arrivals`, the others are there first, and more than there are is refused."""
    stream = log(20, 100, timestamps=10, arrivals=7)[20:]
    assert [event["op"] for event in stream[:30]] == ["publish"] * 30
    later = [e["at"] - 1_700_000_000 for e in stream if e["op"] == "publish"][30:]
    counts, _ = np.histogram(later, bins=10, range=(0, 300))
    assert counts.tolist() == [7] * 10
    with pytest.raises(InvalidValue, match="arrivals: 11 given; expected fewer: that makes 110"):
        log(20, 100, timestamps=10, arrivals=11)


def test_circles_keep_their_radius() -> None:
    """Radii are 500 m to 5 km, and a move changes the place, not the radius."""
    radii: dict[str, float] = {}
    for event in log():
        if event["op"] != "publish":
            radius = event["region"]["radius"]
            assert radii.setdefault(event["id"], radius) == radius
    assert 500 <= min(radii.values()) < 700
    assert 4800 < max(radii.values()) <= 5000


def test_boxes_have_the_area_asked_for() -> None:
    """With boxes, each has the share of the space that `area` says."""
    space = SPACES["san-joaquin"]
    for event in log(messages=0, shape="box", area=0.01, timestamps=3):
        west, south, east, north = event["region"]["bbox"]
        area = (east - west) * (north - south) / (space.width * space.height)
        assert area == pytest.approx(0.01, rel=1e-3)


def test_nobody_is_faster_than_the_roads_allow() -> None:
    """Between two reports a subscriber gets no further than 90 km/h; nearly all of them travel."""
    last: dict[str, tuple[float, list[float]]] = {}
    speeds = []
    for event in log(messages=0):
        at, centre = event.get("at", 1_700_000_000.0), event["region"]["center"]
        if event["op"] == "move":
            before, (lon, lat) = last[event["id"]]
            east = (centre[0] - lon) * cos(radians(37.875)) * 111_195
            north = (centre[1] - lat) * 111_195
            if at - before > 1:
                speeds.append(float(np.hypot(east, north)) / (at - before))
        last[event["id"]] = (at, centre)
    assert max(speeds) <= 90 / 3.6 + 0.5
    assert np.mean(np.array(speeds) > 1) > 0.95


def test_velocity_is_a_factor() -> None:
    """A vehicle at double velocity is after one minute where the other is after two."""
    roads = build_roads(1, SPACES["oldenburg"], 400)
    everyone = np.arange(50)
    slow, fast = Vehicles(1, roads, 50, 1.0), Vehicles(1, roads, 50, 2.0)
    slow.drive(everyone, np.full(50, 120.0))
    fast.drive(everyone, np.full(50, 60.0))
    assert np.allclose(slow.places(everyone), fast.places(everyone), atol=1e-9)


def test_driving_in_parts_is_driving_at_once() -> None:
    """Ten drives of a minute end where one of ten minutes does, on a street of the network."""
    roads = build_roads(1, WorldBox(8.0, 53.0, 8.2, 53.1), 100)
    everyone = np.arange(40)
    once, parts = Vehicles(1, roads, 40, 1.0), Vehicles(1, roads, 40, 1.0)
    start = once.places(everyone)
    once.drive(everyone, np.full(40, 600.0))
    for _ in range(10):
        parts.drive(everyone, np.full(40, 60.0))
    assert np.allclose(once.places(everyone), parts.places(everyone), atol=1e-9)
    assert (np.abs(once.places(everyone) - start).max(axis=1) > 1e-4).all()


def test_places_lie_on_streets() -> None:
    """Wherever a vehicle is, it is on the line between two neighbouring junctions."""
    roads = build_roads(4, WorldBox(8.0, 53.0, 8.2, 53.1), 60)
    rows, columns = roads.east_m.shape
    everyone = np.arange(30)
    vehicles = Vehicles(4, roads, 30, 1.0)
    vehicles.drive(everyone, np.linspace(10.0, 900.0, 30))
    corners = roads.degrees(roads.east_m.ravel(), roads.north_m.ravel()).reshape(rows, columns, 2)
    lines = [
        (corners[row, column], corners[row + down, column + 1 - down])
        for row in range(rows)
        for column in range(columns)
        for down in (0, 1)
        if row + down < rows and column + 1 - down < columns
    ]
    for place in vehicles.places(everyone):
        detours = [
            np.linalg.norm(place - a) + np.linalg.norm(place - b) - np.linalg.norm(a - b)
            for a, b in lines
        ]
        assert min(detours) < 1e-9


def write_tracks(path: Path, stamps: pa.Array) -> str:
    table = pa.table(
        {
            "oid": [7, 9, 7, 9, 7, 9],
            "ts": stamps,
            "lon": [10.0, 20.0, 10.1, 20.1, 10.2, 181.0],
            "lat": [50.0, 40.0, 50.1, 40.1, 50.2, 91.0],
        }
    )
    pq.write_table(table, path)
    return str(path)


@pytest.mark.parametrize("kind", [pa.timestamp("ms", tz="UTC"), pa.float64()])
def test_tracks_are_followed(tmp_path: Path, kind: pa.DataType) -> None:
    """Subscribers take recorded tracks in turn, at the recorded times; receivers in error drop."""
    seconds = [1000, 1001, 1002, 1003, 1004, 1005]
    stamps = pa.array([s * 1000 for s in seconds] if pa.types.is_timestamp(kind) else seconds)
    path = write_tracks(tmp_path / "tracks.parquet", stamps.cast(kind))
    events = log(3, 10, tracks=path)
    assert [e["region"]["center"] for e in events[:3]] == [[10.0, 50.0], [20.0, 40.0], [10.0, 50.0]]
    moves = [(e["at"], e["id"], *e["region"]["center"]) for e in events if e["op"] == "move"]
    assert moves == [
        (1002.0, "s1", 10.1, 50.1),
        (1002.0, "s3", 10.1, 50.1),
        (1003.0, "s2", 20.1, 40.1),
        (1004.0, "s1", 10.2, 50.2),
        (1004.0, "s3", 10.2, 50.2),
    ]
    times = [event["at"] for event in events if "at" in event]
    assert times == sorted(times)
    assert log(3, 10, tracks=path, chunk=2) == events


def test_any_table_of_id_time_lon_lat_serves(tmp_path: Path) -> None:
    """A CSV file with those names gives the same log as Parquet with `oid` and `ts`."""
    path = write_tracks(tmp_path / "tracks.parquet", pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    table = pq.read_table(path).rename_columns({"oid": "id", "ts": "time"})
    pv.write_csv(table.select(["id", "time", "lon", "lat"]), tmp_path / "tracks.csv")
    assert log(3, 10, tracks=str(tmp_path / "tracks.csv")) == log(3, 10, tracks=path)


def test_fewer_subscribers_than_tracks(tmp_path: Path) -> None:
    """Tracks without a subscription cause no moves."""
    path = write_tracks(tmp_path / "tracks.parquet", pa.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]))
    assert {event["id"] for event in log(1, 0, tracks=path)} == {"s1"}


def test_unreadable_tracks_are_told(tmp_path: Path) -> None:
    """A missing file, a wrong one, and one without positions say what is wrong with them."""
    with pytest.raises(SourceError, match="cannot read"):
        log(tracks=str(tmp_path / "none.parquet"))
    (tmp_path / "text.parquet").write_text("no parquet")
    with pytest.raises(SourceError, match="id, time, lon, lat"):
        log(tracks=str(tmp_path / "text.parquet"))
    pq.write_table(pa.table({"oid": [1]}), tmp_path / "columns.parquet")
    with pytest.raises(SourceError, match="id, time, lon, lat"):
        log(tracks=str(tmp_path / "columns.parquet"))
    empty = pa.table({"oid": [1], "ts": [1.0], "lon": [181.0], "lat": [0.0]})
    pq.write_table(empty, tmp_path / "empty.parquet")
    with pytest.raises(SourceError, match="no usable position"):
        log(tracks=str(tmp_path / "empty.parquet"))
