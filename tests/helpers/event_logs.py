"""Event logs of a small world, in which much happens: few terms, few ids, few places."""

from typing import Any

from hypothesis import strategies as st

from naive import Fields, Given, metres

LONS = [0, 0, 1, 1, 2, 2, 0.5, -180, -179.5, -90, 179.5, 180]
LATS = [0, 0, 1, 1, 2, 2, 0.5, -1, -90, -89.5, 45, 89.5, 90]
near: st.SearchStrategy[list[float]] = st.sampled_from(
    [[lon, lat] for lon in (0, 1, 2) for lat in (0, 1, 2)]
)
far: st.SearchStrategy[list[float]] = st.builds(
    lambda lon, lat: [lon, lat], st.sampled_from(LONS), st.sampled_from(LATS)
)
points: st.SearchStrategy[list[float]] = st.sampled_from([near, near, far]).flatmap(
    lambda chosen: chosen
)


@st.composite
def boxes(draw: st.DrawFn) -> Fields:
    (west, one), (east, other) = draw(points), draw(points)
    return {"type": "Box", "bbox": [west, min(one, other), east, max(one, other)]}


@st.composite
def circles(draw: st.DrawFn) -> Fields:
    center, border = draw(points), draw(points)
    on_border = metres(*center, *border)
    radius = draw(st.sampled_from([on_border, on_border, 0, 1000, 111_200.0, 1e7, 2.1e7]))
    return {"type": "Circle", "center": center, "radius": radius}


RINGS: list[Any] = [
    [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]],
    [[[0, 0], [0, 2], [1, 0], [0, 0]]],
    [[[-1, -1], [3, -1], [3, 3], [-1, 3], [-1, -1]], [[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]],
    [[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]], [[0.5, 0.5], [1.5, 0.5], [1, 1.5], [0.5, 0.5]]],
    [[[179, -90], [180, -90], [180, 90], [179, 90], [179, -90]]],
    [[[-180, 0], [-90, 89.5], [-180, 90], [-180, 0]]],
]
BAD_REGIONS: list[Any] = [
    {"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]},  # a bow tie
    {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [2, 2], [0, 2]]]},  # not closed
    {"type": "Polygon", "coordinates": [RINGS[0][0], [[5, 5], [6, 5], [6, 6], [5, 5]]]},
    {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [2, 2], [0, 0]]]},  # a line
    {"type": "Box", "bbox": [0, 2, 1, 1]},
    {"type": "Box", "bbox": [0, 0, 181, 1]},
    {"type": "Circle", "center": [0, 0], "radius": -1},
    {"type": "Circle", "center": [0, 90.5], "radius": 1},
    {"type": "Disc"},
    "everywhere",
    None,
]
polygons: st.SearchStrategy[Fields] = st.sampled_from(RINGS).map(
    lambda rings: {"type": "Polygon", "coordinates": rings}
)
everywhere = st.just({"type": "Box", "bbox": [-180, -90, 180, 90]})
regions: st.SearchStrategy[Fields] = st.sampled_from(
    [boxes(), circles(), polygons, polygons, everywhere]
).flatmap(lambda chosen: chosen)

ATOMS = ["ａ", "b", "c", "a-b", "É", "e\u0301", "ﬁ", "fi,c", "ß", "SS", "not", "b_c", "c!!"]
RICH_ATOMS = [
    *(
        '"a b"',
        '"fi c"',
        '"a"',
        '"A, b!"',
        "fi*",
        "ss*",
        "É",
        "*",
        "p:1",
        "p:<2",
        "p:>=1.5",
        "p:[1 TO 2]",
    ),
    *("p:*", "q.r:x", 'q.r:"X"', "q.r:true", "q:*", "p:true", 'p:"1"', "q.r:[0 TO 9]", "10:30"),
]
BAD_RICH: list[Any] = [
    *(
        '"',
        '"!"',
        "f*",
        "a*b",
        "p:",
        ":p",
        "p:<x",
        "p:[1 TO",
        "-a",
        "!a",
        '"a"b',
        "p:[1 TO 2]b",
        "*a",
    ),
    *("NOT p:1", "a OR NOT fi*", "NOT *", "a..b:1", "p:1*", '"a b', "don't*"),
]
properties: st.SearchStrategy[Any] = st.fixed_dictionaries(
    {},
    optional={
        "p": st.sampled_from([1, 1.0, 2, 1.5, "1", "¹", "x", True, None, [1, "x"], [], {"r": 1}]),
        "q": st.sampled_from(
            [
                {"r": "x"},
                {"r": ["X", 3]},
                [{"r": True}, {"r": 2}],
                {"r": None},
                {},
                7,
                [[{"r": "x"}]],
            ]
        ),
        "q.r": st.just("x"),
    },
)
multi: list[Any] = [
    [[[[0, 0], [1, 0], [1, 1], [0, 0]]], [[[1, 1], [2, 1], [2, 2], [1, 1]]]],
    [[[[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]], [[[1, 1], [3, 1], [3, 3], [1, 3], [1, 1]]]],
    [[[[179, -1], [180, -1], [180, 1], [179, 1], [179, -1]]], [[[0, 0], [1, 0], [1, 1], [0, 0]]]],
]
multi_polygons: st.SearchStrategy[Fields] = st.sampled_from(multi).map(
    lambda parts: {"type": "MultiPolygon", "coordinates": parts}
)
BAD_QUERIES: list[Any] = [
    *("", " ", "!?", "NOT a", "a OR NOT b", "(a", "a)", "()", "a AND", "OR a", "a AND OR b"),
    *("a NOT", "a OR !!", "a !!", "NOT (a AND b)", "NOT NOT NOT a", "b (NOT a OR", 5, None),
]
plain = st.lists(st.sampled_from(ATOMS), min_size=1, max_size=2).map(" ".join)
queries = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" ", " AND ", " OR "]), inner).map("".join),
        inner.map(lambda query: f"({query})"),
        st.tuples(st.sampled_from(ATOMS), inner).map(lambda two: f"{two[0]} NOT ({two[1]})"),
        st.tuples(inner, st.sampled_from(ATOMS)).map(lambda two: f"({two[0]}) NOT {two[1]}"),
    ),
    max_leaves=4,
)
simple = st.sampled_from(["a", "a", "b", "a OR b", "a NOT b", "ａ", "fi"])
rich_queries = st.recursive(
    st.lists(st.sampled_from([*ATOMS, *RICH_ATOMS, *RICH_ATOMS]), min_size=1, max_size=2).map(
        " ".join
    ),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" ", " AND ", " OR "]), inner).map("".join),
        inner.map(lambda query: f"({query})"),
        st.tuples(inner, st.sampled_from(RICH_ATOMS)).map(lambda two: f"({two[0]}) NOT {two[1]}"),
    ),
    max_leaves=4,
)
wishes = st.sampled_from([simple, simple, plain, queries]).flatmap(lambda chosen: chosen)
texts = st.lists(
    st.sampled_from(["a", "a", "a", "b", "b", "ａ", "ﬁ", *ATOMS, "AND", "("]),
    min_size=1,
    max_size=4,
).map(", ".join)


def rarely(draw: st.DrawFn, common: st.SearchStrategy[Any], odd: list[Any]) -> Any:
    """Draw one of the odd values about once in forty times."""
    return draw(st.sampled_from(odd) if draw(st.integers(0, 39)) == 23 else common)


tops = st.fixed_dictionaries(
    {"k": st.sampled_from([1, 1, 2, 3, 1000]), "alpha": st.sampled_from([0, 1, 0.5, 0.3])}
)
BAD_TOPS = [{"k": 0, "alpha": 1}, {"k": 1001, "alpha": 1}, {"k": 1, "alpha": 1.5}, {"k": 2}]
BAD_POINTS = [[0, 91], [181, 0], [0], [True, 0], "0,0", None]


NAMES = {False: ["s1", "s2", "s3"], True: ["t1", "t2"]}
BAD_NAMES: list[Any] = ["s1", "t1", "u", "", "é" * 128, 5, None]
OPS = ["subscribe", "subscribe", "move", "move", "publish", "publish", "publish", "publish"]
STEPS = [None, None, 0, 0, 1, 1, 2]


def enrich(draw: st.DrawFn, fields: Fields, ranked: bool) -> None:
    """Give an event some of what not every event has."""
    some = st.integers(0, 2).map(lambda chosen: chosen == 1)
    if fields["op"] == "publish":
        if draw(st.booleans()):  # an object that reports again and again
            fields |= {
                "id": draw(st.sampled_from(["o1", "o2"])),
                "ttl": draw(st.sampled_from([3, 9])),
            }
        if draw(some):
            fields["properties"] = rarely(draw, properties, [[], 5, "p"])
        if "region" in fields and draw(some):
            fields["region"] = draw(
                st.sampled_from([polygons, multi_polygons]).flatmap(lambda s: s)
            )
        if fields.get("text") == "a" and draw(some):
            del fields["text"]
        return
    if fields["op"] in ("subscribe", "move") and draw(some):
        fields["ttl"] = rarely(draw, st.sampled_from([1, 2, 3, 5]), [0, -1, "x"])
    if not ranked and "region" in fields and draw(some):
        fields["region"] = draw(multi_polygons)
    if ranked and fields["op"] in ("subscribe", "move") and draw(some):
        fields["region"] = draw(regions)
        if fields["op"] == "move" and draw(some):
            del fields["point"]
    if fields["op"] != "subscribe":
        return
    if draw(some):
        fields["ops"] = rarely(
            draw,
            st.sampled_from([["add"], ["remove", "change"], ["change"]]),
            [[], ["stop"], "add"],
        )
    if draw(some):
        fields["meta"] = rarely(draw, st.just({"who": "x"}), [[1], "x"])
    if ranked:
        if draw(some):
            fields["filter"] = rarely(draw, rich_queries, BAD_RICH)
        if draw(some) and isinstance(fields.get("top"), dict):
            more = st.fixed_dictionaries(
                {},
                optional={
                    "scale": st.sampled_from([50_000, 2e5, 1e7]),
                    "min_score": st.sampled_from([0.3, 0.5]),
                },
            )
            fields["top"] = fields["top"] | draw(more)
        return
    if draw(some):
        fields["query"] = rarely(draw, rich_queries, BAD_RICH)
    missing = draw(st.sampled_from(["query", "region", None, None, None, None]))
    if missing is not None:
        fields.pop(missing, None)


@st.composite
def logs(draw: st.DrawFn, rich: bool = False) -> list[Fields]:
    now, made, mostly_ranked = 0.0, 0, draw(st.booleans())
    names = {kind: set[str]() for kind in NAMES}  # those used so far
    log: list[Fields] = []
    for turn in range(draw(st.integers(6, 24))):
        ranked = mostly_ranked == bool(draw(st.integers(0, 3)))
        known = names[ranked]
        ops = st.sampled_from(OPS if known and turn > 1 else OPS[:2])
        fields: Fields = {"op": rarely(draw, ops, ["unsubscribe", "unsubscribe", "stop"])}
        if fields["op"] == "publish":
            made += 1
            recent = [f"m{n}" for n in range(max(1, made - 3), made)] or ["m1"]
            fresh = draw(st.integers(0, 3)) > 0
            fields["id"] = f"m{made}" if fresh else draw(st.sampled_from(recent))
            fields["text"] = rarely(draw, texts, ["", None, 7])
            if ranked or draw(st.integers(0, 3)):
                fields["point"] = rarely(draw, points, BAD_POINTS)
            else:
                fields["region"] = rarely(draw, boxes(), BAD_REGIONS)
            fields["ttl"] = rarely(draw, st.sampled_from([0, 1, 2, 5, 5, None]), [-1, "x"])
        else:
            moving = fields["op"] != "subscribe" and known
            other_kind = draw(st.integers(0, 11)) == 5
            choice = sorted(known) if moving else NAMES[ranked != other_kind]
            fields["id"] = rarely(draw, st.sampled_from(choice), BAD_NAMES)
            if fields["id"] in NAMES[ranked]:
                known.add(fields["id"])
            if fields["op"] == "subscribe":
                fields["query"] = rarely(draw, plain if ranked else wishes, BAD_QUERIES)
            if fields["op"] == "subscribe" and ranked:
                fields["top"] = rarely(draw, tops, BAD_TOPS)
            if fields["op"] != "unsubscribe" and ranked:
                fields["point"] = rarely(draw, points, BAD_POINTS)
            elif fields["op"] != "unsubscribe":
                fields["region"] = rarely(draw, regions, BAD_REGIONS)
        if rich:
            enrich(draw, fields, ranked)
            if made and draw(st.integers(0, 9)) == 3:
                gone = [f"m{n}" for n in range(max(1, made - 3), made + 2)]
                fields = {"op": "retract", "id": draw(st.sampled_from(["o1", "o1", "o2", *gone]))}
        step = rarely(draw, st.sampled_from(STEPS), [-1, 0.5, 10])
        if step is not None:
            fields["at"] = now + step
            now = max(now, now + step)
        log.append(fields)
    return log


WINDOWS: list[tuple[int | None, float | None]] = [
    *((1, None), (2, None), (5, None), (None, None), (None, 1), (None, 2.5))
]
SPACES = [None, None, None, (-1, -1, 2, 2), (-180, -90, 1, 90)]
HISTORIES = [None, None, ("a b", "a", "c É", "ﬁ b"), ("a a a",)]
worlds = st.builds(
    lambda window, space, history: Given(window[0], window[1], space, history),
    st.sampled_from(WINDOWS),
    st.sampled_from(SPACES),
    st.sampled_from(HISTORIES),
)
