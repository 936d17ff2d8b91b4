"""Event logs are read and written in every format, in order, with their line numbers."""

import gzip
import io
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast import Box, Circle, Message, MultiPolygon, Polygon, Subscription, Top
from nearcast.errors import SourceError
from nearcast.events import (
    Event,
    Move,
    Publish,
    Record,
    Retract,
    Subscribe,
    Unsubscribe,
    open_log,
    open_writer,
)
from nearcast.events.lines import split_lines

ISLANDS = MultiPolygon([[[(0, 0), (4, 0), (0, 4), (0, 0)]], [[(9, 9), (8, 9), (9, 8), (9, 9)]]])
ALL_KINDS: list[Event] = [
    Subscribe(Subscription("s1", "ipad AND (discount OR sale)", Circle((151.2, -33.87), 2000))),
    Subscribe(Subscription("s2", "jazz blues", point=(1, 2), top=Top(20, 0.5)), at=1.0),
    Subscribe(Subscription("s3", "naïve 日本", Polygon([[(0, 0), (4, 0), (0, 4), (0, 0)]]))),
    Subscribe(Subscription("s4", "a", Box(170, -20, -170, -10))),
    Subscribe(Subscription("s5", "a", ISLANDS)),
    Move("s4", ISLANDS),
    Move("s1", Box(0, 0, 1, 1), at=2.0),
    Move("s2", point=(5, 6)),
    Publish(Message("m1", 'iPad sale!\n\t"quoted"', (151.21, -33.87), at=3.0, ttl=600)),
    Publish(Message("m2", "storm", region=Box(-1, -1, 1, 1))),
    Publish(Message("m3", point=(0, 0), properties={"price": 5, "tags": ["a", None]})),
    Subscribe(
        Subscription(
            "s5", "a", Box(0, 0, 1, 1), (0, 0), Top(3, 0.5, 9.0, 0.1), "b", {"c": {}}, 5, ("add",)
        )
    ),
    Unsubscribe("s3", at=3.0),
    Retract("m1", at=3.0),
]
NAMES = [
    "log.jsonl",
    "log.jsonl.gz",
    "log.jsonl.zst",
    "log.parquet",
    "log.parquet.gz",
    "log.ndjson",
    "log.parquet.zst",
]


def read(path: Path | str) -> list[Record]:
    with open_log(path) as log:
        return list(log)


def write(path: Path, events: Sequence[Event]) -> Path:
    with open_writer(path) as writer:
        for event in events:
            writer.write(event)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_what_is_written_is_read_back(tmp_path: Path, name: str) -> None:
    records = read(write(tmp_path / name, ALL_KINDS))
    assert [record.event for record in records] == ALL_KINDS
    assert [record.position for record in records] == list(range(len(ALL_KINDS)))
    assert [record.line for record in records] == list(range(1, len(ALL_KINDS) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_a_log_on_standard_input_is_told_by_its_bytes(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = write(tmp_path / name, ALL_KINDS).read_bytes()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert [record.event for record in read("-")] == ALL_KINDS


def test_blank_lines_count_as_lines_but_not_as_events(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'\n{"op":"unsubscribe","id":"a"}\r\n  \t\r\n\n{"op":"unsubscribe","id":"b"}')
    assert [(r.position, r.line) for r in read(path)] == [(0, 2), (1, 5)]
    assert [r.event for r in read(path)] == [Unsubscribe("a"), Unsubscribe("b")]


def test_an_empty_file_is_an_empty_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"")
    assert read(path) == []


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"op":"unsubscribe","id":"a"}\n')
    assert read(path)[0].event == Unsubscribe("a")


def test_bad_records_do_not_end_the_log(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"op":\nnot json\n[1]\n\xff\xfe\n{"op":"unsubscribe","id":"b"}\n')
    records = read(path)
    assert [r.event for r in records[:4]] == [None] * 4
    assert all(r.error is not None for r in records[:4])
    assert records[4].event == Unsubscribe("b")


def test_json_nested_without_end_is_an_error_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"[" * 200_000 + b'\n{"op":"unsubscribe","id":"b"}\n')
    records = read(path)
    assert "nested too deeply" in str(records[0].error)
    assert records[1].event == Unsubscribe("b")


def _packed(name: str, data: bytes) -> bytes:
    return gzip.compress(data) if name == "gzip" else zstandard.compress(data)


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_a_file_cut_off_gives_all_that_is_whole_and_then_the_error(
    tmp_path: Path, kind: str
) -> None:
    lines = [b'{"op":"unsubscribe","id":"s%d"}\n' % n for n in range(50_000)]
    path = tmp_path / "cut"
    data = _packed(kind, b"".join(lines))
    path.write_bytes(data[: len(data) // 2])
    records = read(path)
    assert len(records) > 1000
    assert [r.event for r in records[:-1]] == [
        Unsubscribe(f"s{n}") for n in range(len(records) - 1)
    ]
    assert "ends too early" in str(records[-1].error)


def test_damaged_compressed_data_is_an_error_of_its_own(tmp_path: Path) -> None:
    lines = [b'{"op":"unsubscribe","id":"s%d"}\n' % (n * n) for n in range(5_000)]
    data = bytearray(gzip.compress(b"".join(lines)))
    data[-8] ^= 0xFF  # the checksum at the end
    path = tmp_path / "damaged.gz"
    path.write_bytes(bytes(data))
    records = read(path)
    assert "damaged gzip data" in str(records[-1].error)
    assert len(records) > 4_000


@pytest.mark.parametrize("kind", ["gzip", "zstd"])
def test_compressed_members_one_after_the_other_are_one_log(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "two"
    path.write_bytes(
        _packed(kind, b'{"op":"unsubscribe","id":"a"}\n')
        + _packed(kind, b'{"op":"unsubscribe","id":"b"}\n')
    )
    assert [r.event for r in read(path)] == [Unsubscribe("a"), Unsubscribe("b")]


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no such file"):
        read(tmp_path / "missing.jsonl")
    with pytest.raises(SourceError, match="is a directory"):
        read(tmp_path)


def test_a_format_that_the_name_does_not_tell_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"end it in \.jsonl or \.parquet"):
        write(tmp_path / "log.txt", [])
    with pytest.raises(SourceError, match="cannot be written"):
        write(tmp_path / "no" / "such" / "folder.jsonl", [])


def test_a_broken_parquet_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "log.parquet", ALL_KINDS)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SourceError, match="not a readable Parquet file"):
        read(path)


def test_a_parquet_file_without_op_is_no_event_log(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"id": ["a"]}), path)
    with pytest.raises(SourceError, match="has no column 'op'"):
        read(path)


def test_regions_points_and_tops_may_be_json_text_in_parquet(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.table(
        {
            "op": ["subscribe", "subscribe", "publish", "publish"],
            "id": ["s1", "s2", "m1", "m2"],
            "query": ["a", "b", None, None],
            "text": [None, None, "a", "b"],
            "region": ['{"type": "Box", "bbox": [0, 0, 1, 1]}', None, None, "nonsense"],
            "point": [None, "[1, 2]", "[3, 4]", None],
            "top": [None, '{"k": 2, "alpha": 1}', None, None],
        }
    )
    pq.write_table(table, path)
    records = read(path)
    assert [r.event for r in records[:3]] == [
        Subscribe(Subscription("s1", "a", Box(0, 0, 1, 1))),
        Subscribe(Subscription("s2", "b", point=(1, 2), top=Top(2, 1))),
        Publish(Message("m1", "a", (3, 4))),
    ]
    assert "region: 'nonsense' given" in str(records[3].error)


def test_a_parquet_file_of_an_earlier_release_is_read(tmp_path: Path) -> None:
    """Its regions have no field for the coordinates of several polygons."""
    path = write(tmp_path / "log.parquet", ALL_KINDS)
    table = pq.read_table(path)
    place = table.schema.get_field_index("region")
    regions = table["region"].combine_chunks()
    kept = [field for field in regions.type if field.name != "polygons"]
    earlier = pa.StructArray.from_arrays(
        [regions.field(field.name) for field in kept], fields=kept, mask=regions.is_null()
    )
    table = table.set_column(place, pa.field("region", earlier.type), earlier)
    pq.write_table(table, path)
    for record, event in zip(read(path), ALL_KINDS, strict=True):
        if event in (Subscribe(Subscription("s5", "a", ISLANDS)), Move("s4", ISLANDS)):
            assert "region.coordinates: missing" in str(record.error)
        else:
            assert record.event == event


def test_progress_grows_to_one(tmp_path: Path) -> None:
    for name in NAMES[:4]:
        with open_log(write(tmp_path / name, ALL_KINDS)) as log:
            list(log)
            assert log.progress == 1.0


def test_a_line_without_end_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.events.lines.LONGEST_LINE", 100)
    *_, last = split_lines([b"x" * 60, b"y" * 60, b"z" * 60])
    assert last.number == 1
    assert "longer than 100 bytes" in str(last.error)


@given(st.binary(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_lines_do_not_depend_on_where_the_chunks_are_cut(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(data)]
    chunks = [data[a:b] for a, b in pairwise(edges)]
    text = (
        data.removeprefix(b"\xef\xbb\xbf") if chunks and chunks[0][:3] == b"\xef\xbb\xbf" else data
    )
    expected = [(n, x) for n, x in enumerate(text.split(b"\n"), 1) if x.strip(b" \t\n\r\x0b\x0c")]
    assert [(n, x) for n, x, _ in split_lines(chunks)] == expected


simple_events: st.SearchStrategy[Event] = st.sampled_from(ALL_KINDS)


@settings(max_examples=25)
@given(st.lists(simple_events, max_size=12))
def test_json_lines_and_parquet_hold_the_same_log(events: list[Event]) -> None:
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("log.jsonl", "log.parquet")]
        logs = [[r.event for r in read(write(path, events))] for path in paths]
    assert logs[0] == logs[1] == events
