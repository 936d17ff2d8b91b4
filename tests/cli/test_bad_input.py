"""Bad input of every kind: exit code 2 and one clear line that says where, what, and what else."""

import gzip
from pathlib import Path

import pytest

from nearcast.cli.main import main

GOOD = '{"op":"subscribe","id":"s","query":"x","region":{"type":"Box","bbox":[0,0,1,1]},"at":5}'
PUBLISH = '{"op":"publish","id":"m","text":"x","point":[0,0]'
MANY = " AND ".join(f"(a{n} OR b{n})" for n in range(11))


def subscribe(query: str) -> str:
    return GOOD.replace('"query":"x"', f'"query":"{query}"')


BAD_LINES: dict[str, tuple[str | bytes, str, str]] = {
    "broken JSON": ('{"op":"publish"', "event", "one JSON object on one line"),
    "not UTF-8": (b'{"op":"\xff"}', "event", "one JSON object"),
    "unknown op": ('{"op":"poke","id":"a"}', "op: 'poke'", "one of move, publish"),
    "missing field": ('{"op":"publish","id":"m","text":"x"}', "point: missing", "[longitude"),
    "wrong type": (PUBLISH.replace('"x"', "7") + "}", "text: 7", "a string"),
    "NaN": (PUBLISH.replace("[0,0]", "[NaN,0]") + "}", "event", "JSON"),
    "latitude 91": (PUBLISH.replace("[0,0]", "[0,91]") + "}", "point[1]: 91", "[-90, 90]"),
    "empty id": (PUBLISH.replace('"m"', '""') + "}", "id: ''", "1 to 255 bytes"),
    "id of 256 bytes": (PUBLISH.replace('"m"', f'"{"x" * 256}"') + "}", "id:", "this has 256"),
    "unbalanced query": (subscribe("(x"), "query:", "position 0"),
    "NOT-only query": (subscribe("NOT x"), "query:", "position 0"),
    "2,000-conjunct query": (subscribe(MANY), "query:", "1,024"),
    "decreasing at": (PUBLISH + ',"at":4}', "at: 4.0", "before 5.0"),
    "infinite at": (PUBLISH + ',"at":1e999}', "event", "out of range"),
    "negative ttl": (PUBLISH + ',"ttl":-1}', "ttl: -1", "0 or more"),
    "unknown id moved": (
        '{"op":"move","id":"ghost","region":{"type":"Box","bbox":[0,0,1,1]}}',
        "'ghost'",
        "subscribe it first",
    ),
    "unknown id unsubscribed": ('{"op":"unsubscribe","id":"ghost"}', "'ghost'", "subscribe it"),
    "south above north": (GOOD.replace("[0,0,1,1]", "[0,2,1,1]"), "region.bbox[1]: 2", "north"),
    "negative radius": (
        GOOD.replace('"Box","bbox":[0,0,1,1]', '"Circle","center":[0,0],"radius":-1'),
        "region.radius: -1",
        "not negative",
    ),
    "polygon that crosses itself": (
        GOOD.replace(
            '"Box","bbox":[0,0,1,1]', '"Polygon","coordinates":[[[0,0],[1,1],[1,0],[0,1],[0,0]]]'
        ),
        "region.coordinates",
        "Self-intersection",
    ),
    "k of 0": (
        '{"op":"subscribe","id":"t","query":"x","point":[0,0],"top":{"k":0,"alpha":1}}',
        "top.k: 0",
        "1 to 1000",
    ),
    "operator in a ranked query": (
        '{"op":"subscribe","id":"t","query":"x OR y","point":[0,0],"top":{"k":1,"alpha":1}}',
        "query:",
        "position 2",
    ),
}


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_named_with_its_place_and_a_remedy(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line, *expected = BAD_LINES[name]
    data = line if isinstance(line, bytes) else line.encode()
    log = tmp_path / "log.jsonl"
    log.write_bytes(GOOD.encode() + b"\n\n" + data + b"\n")
    assert main(["replay", str(log)]) == 2
    err = capfd.readouterr().err
    assert err.startswith(f"nearcast: {log}:3: ")
    assert err.count("\n") == 1
    for words in expected:
        assert isinstance(words, str)
        assert words in err


@pytest.mark.parametrize("name", BAD_LINES)
def test_with_quarantine_it_is_set_aside_and_the_rest_delivered(
    name: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    line = BAD_LINES[name][0]
    data = line if isinstance(line, bytes) else line.encode()
    log, aside = tmp_path / "log.jsonl", tmp_path / "bad.jsonl"
    good = (PUBLISH.replace('"m"', '"last"') + "}").encode()
    log.write_bytes(b"\n".join([GOOD.encode(), data, good]))
    assert main(["replay", str(log), "--on-error", f"quarantine={aside}"]) == 0
    assert (
        '"event": 2, "op": "add", "subscription": "s", "message": "last"' in capfd.readouterr().out
    )
    assert aside.read_bytes().startswith(b'{"line":2,"error":"')
    assert aside.read_bytes().count(b"\n") == 1


def test_no_depth_of_json_is_an_internal_failure(tmp_path: Path) -> None:
    """The interpreter gives up near 1,000, depending on who calls: each is a bad line, no more."""
    log, aside, out = (tmp_path / name for name in ("log.jsonl", "bad.jsonl", "out.jsonl"))
    depths = [*range(900, 1000), 100_000]
    values = ["[" * depth + "]" * depth for depth in depths]
    lines = [f'{PUBLISH}, "{field}": {value}}}' for value in values for field in ("at", "ttl")]
    log.write_text("\n".join([GOOD, *lines, PUBLISH + "}"]))
    arguments = ["--on-error", f"quarantine={aside}", "--output", str(out)]
    assert main(["replay", str(log), *arguments]) == 0
    assert aside.read_bytes().count(b"\n") == len(lines)
    assert out.read_bytes().count(b"\n") == 1


def test_a_truncated_gzip_names_the_line_it_ends_in(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl.gz"
    log.write_bytes(gzip.compress(GOOD.encode())[:-10])
    assert main(["replay", str(log)]) == 2
    err = capfd.readouterr().err
    assert err.startswith(f"nearcast: {log}:1: the gzip data ends too early")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["replay", "{folder}"], "is a directory; give the path of one file"),
        (["replay", "{folder}/missing.jsonl"], "no such file"),
        (["replay", "{log}", "--history", "{folder}/none.jsonl"], "no such file"),
        (["replay", "{log}", "--output", "{folder}/no/such/dir.jsonl"], "cannot be written"),
        (
            ["replay", "{log}", "--engine", "warp"],
            "--engine: 'warp' given; expected one of embedded",
        ),
        (["replay", "{log}", "--index", "warp"], "--index: 'warp' given; expected one of auto"),
        (["replay", "{log}", "--window-count", "0"], "window count: 0 given"),
        (["replay", "{log}", "--window-count", "x"], "--window-count"),
        (["replay", "{log}", "--window-seconds", "nan"], "window seconds: nan given"),
        (["replay", "{log}", "--window-count", "5", "--window-seconds", "5"], "only one of"),
        (["replay", "{log}", "--space", "0,0,1"], "4 numbers with commas between them: W,S,E,N"),
        (["replay", "{log}", "--space", "0,0,1,95"], "a latitude"),
        (["replay", "{log}", "--on-error", "shrug"], "stop or quarantine=FILE"),
        (["replay", "{log}", "--stem", "klingon"], "klingon"),
        (["replay", "{log}", "--stop-words", "{folder}/none"], "--stop-words"),
        (["replay"], "Missing argument"),
        (["replay", "{log}", "--colour"], "No such option"),
        (["frobnicate"], "No such command"),
        (["match", "{log}"], "either --text"),
        (["match", "{log}", "--text", "x"], "--point LON,LAT"),
        (["match", "{log}", "--query", "(x"], "position 0"),
        (["match", "{log}", "--text", "x", "--region", "0,0,5"], "a box W,S,E,N"),
    ],
)
def test_bad_usage_is_told_in_one_line(
    arguments: list[str], expected: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text(GOOD + "\n")
    filled = [a.format(folder=tmp_path, log=log) for a in arguments]
    assert main(filled) == 2
    captured = capfd.readouterr()
    assert captured.err.startswith("nearcast: ")
    assert captured.err.count("\n") == 1
    assert expected in captured.err
    assert captured.out == ""
