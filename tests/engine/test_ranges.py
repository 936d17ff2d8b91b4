"""Ranges that stand by themselves: found by the directory of their property, and exactly."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast import Box, Circle, Engine
from nearcast.engine.indexed import Indexed
from nearcast.engine.matching import BooleanSubscription
from nearcast.engine.subscriptions import IndexedSubscriptions
from nearcast.events import Subscription, Unsubscribe
from nearcast.geo import region_to_json
from nearcast.text import DEFAULT, parse_query

Number = int | float
HERE, THERE = (0.0, 0.0), (50.0, 50.0)
CIRCLE = Circle(HERE, 1000)

bounds = st.one_of(
    st.sampled_from(
        ["0", "-1", "1", "99", "100", "100.5", "110", "128", "200", "1000", "1e3", "-100", "-99.5",
         "9007199254740992", "9007199254740993", "-9007199254740993", "12345678901234567890123",
         "0.1", "5e-324", "1e308", "-0", "-0.0"]
    ),
    st.integers(-2000, 2000).map(lambda n: str(n / 8)),
)  # fmt: skip
names = st.sampled_from(["p", "q", "a.b"])
edges = st.sampled_from([-101, -100, 99, 100, 127.5, 1000, 9007199254740992])
narrow = st.builds(
    lambda name, low, width: f"{name}:[{low} TO {low + width}]",
    names,
    edges,
    st.sampled_from([0, 0.5, 1, 2, 20]),
)
ranges = st.one_of(
    narrow,
    narrow,
    st.builds("{}:[{} TO {}]".format, names, bounds, bounds),
    st.builds("{}:{}{}".format, names, st.sampled_from(["<", "<=", ">", ">="]), bounds),
)
queries = st.one_of(
    ranges,
    ranges,
    st.tuples(ranges, ranges).map(" ".join),
    st.tuples(ranges, ranges).map(" OR ".join),
    st.tuples(ranges, ranges).map("({0[0]} OR ab) {0[1]}".format),
    ranges.map("{0} NOT ab".format),
    ranges.map("p:* {0}".format),
    ranges.map("ab {0}".format),
    ranges.map("flag:true {0}".format),
    st.tuples(ranges, ranges).map("{0[0]} NOT {0[1]}".format),
    st.just("p:*"),
)
values = st.one_of(
    bounds.map(json.loads),
    bounds.map(json.loads).map(lambda number: number + 1),
    st.builds(lambda low, more: low + more, edges, st.sampled_from([0, 0, 0.5, 1, 10])),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["5", "100", "x", None, True, 2**63, 10**30]),
)
properties = st.dictionaries(
    st.sampled_from(["p", "q", "flag", "a"]),
    st.one_of(
        values,
        st.lists(values, max_size=4),
        st.lists(st.lists(values, max_size=2), max_size=2),
        st.dictionaries(st.just("b"), values | st.lists(values, max_size=3)),
        st.lists(st.dictionaries(st.just("b"), values), max_size=3),
    ),
    max_size=4,
)
messages = st.lists(
    st.tuples(st.sampled_from(["", "ab", "é"]), st.sampled_from([HERE, THERE]), properties),
    min_size=1,
    max_size=6,
)
regions = st.sampled_from([None, None, CIRCLE, Box(-1, -1, 60, 60)])
interests = st.lists(st.tuples(queries, regions), min_size=1, max_size=14)


def pairs(updates: Any) -> list[str]:
    return sorted(update.subscription for update in updates)


def check(engines: list[Engine], given: list[tuple[str, Any, Any]]) -> None:
    """All find the same, one by one and as a table; the last one is `scan`."""
    table = pa.table(
        {
            "id": [f"t{number}" for number in range(len(given))],
            "text": [text for text, _, _ in given],
            "point": [list(point) for _, point, _ in given],
            "properties": [json.dumps(each, ensure_ascii=False) for _, _, each in given],
        }
    )
    *others, scan = engines
    expected = [pairs(scan.match(text, at, properties=each)) for text, at, each in given]
    for engine in others:
        found = [pairs(engine.publish("m", text, at, properties=e)) for text, at, e in given]
        assert found == expected
        updates = engine.publish_table(table)
        of: list[list[str]] = [[] for _ in given]
        for id, message in zip(
            updates["subscription"].to_pylist(), updates["message"].to_pylist(), strict=True
        ):
            of[int(message[1:])].append(id)
        assert list(map(sorted, of)) == expected


def as_table(some: list[tuple[str, str, Any]]) -> pa.Table:
    texts = [None if region is None else json.dumps(region_to_json(region)) for *_, region in some]
    return pa.table(
        {
            "id": [id for id, _, _ in some],
            "query": [query for _, query, _ in some],
            "region": pa.array(texts, pa.string()),
        }
    )


def indexed(engine: Engine) -> IndexedSubscriptions:
    core = engine._core
    assert isinstance(core, Indexed)
    return core.boolean


@settings(max_examples=120, deadline=None)
@given(interests, interests, messages, st.data())
def test_engines_find_what_scan_finds(
    first: Any, second: Any, sent: Any, data: st.DataObject
) -> None:
    """One by one and in columns, before and after moves, replacements and withdrawals."""
    singly, loaded, over = Engine(index="rarest-term"), Engine(index="rarest-term"), Engine()
    indexed(singly).single.prepare()
    scan = Engine(index="scan")
    engines = [singly, loaded, over, scan]
    given = [(f"s{number}", *one) for number, one in enumerate([*first, *second])]
    for part in (given[: len(first)], given[len(first) :]):
        for id, query, region in part:
            for engine in (singly, over, scan):
                engine.subscribe(id, query, region)
        loaded.subscribe_table(as_table(part))
        check(engines, sent)
        over.go_over()
    assert indexed(loaded).operands.saved().counts == indexed(singly).operands.saved().counts
    for id, _, region in given:
        what = data.draw(st.integers(0, 3))
        for engine in engines:
            if what == 0:
                engine.unsubscribe(id)
            elif what == 1:
                engine.move(id, Circle(THERE, 500))
            elif what == 2:
                engine.subscribe(id, "p:>=100 q:<0", region)
    check(engines, sent)
    for engine in engines:
        for id in [one.id for one in engine.subscriptions()]:
            engine.unsubscribe(id)
    for engine in (singly, loaded, over):
        assert not len(indexed(engine).operands._ranges)
        assert indexed(engine).operands.is_plain


@settings(max_examples=100, deadline=None)
@given(st.lists(queries, min_size=1, max_size=20))
def test_columns_give_the_keys_of_single_calls(asked: list[str]) -> None:
    """The bounds that a kernel reads are those that the parser reads."""
    singly = IndexedSubscriptions("rarest-term", DEFAULT)
    for number, query in enumerate(asked):
        subscription = Subscription(f"s{number}", query)
        singly.put(BooleanSubscription(subscription, parse_query(query, DEFAULT)))
    engine = Engine(index="rarest-term")
    engine.subscribe_table(as_table([(f"s{n}", query, None) for n, query in enumerate(asked)]))
    assert keys_of_rows(indexed(engine)) == keys_of_rows(singly)


def keys_of_rows(population: IndexedSubscriptions) -> dict[str, list[tuple[str, ...]]]:
    letters = {number: term for term, number in population.terms._ids.items()}
    rows = population.table.rows
    found: dict[str, list[tuple[str, ...]]] = {}
    for row in population.table.live_rows().tolist():
        first = int(rows.first[row])
        required = rows.terms[first : first + int(rows.required[row])].tolist()
        keys = tuple(sorted(letters[number] for number in required))
        found.setdefault(population.owners.ids[int(rows.owner[row])], []).append(keys)
    return found


@given(interests, messages, st.booleans())
@settings(max_examples=15, deadline=None)
def test_a_file_is_opened_with_its_ranges(
    tmp_path_factory: pytest.TempPathFactory, asked: Any, sent: Any, bulk: bool
) -> None:
    """By its snapshot, and further changes follow."""
    path = tmp_path_factory.mktemp("ranges") / "ranges.nearcast"
    scan = Engine(index="scan")
    given = [(f"s{number}", *one) for number, one in enumerate(asked)]
    others = as_table([(f"n{number}", f"n{number} p:<3", None) for number in range(1000)])
    scan.subscribe_table(as_table(given))
    with Engine(path=path, index="rarest-term") as engine:
        engine.subscribe_table(others)  # so many that a snapshot is worth it
        if bulk:
            engine.subscribe_table(as_table(given))
        else:
            for id, query, region in given:
                engine.subscribe(id, query, region)
        counts = indexed(engine).operands.saved().counts
    with Engine(path=path, index="rarest-term") as engine:
        assert indexed(engine).operands.saved().counts == counts
        check([engine, scan], sent)
        for id, _, _ in given[: len(asked) // 2]:
            engine.unsubscribe(id)
            scan.unsubscribe(id)
        check([engine, scan], sent)


def older(folder: Path) -> Path:
    """Make the snapshot in a folder one of the version before ranges had keys."""
    (head,) = folder.glob("*/head.json")
    from nearcast.store.snapshot import _sums

    counts = json.loads((head.parent / "operands.json").read_text())
    del counts["ranges"]
    (head.parent / "operands.json").write_text(json.dumps(counts))
    about = json.loads(head.read_text())
    head.write_text(json.dumps({**about, "format": 5, "files": _sums(head.parent)}))
    return head.parent


@pytest.mark.parametrize("query", ["p:<{}", "a{}"])
def test_a_snapshot_of_an_earlier_version(
    query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without properties is used; others are made anew, as their rows have other keys."""
    path = tmp_path / "old.nearcast"
    with Engine(path=path, index="rarest-term") as engine:
        given = [(f"s{number}", query.format(number), None) for number in range(1200)]
        engine.subscribe_table(as_table(given))
    older(tmp_path / "old.nearcast-index")
    built: list[int] = []
    put = IndexedSubscriptions.put_columns

    def counted(self: IndexedSubscriptions, new: Any) -> Any:
        built.append(len(new))
        return put(self, new)

    monkeypatch.setattr(IndexedSubscriptions, "put_columns", counted)
    with Engine(path=path, index="rarest-term") as engine:
        assert (sum(built) > 0) == query.startswith("p")
        found = engine.match("a7", HERE, properties={"p": 1190.5})
        assert len(found) == (9 if query.startswith("p") else 1)
        engine.apply_all([Unsubscribe(f"s{number}") for number in range(0, 1200, 2)])
        found = engine.match("a7", HERE, properties={"p": 1190.5})
        assert len(found) == (5 if query.startswith("p") else 1)


def looked_at(engine: Engine, price: Number) -> tuple[int, int]:
    """How many rows a message looks at, alone and in a table, and how many match."""
    population = indexed(engine)
    before = population.looked_at
    found = len(engine.publish("m", "", HERE, properties={"price": price}))
    between = population.looked_at
    texts = [json.dumps({"price": price})] * 2
    table = pa.table({"id": ["a", "b"], "text": ["", ""], "point": [list(HERE)] * 2})
    again = len(engine.publish_table(table.append_column("properties", [texts])))
    assert again == 2 * found
    assert population.looked_at - between == 2 * (between - before)
    return between - before, found


def population_of(kind: str, count: int) -> Engine:
    """Ranges that no price from 1,000 to 2,000 is in, beside a few that some are in."""
    rng = random.Random(1)
    queries = []
    for _ in range(count):
        low = rng.choice([rng.uniform(1, 600), rng.uniform(4000, 10**6)])
        queries.append(
            {
                "between": f"price:[{low:.2f} TO {low * 1.1:.2f}]",
                "below": f"price:<{rng.uniform(1, 880):.2f}",
                "above": f"price:>={rng.uniform(2310, 10**6):.2f}",
                "around zero": f"price:[{-rng.uniform(0, 50):.2f} TO {rng.uniform(1, 880):.2f}]",
                "and another": f"price:<{rng.uniform(1, 880):.2f} sold:false",
            }[kind]
        )
    queries += [f"price:[{n} TO {n + 100}]" for n in range(1000, 2000, 100)]
    engine = Engine(index="rarest-term")
    half = len(queries) // 2
    engine.subscribe_table(as_table([(f"s{n}", q, None) for n, q in enumerate(queries[:half])]))
    for number, query in enumerate(queries[half:]):
        engine.subscribe(f"t{number}", query)
    return engine


@pytest.mark.parametrize("kind", ["between", "below", "above", "around zero", "and another"])
def test_rows_looked_at_do_not_grow_with_ranges_that_do_not_match(kind: str) -> None:
    few, many = population_of(kind, 100), population_of(kind, 3000)
    for price in (1000, 1234.5, 1500, 1999):
        looked, matched = looked_at(few, price)
        assert looked_at(many, price) == (looked, matched)
        assert 1 <= matched <= looked <= 10


def test_what_matches_is_most_of_what_is_looked_at() -> None:
    """Of ranges between bounds a quarter, and beside a bound an eighth of it.

    Rows are looked at in groups of sixteen, one for each key at least.
    """
    rng = random.Random(2)
    both, below = Engine(index="rarest-term"), Engine(index="rarest-term")
    lows = [rng.uniform(1, 1000) for _ in range(16_000)]
    spans = [(low, low + rng.uniform(0.01, 0.3) * low) for low in lows]
    both.subscribe_table(
        as_table([(f"s{n}", f"price:[{a:.2f} TO {b:.2f}]", None) for n, (a, b) in enumerate(spans)])
    )
    below.subscribe_table(
        as_table([(f"s{n}", f"price:<{low:.2f}", None) for n, low in enumerate(lows)])
    )
    for price in (20, 90.5, 333, 640, 900):
        looked, matched = looked_at(both, price)
        assert matched > 10
        assert looked < 4 * matched
        looked, matched = looked_at(below, price)
        assert looked - matched < len(lows) * price / 8000 + 16 * 80


def test_an_array_of_thousands_of_numbers() -> None:
    """Any element will do, and each key is there once."""
    engine, scan = Engine(index="rarest-term"), Engine(index="scan")
    rng = random.Random(3)
    for number in range(300):
        low, width = rng.uniform(-5000, 5000), 10 ** rng.uniform(-3, 3)
        query = rng.choice([f"p:[{low} TO {low + width}]", f"p:<{low}", f"p:>{low}"])
        engine.subscribe(f"s{number}", query)
        scan.subscribe(f"s{number}", query)
    array = [rng.randint(-1000, 4000) for _ in range(5000)]
    check([engine, scan], [("", HERE, {"p": array}), ("é", HERE, {"p": [array, {"x": 1}]})])
