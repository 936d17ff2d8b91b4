"""Parquet logs that are not quite right cost no more than the rows that are wrong."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearcast.errors import SourceError
from nearcast.events import Record, open_log


def read(path: Path) -> list[Record]:
    with open_log(path) as log:
        return list(log)


def not_quite_text(*values: bytes) -> pa.Array:
    return pa.array(values, pa.binary()).view(pa.string())


@pytest.mark.parametrize("bad", ["op", "id", "text", "query"])
def test_a_row_with_broken_text_is_one_bad_event(tmp_path: Path, bad: str) -> None:
    path = tmp_path / "log.parquet"
    columns = {
        "op": [b"publish", b"subscribe", b"publish"],
        "id": [b"m1", b"s1", b"m2"],
        "text": [b"a", b"", "é".encode()],
        "query": [b"", b"a", b""],
    }
    broken_row = 1 if bad == "query" else 0
    columns[bad][broken_row] = b"\xff\xfe"
    table = {name: not_quite_text(*values) for name, values in columns.items()}
    region = '{"type": "Box", "bbox": [0, 0, 1, 1]}'
    pq.write_table(pa.table(table | {"region": [region] * 3}), path)
    records = read(path)
    assert [record.position for record in records if record.error] == [broken_row]
    assert rf"{bad}: b'\xff\xfe' given" in str(records[broken_row].error)


def test_the_size_of_an_object_is_that_of_its_text(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    fits, blanks = '{"a":"' + "x" * (65_536 - 9) + '" }', '{"a":1' + " " * 65_530 + "}"
    columns = {"op": ["publish"] * 3, "id": ["m1", "m2", "m3"], "point": ["[0, 0]"] * 3}
    pq.write_table(pa.table(columns | {"properties": [fits, blanks, "{}"]}), path)
    errors = [record.error for record in read(path)]
    assert [error is None for error in errors] == [True, False, True]
    assert "this has 65,537" in str(errors[1])


def test_a_column_that_stands_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    columns = [pa.array(["publish"]), pa.array(["m1"]), pa.array(["a"]), pa.array(["b"])]
    pq.write_table(pa.Table.from_arrays(columns, names=["op", "id", "text", "text"]), path)
    with pytest.raises(SourceError, match=r"log\.parquet: has more than one column 'text'"):
        read(path)
