"""However a table is laid out, its columns give what its rows give one by one to `scan`."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast import Box, Engine, NearcastError, Top
from nearcast.engine import INDEX_NAMES
from nearcast.text import Analyser

INDEXES = [name for name in INDEX_NAMES if name not in ("auto", "scan")]
BBOX = pa.list_(pa.float64())
BOX_TYPE = pa.struct([("type", pa.string()), ("bbox", BBOX)])
WORDS = ["a", "B", "É", "ß", "日本", "a_b", "x\0y", "the", "running", "run", "AND", "ORs", "'"]
SPACES = [" ", "\u00a0", "\u2028", "\t", "\n", "\x1c", "\x85", "_"]

texts = st.lists(st.sampled_from(WORDS + SPACES), max_size=6).map("".join)
ids = st.sampled_from(["s", "é", "日" * 85, "x" * 255, "x\0", "S", "s2"])
numbers = st.sampled_from([-180.0, -1.0, -0.0, 0.5, 1.0, 90.0, 180.0])
lats = st.sampled_from([-90.0, -1.0, 0.0, 0.5, 1.0, 90.0])


def laid_out(table: pa.Table, how: str) -> pa.Table:
    """The same rows, in other chunks."""
    if how == "sliced":
        return pa.concat_tables([table, table]).combine_chunks().slice(len(table))
    if how == "chunked":
        return pa.concat_tables([table.slice(at, 1) for at in range(len(table))] or [table])
    if how == "padded":
        return pa.concat_tables([table.slice(0, 0), table, table.slice(0, 0)])
    return table


layouts = st.sampled_from(["plain", "sliced", "chunked", "padded"])
strings = st.sampled_from(
    [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string()), pa.string_view()]
)
pairs = st.sampled_from(
    [
        pa.list_(pa.float64()), pa.large_list(pa.float64()), pa.list_(pa.float64(), 2),
        pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.list_(pa.float16(), 2),
    ]
)  # fmt: skip
times = st.sampled_from([None, pa.float64(), pa.int64(), pa.uint8(), pa.float32(), pa.null()])


def outcome(call: Any, table: pa.Table) -> Any:
    try:
        return call(table).to_pylist()
    except NearcastError as error:
        return type(error).__name__, str(error)


def same(engine: Engine, scan: Engine) -> None:
    """Nothing tells the two apart afterwards."""
    known = sorted(map(str, scan.subscriptions()))
    assert sorted(map(str, engine.subscriptions())) == known
    for subscription in scan.subscriptions():
        assert engine.results(subscription.id) == scan.results(subscription.id)
    for number, text in enumerate(["a b é", "the run", "日本 ss x y"]):
        expected = scan.publish(f"after{number}", text, (0.5, 0.5))
        assert engine.publish(f"after{number}", text, (0.5, 0.5)) == expected


@st.composite
def subscriptions(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.lists(st.tuples(ids, texts, numbers, lats, numbers, lats), max_size=6))
    kind = draw(strings)
    table = {
        "id": pa.array([row[0] for row in rows], pa.string()).cast(kind),
        "query": pa.array([row[1] for row in rows], pa.string()).cast(draw(strings)),
        "region": pa.array(
            [{"type": "Box", "bbox": [w, min(a, b), e, max(a, b)]} for _, _, w, a, e, b in rows],
            pa.struct([("type", pa.string()), ("bbox", BBOX), ("radius", pa.float64())]),
        ),
    }
    return laid_out(pa.table(with_times(draw, table, len(rows))), draw(layouts))


@st.composite
def messages(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.lists(st.tuples(ids, texts, numbers, lats), max_size=8))
    names = [f"{row[0][:80]}{number % 5}" for number, row in enumerate(rows)]
    table = {
        "id": pa.array(names, pa.string()).cast(draw(strings)),
        "text": pa.array([row[1] for row in rows], pa.string()).cast(draw(strings)),
        "point": pa.array([[np.float16(n) for n in row[2:]] for row in rows], draw(pairs)),
    }
    ttl = draw(times)
    if ttl is not None:
        some = draw(st.lists(st.sampled_from([0, 0, 0, 5, None]), min_size=len(rows)))
        table["ttl"] = numbers_of(some[: len(rows)], ttl)
    return laid_out(pa.table(with_times(draw, table, len(rows))), draw(layouts))


def with_times(draw: st.DrawFn, table: dict[str, pa.Array], count: int) -> dict[str, pa.Array]:
    kind = draw(times)
    if kind is not None:
        values: list[Any] = draw(st.lists(st.sampled_from([0, 1, 3, None]), min_size=count))[:count]
        if draw(st.booleans()):
            values = sorted(value or 0 for value in values)
        table["at"] = numbers_of(values, kind)
    return table


def numbers_of(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.nulls(len(values)) if pa.types.is_null(kind) else pa.array(values, kind)


steps = st.lists(
    st.one_of(
        st.tuples(st.just("subscribe"), subscriptions()),
        st.tuples(st.just("publish"), messages()),
        st.tuples(st.just("drop"), ids),
        st.tuples(st.just("rank"), st.just("r")),
    ),
    min_size=1,
    max_size=7,
)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("analyser", [Analyser(), Analyser("english", ["the"])])
@settings(max_examples=25, deadline=None)
@given(log=steps)
def test_columns_in_any_layout_give_what_rows_give(
    index: str, analyser: Analyser, log: list[tuple[str, Any]]
) -> None:
    space = Box(-180, -90, 90, 90)
    engine = Engine(index=index, window_count=4, analyser=analyser, space=space)
    scan = Engine(index="scan", window_count=4, analyser=analyser, space=space)
    for verb, what in log:
        if verb == "drop":
            for one in (engine, scan):
                if any(s.id == what for s in one.subscriptions()):
                    one.unsubscribe(what)
        elif verb == "rank":
            top = Top(2, 0.5)
            assert engine.subscribe("r", "a run", point=(0, 0), top=top) == scan.subscribe(
                "r", "a run", point=(0, 0), top=top
            )
        elif verb == "publish":
            assert outcome(engine.publish_table, what) == outcome(scan.publish_table, what)
        else:
            assert outcome(engine.subscribe_table, what) == outcome(scan.subscribe_table, what)
    same(engine, scan)


BOX = {"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}
ODD_MESSAGES: dict[str, Any] = {
    "ttl of text": {"ttl": ["5"]},
    "ttl of truth": {"ttl": [False]},
    "ttl of lists": {"ttl": [[0.0]]},
    "ttl of NaN": {"ttl": [float("nan")]},
    "at of text": {"at": ["5"]},
    "at of truth": {"at": [True]},
    "at of NaN": {"at": [float("nan")]},
    "at of lists": {"at": [[1.0]]},
    "point of three": {"point": [[0.0, 0.0, 0.0]]},
    "point with null": {"point": [[0.0, None]]},
    "point of NaN": {"point": [[0.0, float("nan")]]},
    "point of null": {"point": pa.array([None], BBOX)},
    "point of text": {"point": ["[0, 0]"]},
    "id of numbers": {"id": [5]},
    "id of null": {"id": pa.array([None], pa.string())},
    "empty id": {"id": [""]},
    "id too long": {"id": ["é" * 128]},
    "text of null": {"text": pa.array([None], pa.string())},
    "text not UTF-8": {"text": pa.array([b"a \xff"]).view(pa.string())},
    "id not UTF-8": {"id": pa.array([b"a\xff"]).view(pa.string())},
    "ttl of durations": {"ttl": pa.array([0], pa.duration("s"))},
    "at of timestamps": {"at": pa.array([0], pa.timestamp("s"))},
    "at of decimals": {"at": pa.array([1], pa.decimal128(5))},
    "ttl of decimals": {"ttl": pa.array([0], pa.decimal128(5))},
}
ODD_SUBSCRIPTIONS: dict[str, Any] = {
    "type of numbers": {"region": [{"type": 5, "bbox": [0.0, 0.0, 1.0, 1.0]}]},
    "type of null": {"region": [{"type": None, "bbox": [0.0, 0.0, 1.0, 1.0]}]},
    "unknown type": {"region": [{"type": "box", "bbox": [0.0, 0.0, 1.0, 1.0]}]},
    "no bbox": {"region": [{"type": "Box"}]},
    "no type": {"region": [{"bbox": [0.0, 0.0, 1.0, 1.0]}]},
    "bbox of null": {"region": pa.array([BOX | {"bbox": None}], BOX_TYPE)},
    "upside down": {"region": [{"type": "Box", "bbox": [0.0, 1.0, 1.0, 0.0]}]},
    "bbox and radius": {"region": [BOX | {"radius": 5.0}]},
    "region of null": {"region": pa.nulls(1)},
    "with point": {"point": [[0.0, 0.0]]},
    "query of numbers": {"query": [5]},
    "query without terms": {"query": ["!"]},
    "query not UTF-8": {"query": pa.array([b"a \xff"]).view(pa.string())},
    "at of text": {"at": ["5"]},
    "at below": {"at": [-5]},
}  # fmt: skip


@pytest.mark.parametrize("odd", ODD_MESSAGES)
def test_odd_columns_of_messages_are_refused_as_rows_are(odd: str) -> None:
    fields: dict[str, Any] = {"id": ["m"], "text": ["a"], "point": [[0.5, 0.5]]}
    table = pa.table(fields | ODD_MESSAGES[odd])
    engine, scan = Engine(index="rarest-term"), Engine(index="scan")
    for one in (engine, scan):
        one.subscribe("s", "a", Box(0, 0, 1, 1), at=0)
    assert outcome(engine.publish_table, table) == outcome(scan.publish_table, table)
    same(engine, scan)


def test_two_columns_of_one_name_are_refused_as_in_rows() -> None:
    columns = [pa.array(["m"]), pa.array(["a"]), pa.array([[0.5, 0.5]]), pa.array([[0.1, 0.1]])]
    table = pa.Table.from_arrays(columns, ["id", "text", "point", "point"])
    expected = outcome(Engine(index="scan").publish_table, table)
    assert outcome(Engine(index="rarest-term").publish_table, table) == expected
    assert expected[0] == "SourceError"


@pytest.mark.parametrize("odd", ODD_SUBSCRIPTIONS)
def test_odd_columns_of_subscriptions_are_refused_as_rows_are(odd: str) -> None:
    fields: dict[str, Any] = {"id": ["s"], "query": ["a"], "region": [BOX]}
    table = pa.table(fields | ODD_SUBSCRIPTIONS[odd])
    engine, scan = Engine(index="rarest-term"), Engine(index="scan")
    assert outcome(engine.subscribe_table, table) == outcome(scan.subscribe_table, table)
    same(engine, scan)
