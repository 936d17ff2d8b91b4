"""Files of earlier releases are read as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from boolean_logs import records
from nearcast.spark.events import NORMAL, completed, is_normal, table_of

BOX = {"type": "Box", "bbox": [0, 0, 1, 1]}


def subscribe(id: str, region: Any, query: str = "a") -> dict[str, Any]:
    return {"op": "subscribe", "id": id, "query": query, "region": region}


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
