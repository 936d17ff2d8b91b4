"""The value types accept what the contract allows and nothing else."""

import json
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely

from nearcast import Box, Circle, Engine, Message, Polygon, Subscription, Top
from nearcast.errors import InvalidValue, MissingField
from nearcast.events import Move, event_from_json

HERE = (151.2, -33.87)
REGION = Box(0, 0, 1, 1)


@pytest.mark.parametrize("id", ["a", "x" * 255, "é" * 127, "日本" * 42, "\n", " "])
def test_an_id_has_1_to_255_bytes_of_utf8(id: str) -> None:
    assert Subscription(id, "a", REGION).id == id
    assert Message(id, "a", HERE).id == id


@pytest.mark.parametrize("id", ["", "x" * 256, "é" * 128, "\ud800", 7, b"a", True, ["a"]])
def test_any_other_id_is_refused_and_named(id: object) -> None:
    with pytest.raises(InvalidValue, match=r"^id: .* expected a string of 1 to 255 bytes"):
        Message(id, "a", HERE)  # type: ignore[arg-type]


def test_the_error_counts_the_bytes_of_a_long_id() -> None:
    with pytest.raises(InvalidValue, match="this has 256"):
        Message("é" * 128, "a", HERE)


def test_what_is_missing_is_said_to_be_missing() -> None:
    with pytest.raises(MissingField, match="^id: missing; expected a string"):
        Message(None, "a", HERE)  # type: ignore[arg-type]
    with pytest.raises(MissingField, match="^point: missing"):
        Message("m", "a")
    with pytest.raises(MissingField, match="^query: missing"):
        Subscription("s")
    with pytest.raises(MissingField, match="^top: missing"):
        Subscription("s", "a", point=HERE)
    with pytest.raises(MissingField, match="^point: missing"):
        Subscription("s", "a", top=Top(1, 0.5))
    with pytest.raises(MissingField, match="^k: missing"):
        Top(None, 0.5)  # type: ignore[arg-type]
    with pytest.raises(MissingField, match="^alpha: missing"):
        Top(1, None)  # type: ignore[arg-type]


def test_a_message_is_at_a_point_or_over_an_area_not_both() -> None:
    assert Message("m", "a", region=REGION).point is None
    with pytest.raises(InvalidValue, match="either a point or a region"):
        Message("m", "a", HERE, REGION)
    with pytest.raises(InvalidValue, match="expected a Box, a Polygon or a MultiPolygon"):
        Message("m", "a", region=Circle(HERE, 5))  # type: ignore[arg-type]


def test_a_subscription_may_lack_a_query_or_a_region_but_not_both() -> None:
    assert Subscription("s", region=REGION).query is None
    assert Subscription("s", "a").region is None
    assert Subscription("s", "a", point=(1, 2), top=Top(3, 1)).point == (1.0, 2.0)
    assert Subscription("s", "a", REGION, HERE, Top(3, 1), "b").filter == "b"


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (Decimal("4.50"), 4.5),
        (Decimal(7), 7),
        (np.float64(4.5), 4.5),
        (np.float32(0.5), 0.5),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.str_("deal"), "deal"),
        (np.array([1, 2]), [1, 2]),
        ([{"a": np.int8(1)}], [{"a": 1}]),
    ],
    ids=repr,
)
def test_numbers_of_other_libraries_are_numbers(given: Any, read: Any) -> None:
    """As rows of data frames have them: a price is no string that happens to look like one."""
    message = Message("m", point=HERE, properties={"price": given})
    assert message.properties == {"price": read}
    assert type(message.properties["price"]) is type(read)
    assert Subscription("s", "x", meta={"v": given}).meta == {"v": read}


@pytest.mark.parametrize("wrong", [Decimal("NaN"), Decimal("Infinity"), Decimal("1e400"), object()])
def test_what_no_json_has_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidValue, match="^properties: .*a JSON object of at most 65,536"):
        Message("m", point=HERE, properties={"price": wrong})


@pytest.mark.parametrize("index", ["scan", "rarest-term"])
def test_decimals_of_a_column_are_compared_as_numbers(index: str) -> None:
    kind = pa.struct([("price", pa.decimal128(10, 2))])
    column = pa.array([{"price": Decimal("4.50")}, {"price": Decimal("9.50")}], kind)
    engine = Engine(index=index)
    engine.subscribe("s", "price:<5")
    table = pa.table({"id": ["a", "b"], "lon": [0.0] * 2, "lat": [0.0] * 2, "properties": column})
    assert engine.publish_table(table)["message"].to_pylist() == ["a"]


def test_properties_are_copied_and_are_json() -> None:
    given: dict[str, tuple[int, ...]] = {"price": (1, 2)}
    message = Message("m", point=HERE, properties=given)
    given["price"] = (3,)
    assert message.properties == {"price": [1, 2]}
    for wrong in ([1], "x", {"a": "x" * 65_536}, {"a": object()}, {"a": "\ud800"}):
        with pytest.raises(InvalidValue, match="^properties: .*a JSON object of at most 65,536"):
            Message("m", point=HERE, properties=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [500, 501, 900, 5_000, 100_000])
@pytest.mark.parametrize("array", [True, False])
def test_objects_are_nested_up_to_a_fixed_depth(depth: int, array: bool) -> None:
    """The limit is not that of the interpreter, which depends on who calls."""
    inner: object = []
    for _ in range(depth - 2):
        inner = [inner] if array else {"a": inner}
    deep = {"a": inner}
    if depth == 500:
        assert Message("m", point=HERE, properties=deep).properties == deep
        return
    with pytest.raises(InvalidValue, match=r"nested too deeply.* at most 500 objects and arrays"):
        Message("m", point=HERE, properties=deep)


def test_places_of_other_libraries_become_ours() -> None:
    area, place = shapely.box(0, 0, 1, 1), shapely.Point(0.5, 0.25)
    made = Subscription("s", "a", area, place, Top(1, 1))
    assert made.region == Polygon(area.__geo_interface__["coordinates"])
    assert made.point == Message("m", point=place).point == (0.5, 0.25)
    assert Message("m", region=area).region == made.region == Move("s", area).region
    with pytest.raises(InvalidValue, match="^region: 'Point' given"):
        Message("m", region=place)


_CORNER = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}


@pytest.mark.parametrize(
    "area",
    [
        _CORNER,
        {"type": "Feature", "properties": {}, "geometry": _CORNER},
        "POLYGON ((0 0, 1 0, 0 1, 0 0))",
        shapely.from_geojson(json.dumps(_CORNER)).wkb,
    ],
    ids=["GeoJSON", "Feature", "WKT", "WKB"],
)
def test_regions_of_other_formats_become_ours(area: Any) -> None:
    corner = Polygon([[(0, 0), (1, 0), (0, 1), (0, 0)]])
    made = Subscription("s", region=area)
    assert made.region == Message("m", region=area).region == Move("s", area).region == corner


@pytest.mark.parametrize(
    "place",
    [
        {"type": "Point", "coordinates": [0.5, 0.25]},
        {"type": "Feature", "geometry": {"type": "Point", "coordinates": [0.5, 0.25]}},
        "POINT (0.5 0.25)",
        shapely.Point(0.5, 0.25).wkb,
    ],
    ids=["GeoJSON", "Feature", "WKT", "WKB"],
)
def test_points_of_other_formats_become_ours(place: Any) -> None:
    made = Subscription("s", "a", point=place, top=Top(1, 1))
    assert made.point == Message("m", point=place).point == Move("s", point=place).point
    assert made.point == (0.5, 0.25)
    with pytest.raises(InvalidValue, match=r"^point: .* a position \[longitude, latitude\]"):
        event_from_json({"op": "publish", "id": "m", "text": "a", "point": place})


def test_what_stands_beside_each_other_is_not_nested() -> None:
    wide = {"a": [[] for _ in range(1000)], "b": [{"c": "[{"} for _ in range(1000)], "d": "]" * 600}
    assert Message("m", point=HERE, properties=wide).properties == wide


@pytest.mark.parametrize("field", ["at", "ttl"])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, "5", True, 10**400, [1.0]])
def test_times_are_finite_numbers(field: str, value: object) -> None:
    with pytest.raises(InvalidValue, match=f"^{field}: .*seconds"):
        Message("m", "a", HERE, **{field: value})  # type: ignore[arg-type]


def test_ttl_is_not_negative_and_at_may_be() -> None:
    assert Message("m", "a", HERE, at=-5, ttl=0).at == -5.0
    with pytest.raises(InvalidValue, match="^ttl: -1 given; expected 0 or more seconds"):
        Message("m", "a", HERE, ttl=-1)


@pytest.mark.parametrize("k", [0, 1001, -1, 2.5, "3", True, math.nan, math.inf])
def test_k_is_a_whole_number_from_1_to_1000(k: object) -> None:
    with pytest.raises(InvalidValue, match=r"^k: .* a whole number from 1 to 1000"):
        Top(k, 0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("alpha", [-0.01, 1.01, "x", math.nan, True])
def test_alpha_is_a_number_from_0_to_1(alpha: object) -> None:
    with pytest.raises(InvalidValue, match=r"^alpha: .* a number from 0 to 1"):
        Top(1, alpha)  # type: ignore[arg-type]


def test_numbers_of_any_kind_become_floats() -> None:
    message = Message("m", "a", (np.float32(1.5), np.int64(2)), at=np.int32(3), ttl=np.float64(4))  # type: ignore[arg-type]
    assert (message.point, message.at, message.ttl) == ((1.5, 2.0), 3.0, 4.0)
    values = (*(message.point or ()), message.at, message.ttl)
    assert [type(value) for value in values] == [float] * 4
    assert Top(np.int64(5), 1) == Top(5, 1.0)  # type: ignore[arg-type]


def test_a_value_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        Message("m", "a", HERE).text = "b"  # type: ignore[misc]
