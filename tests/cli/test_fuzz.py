"""Whatever stands in a log, replay ends with a code and a word: never with a traceback."""

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nearcast.cli.main import main
from nearcast.errors import NearcastError
from nearcast.events import Event, Publish, event_from_json
from nearcast.events.log import decode_json

SPACE = {"type": "Box", "bbox": [-180, -90, 180, 90]}
RING = [[0, 0], [4, 0], [0, 4], [0, 0]]
TOP: dict[str, Any] = {"k": 2, "alpha": 0.5}
SEEDS: list[dict[str, Any]] = [
    {"op": "subscribe", "id": "s1", "query": "ipad AND (discount OR sale)", "region": SPACE},
    {"op": "subscribe", "id": "s2", "query": "jazz blues", "point": [1, 2], "top": TOP},
    {"op": "subscribe", "id": "s3", "query": "a NOT b",
     "region": {"type": "Polygon", "coordinates": [RING]}},
    {"op": "move", "id": "s1", "region": {"type": "Circle", "center": [151.2, -33], "radius": 9e6}},
    {"op": "move", "id": "s2", "point": [3.5, 4]},
    {"op": "unsubscribe", "id": "s3"},
    {"op": "publish", "id": "m1", "text": "iPad sale, jazz!", "point": [151.2, -33.8], "at": 17},
    {"op": "publish", "id": "m2", "text": "jazz a", "point": [1, 2], "at": 17, "ttl": 600},
    {"op": "publish", "id": "m3", "text": "ipad sale", "region": SPACE},
    {"op": "subscribe", "id": "s4", "region": SPACE, "meta": {"to": ["me", {"n": 1}]}, "ttl": 60,
     "ops": ["add", "change"]},
    {"op": "subscribe", "id": "s5", "query": '"ipad sale" OR ja* OR shop.price:[1 TO 5]'},
    {"op": "subscribe", "id": "s6", "query": "jazz", "point": [1, 2], "region": SPACE,
     "top": TOP | {"scale": 500.0, "min_score": 0.1}, "filter": "tags:a NOT tags:b"},
    {"op": "move", "id": "s4", "ttl": 5, "region":
     {"type": "MultiPolygon", "coordinates": [[RING], [[[9, 9], [8, 9], [9, 8], [9, 9]]]]}},
    {"op": "publish", "id": "m4", "text": "jazz", "point": [1, 2], "at": 17,
     "properties": {"shop": {"price": 4.5}, "tags": ["a", ["c"]], "open": True, "none": None}},
    {"op": "retract", "id": "m5"},
]  # fmt: skip
JUNK: list[Any] = [
    *(None, True, False, 0, -0.0, -1, 1.5, 181, 1e308, -1e308, 10**30, 10**400, 2**64),
    *("", "\x00", "\u202e", "é" * 200, "🙂", "\ud83d", "NaN", "(", "NOT", "1e5", "a OR"),
    *([], {}, [[]], [{}], {"": None}, [1, 2], [0, 0, 0], {"type": "Box"}, {"k": 1}),
    *('"', "a*b", "p:<x", "p:[5 TO", "-a", {"k": 1, "alpha": 1, "scale": 0}, ["add"], ["no"]),
    *([[[0, 0]] * 5], {"type": "Circle", "center": [0, 0], "radius": -1}, [None, None]),
]
RAW_NUMBERS = [
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"1e999",
    b"-1e400",
    b"0x10",
    b"01",
    b"1e-400",
    b"-",
]
LINES = 10_000


def nodes(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The places of all values inside a value."""
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, child in inner:
        found.append((*path, key))
        if isinstance(child, dict | list):
            found += nodes(child, (*path, key))
    return found


def at_random_place(change: Callable[[random.Random, Any, Any], None]) -> Callable[..., bytes]:
    def mutate(source: random.Random, fields: dict[str, Any]) -> bytes:
        *way, last = source.choice(nodes(fields))
        holder: Any = fields
        for key in way:
            holder = holder[key]
        change(source, holder, last)
        return json.dumps(fields, ensure_ascii=source.random() < 0.5).encode(errors="surrogatepass")

    return mutate


def put_junk(source: random.Random, holder: Any, key: Any) -> None:
    holder[key] = source.choice(JUNK)


def remove(_: random.Random, holder: Any, key: Any) -> None:
    del holder[key]


def swap_type(source: random.Random, holder: Any, key: Any) -> None:
    kinds: list[Callable[[Any], Any]] = [str, lambda v: [v], lambda v: {"value": v}, json.dumps]
    holder[key] = source.choice(kinds)(holder[key])


def bury(source: random.Random, holder: Any, key: Any) -> None:
    for _ in range(source.choice([3, 50, 600])):
        holder[key] = [holder[key]] if source.random() < 0.5 else {"x": holder[key]}


def flip(source: random.Random, fields: dict[str, Any]) -> bytes:
    data = bytearray(json.dumps(fields).encode())
    for _ in range(source.randint(1, 3)):
        data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    return bytes(data)


def cut(source: random.Random, fields: dict[str, Any]) -> bytes:
    data = json.dumps(fields).encode()
    return data[: source.randrange(1, len(data))]


def double(source: random.Random, fields: dict[str, Any]) -> bytes:
    key, value = source.choice(list(fields)), source.choice(JUNK[:20])
    data = json.dumps(fields).encode()
    if source.random() < 0.3:
        return data + source.choice([data, b",", b"}", b" x"])
    return data[:-1] + b", " + json.dumps({key: value}).encode()[1:]


def raw_number(source: random.Random, fields: dict[str, Any]) -> bytes:
    key = source.choice([k for k in ("at", "ttl", "point", "id") if k in fields] or ["at"])
    fields[key] = "@" if source.random() < 0.5 else [1, "@"]
    return json.dumps(fields).encode().replace(b'"@"', source.choice(RAW_NUMBERS))


def untouched(_: random.Random, fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()


MUTATIONS = [
    *(at_random_place(change) for change in (put_junk, remove, swap_type, bury)),
    *(flip, cut, double, raw_number, untouched),
]  # fmt: skip


def read(line: bytes) -> Event | None:
    try:
        return event_from_json(decode_json(line))
    except NearcastError:
        return None


def mutated(seed: int, count: int) -> list[bytes]:
    """Give lines that were events before something happened to them."""
    source = random.Random(seed)
    lines: list[bytes] = []
    while len(lines) < count:
        fields = json.loads(json.dumps(source.choice(SEEDS)))
        if fields["op"] == "publish":
            fields["id"] = f"m{len(lines)}"  # ids in use would hide what else is wrong
        line = source.choice(MUTATIONS)(source, fields)
        event = read(line)
        if event is not None and (event.at or 0) > 17:
            continue  # a leap in time would make the rest of the log too late
        if line.strip() and b"\n" not in line:
            lines.append(line)
    return lines


def test_thousands_of_broken_lines_are_set_aside_and_all_others_delivered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, aside, out = tmp_path / "log.jsonl", tmp_path / "aside.jsonl", tmp_path / "out.jsonl"
    # A subscription that no mutation names, to see every message that is one.
    watch = {"op": "subscribe", "id": "watch", "query": "ipad OR jazz OR a", "region": SPACE}
    watch["ops"] = ["add", "change"]
    lines = [json.dumps(watch).encode(), *mutated(20, LINES)]
    log.write_bytes(b"\n".join(lines))
    arguments = ["--window-count", "50", "--output", str(out), "--on-error", f"quarantine={aside}"]
    arguments += ["--include", "message,meta"]
    assert main(["replay", str(log), *arguments]) == 0
    assert "Traceback" not in capsys.readouterr().err

    set_aside = {}
    for entry in map(json.loads, aside.read_text(encoding="utf-8").splitlines()):
        assert set(entry) == {"line", "error", "event"}
        assert "\n" not in entry["error"]
        set_aside[entry["line"] - 1] = entry["error"]
    delivered = Counter(
        (update["event"], update["message"])
        for update in map(json.loads, out.read_text(encoding="utf-8").splitlines())
        if update["subscription"] == "watch"
    )
    expected: Counter[tuple[int, str]] = Counter()
    for position, line in enumerate(lines):
        event = read(line)
        if event is None:
            assert position in set_aside, line
        elif position in set_aside:  # well-formed, but refused for what came before it
            assert set_aside[position].startswith(("id: ", "at: ", "query: ", "filter: ")), line
        elif isinstance(event, Publish):
            words = re.findall(r"[^\W_]+", event.message.text.casefold())
            if {"ipad", "jazz", "a"} & set(words):
                expected[position, event.message.id] += 1
    assert delivered == expected
    assert LINES // 3 < len(set_aside) < LINES
    assert len(expected) > LINES // 25


def test_a_broken_line_ends_replay_with_one_line_on_standard_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, out = tmp_path / "log.jsonl", tmp_path / "out.jsonl"
    codes: Counter[int] = Counter()
    for line in mutated(21, 300):
        log.write_bytes(line)
        code = main(["replay", str(log), "--output", str(out)])
        said = capsys.readouterr().err
        codes[code] += 1
        if code == 2:
            assert said.startswith(f"nearcast: {log}:1: "), line
            assert said.count("\n") == 1, line
        else:
            assert said == "", line
            assert read(line) is not None, line
    assert set(codes) == {0, 2}
    assert min(codes.values()) > 20
