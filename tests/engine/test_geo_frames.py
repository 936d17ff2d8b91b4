"""Data frames of GeoPandas, and other tables that name a coordinate reference system."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

from nearcast import Engine, Polygon
from nearcast.errors import InvalidValue

geopandas = pytest.importorskip("geopandas", reason="a part of the extra dev")

PLAIN, INDEXED = "scan", "rarest-term"
HERE = shapely.box(0.0, 0.0, 10.0, 10.0)
ROUND = shapely.Point(5.0, 5.0).buffer(1.0)
REFUSED = r"crs: .* given; expected degrees on WGS 84, EPSG:4326; .* to_crs\(4326\)$"


def zones(crs: Any = 4326) -> Any:
    columns = {"id": ["square", "round"], "query": ["x", None], "note": [1, 2]}
    return geopandas.GeoDataFrame(columns, geometry=[HERE, ROUND], crs=crs)


def told(table: Any, index: str) -> list[str]:
    """The subscriptions of a table that are told of a message."""
    engine = Engine(index=index)
    engine.subscribe_table(table)
    return [update.subscription for update in engine.publish("m", "x", (5.0, 5.0))]


FORMS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda frame: frame,
    "other name": lambda frame: frame.rename_geometry("shape"),
    "named region": lambda frame: frame.rename_geometry("region"),
    "with an index": lambda frame: frame.set_index("note"),
    "other column": lambda frame: frame.rename_geometry("shape").assign(geometry="none"),
    "stream": lambda frame: frame.to_arrow(),
    "GeoArrow": lambda frame: pa.table(frame.to_arrow(geometry_encoding="geoarrow")),
    "GeoParquet": lambda frame: parquet(frame),
    "heights": lambda frame: frame.set_geometry(shapely.force_3d(frame.geometry, 9.0)),
}


def parquet(frame: Any) -> pa.Table:
    file = io.BytesIO()
    frame.to_parquet(file)
    return pq.read_table(file)


@pytest.mark.parametrize("index", [PLAIN, INDEXED])
@pytest.mark.parametrize("form", FORMS)
def test_subscriptions_come_from_a_frame(form: str, index: str) -> None:
    assert told(FORMS[form](zones()), index) == ["round", "square"]


@pytest.mark.parametrize(
    "crs", [None, 4326, 4979, "OGC:CRS84", "+proj=longlat +datum=WGS84 +no_defs"]
)
def test_degrees_on_wgs_84_are_taken_by_any_name(crs: Any) -> None:
    assert told(zones(crs), PLAIN) == ["round", "square"]


@pytest.mark.parametrize("form", FORMS)
def test_other_systems_are_refused_in_every_form(form: str) -> None:
    engine = Engine()
    with pytest.raises(InvalidValue, match=REFUSED):
        engine.subscribe_table(FORMS[form](zones().to_crs(3857)))
    assert len(engine) == 0


def test_other_degrees_are_refused_too() -> None:
    """ETRS89 is as much as a metre away."""
    with pytest.raises(InvalidValue, match="'EPSG:4258 ETRS89' given"):
        told(zones(4258), PLAIN)


@pytest.mark.parametrize("index", [PLAIN, INDEXED])
def test_messages_come_from_a_frame(index: str) -> None:
    """Points and areas may be mixed; columns of longitudes and latitudes beside them are not."""
    engine = Engine(index=index)
    engine.subscribe("s", region=HERE)
    shapes = [shapely.Point(5.0, 5.0), shapely.Point(50.0, 5.0), ROUND]
    columns = {"id": ["a", "b", "c"], "text": ["x", None, None], "lon": [0.0] * 3, "lat": [0.0] * 3}
    frame = geopandas.GeoDataFrame(columns, geometry=shapes, crs=4326)
    assert engine.publish_table(frame)["message"].to_pylist() == ["a", "c"]
    assert engine.publish_table(frame.iloc[:2])["message"].to_pylist() == ["a"]
    assert engine.publish_table(frame.iloc[2:])["message"].to_pylist() == ["c"]
    assert engine.publish_table(frame.iloc[:0]).num_rows == 0
    with pytest.raises(InvalidValue, match=REFUSED):
        engine.publish_table(frame.to_crs(3857))


@pytest.mark.parametrize("index", [PLAIN, INDEXED])
@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        (shapely.Point(200.0, 0.0), r"row 1\.point\[0\]: 200\.0 given; expected a longitude"),
        (shapely.Point(), r"row 1\.point: 'Point EMPTY' given"),
        (shapely.LineString([(0, 0), (1, 1)]), r"row 1\.region: 'LineString' given"),
        (None, r"row 1\.point: missing"),
    ],
    ids=["outside", "empty", "line", "none"],
)
def test_a_shape_that_is_no_place_is_named(shape: Any, problem: str, index: str) -> None:
    columns = {"id": ["a", "b"], "text": ["x", "x"]}
    shapes = [shapely.Point(1.0, 1.0), shape]
    frame = geopandas.GeoDataFrame(columns, geometry=shapes, crs=4326)
    with pytest.raises(InvalidValue, match=f"^{problem}"):
        Engine(index=index).publish_table(frame)


def test_subscriptions_move_to_the_shapes_of_a_frame() -> None:
    engine = Engine(index=INDEXED)
    engine.subscribe_table(zones())
    engine.publish("m", "x", (5.0, 5.0), ttl=9.0)
    frame = geopandas.GeoDataFrame({"id": ["square"]}, geometry=[shapely.box(20, 0, 21, 1)])
    (update,) = engine.move_table(frame).to_pylist()
    assert (update["op"], update["subscription"]) == ("remove", "square")


def test_a_frame_is_made_of_regions() -> None:
    engine = Engine()
    engine.subscribe_table(zones())
    features = [
        {"type": "Feature", "properties": {"id": one.id}, "geometry": one.region.__geo_interface__}
        for one in engine.subscriptions()
        if isinstance(one.region, Polygon)
    ]
    frame = geopandas.GeoDataFrame.from_features(features, crs=4326)
    assert frame.geometry.iloc[0].equals(HERE)


@pytest.mark.parametrize(
    ("system", "good"),
    [
        ("EPSG:4326", True),
        ("urn:ogc:def:crs:OGC:1.3:CRS84", True),
        ("urn:ogc:def:crs:EPSG::4326", True),
        (geopandas.GeoSeries(crs=4326).crs.to_wkt(), True),
        (geopandas.GeoSeries(crs=4326).crs.to_json(), True),
        ("EPSG:3857", False),
        (geopandas.GeoSeries(crs=32633).crs.to_wkt(), False),
        (geopandas.GeoSeries(crs=32633).crs.to_json_dict(), False),
        ("LOCAL", False),
    ],
)
def test_columns_of_arrow_say_what_they_have(system: Any, good: bool) -> None:
    """By name, as WKT or as PROJJSON; an extension that nobody registered is metadata alone."""
    metadata = {"ARROW:extension:metadata": json.dumps({"crs": system})}
    column = pa.array([shapely.to_wkb(HERE), shapely.to_wkb(ROUND)])
    schema = pa.schema([("id", pa.string()), pa.field("region", column.type, metadata=metadata)])
    table = pa.table([pa.array(["a", "b"]), column], schema=schema)
    if good:
        assert told(table, PLAIN) == ["a", "b"]
    else:
        with pytest.raises(InvalidValue, match=f"^region.{REFUSED}"):
            told(table, PLAIN)
