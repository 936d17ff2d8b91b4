"""What a pipeline does not take is refused as any other event, and old files are read as before."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from boolean_logs import records
from nearcast.engine.settings import Settings
from nearcast.errors import NotOnSparkError
from nearcast.events import Subscribe, Subscription
from nearcast.geo import Box, MultiPolygon, region_to_json
from nearcast.server.spark.engine import PipelineEngine
from nearcast.server.spark.event_files import EventFiles
from nearcast.spark.events import NORMAL, completed, is_normal, table_of
from nearcast.spark.operations import begun_in
from nearcast.spark.registrar import Registrar

BOX = {"type": "Box", "bbox": [0, 0, 1, 1]}
ISLANDS = MultiPolygon([[[(0, 0), (4, 0), (0, 4), (0, 0)]], [[(9, 9), (8, 9), (9, 8), (9, 9)]]])
SEVERAL = region_to_json(ISLANDS)
REASON = "region: a MultiPolygon is not known to the pipeline on Spark yet"


def subscribe(id: str, region: Any, query: str = "a") -> dict[str, Any]:
    return {"op": "subscribe", "id": id, "query": query, "region": region}


def test_several_polygons_are_refused_by_the_registrar() -> None:
    """Those that subscribe and those that move; nothing of them has an effect."""
    log = [
        subscribe("s1", BOX),
        subscribe("s2", SEVERAL),
        {"op": "move", "id": "s1", "region": SEVERAL},
        {"op": "move", "id": "s2", "region": BOX},
        subscribe("s3", SEVERAL, "(a"),
        {"op": "move", "id": "s1", "region": BOX},
    ]
    reading = Registrar(Settings()).read(table_of(records(log)), np.arange(len(log)))
    reasons = {refusal.row: refusal.error for refusal in reading.refusals}
    assert set(reasons) == {1, 2, 3, 4}
    assert all(REASON in reasons[row] for row in (1, 2, 4))
    assert "s2" in reasons[3]
    assert set(begun_in(reading.log)["id"].to_pylist()) == {"s1"}


def test_several_polygons_are_refused_before_they_are_written_for_a_pipeline(
    tmp_path: Path,
) -> None:
    """A server refuses what its pipeline would refuse."""
    engine = PipelineEngine(EventFiles(tmp_path), path=tmp_path / "a.nearcast")
    engine.apply_all([Subscribe(Subscription("s1", "a", Box(0, 0, 1, 1)))])
    with pytest.raises(NotOnSparkError, match=REASON):
        engine.subscribe("s2", "a", ISLANDS)
    with pytest.raises(NotOnSparkError, match=REASON):
        engine.move("s1", ISLANDS)
    assert [each.region for each in engine.subscriptions()] == [Box(0, 0, 1, 1)]
    engine.close()


def test_regions_of_an_earlier_release_are_read_as_they_are(tmp_path: Path) -> None:
    """Their files have no field for several polygons; they need not be written anew."""
    circle = {"type": "Circle", "center": [1, 2], "radius": 3}
    log = [subscribe("s1", BOX), {"op": "unsubscribe", "id": "s1"}, subscribe("s2", circle)]
    table = table_of(records(log))
    regions = table["region"].combine_chunks()
    kept = [field for field in regions.type if field.name != "polygons"]
    earlier = pa.StructArray.from_arrays(
        [regions.field(field.name) for field in kept], fields=kept, mask=regions.is_null()
    )
    place = table.schema.get_field_index("region")
    pq.write_table(
        table.set_column(place, pa.field("region", earlier.type), earlier), tmp_path / "old.parquet"
    )
    old = pq.read_table(tmp_path / "old.parquet")
    assert is_normal(old.schema)
    assert "polygons" not in [field.name for field in old.schema.field("region").type]
    for some, expected in ((old, table), (old.slice(1), table.slice(1))):
        assert completed(some).schema == NORMAL
        assert completed(some).to_pylist() == expected.to_pylist()
    misplaced = old.select(["op", "id", "region"]).rename_columns(["op", "id", "point"])
    assert not is_normal(misplaced.schema)
