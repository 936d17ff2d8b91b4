"""The command line says in one line what is wrong, and ends with the code of the contract."""

from pathlib import Path

import pytest

from nearcast.cli.main import main

LOG = '{"op": "publish", "id": "m1", "text": "a", "point": [0, 0]}\n'


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.jsonl"
    path.write_text(LOG)
    return str(path)


def complaint(capsys: pytest.CaptureFixture[str]) -> str:
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nearcast: ")
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["replay"], "EVENTS"),
        (["replay", "LOG", "--colour", "red"], "No such option: --colour"),
        (["replay", "LOG", "more"], "more"),
        (["replay", "LOG", "--window-count", "some"], "--window-count"),
        (["replay", "LOG", "--window-count", "0"], "at least 1"),
        (["replay", "LOG", "--window-seconds", "nan"], "above 0"),
        (["replay", "LOG", "--window-count", "1", "--window-seconds", "1"], "only one of"),
        (["replay", "LOG", "--space", "1,2,3"], "W,S,E,N"),
        (["replay", "LOG", "--space", "10,0,-10,1"], "west at most east"),
        (["replay", "LOG", "--engine", "steam"], "--engine: 'steam' given"),
        (["replay", "LOG", "--index", "cards"], "--index: 'cards' given"),
        (["replay", "LOG", "--on-error", "shrug"], "stop or quarantine=FILE"),
        (["replay", "LOG", "--on-error", "quarantine="], "stop or quarantine=FILE"),
        (["replay", "LOG", "--history", "/no/such/file"], "/no/such/file: no such file"),
        (["replay", "LOG", "--output", "/no/such/folder/x"], "cannot be written"),
        (["replay", "LOG", "--output", "LOG"], "another file than EVENTS"),
        (["replay", "LOG", "--on-error", "quarantine=LOG"], "another file than EVENTS"),
        (["replay", "LOG", "--history", "LOG", "--output", "LOG"], "another file"),
        (
            ["replay", "LOG", "--output", "LOG.out", "--on-error", "quarantine=LOG.out"],
            "another file",
        ),
        (["replay", "LOG", "--on-error", "quarantine=-"], "go to standard output"),
        (["replay", "/no/such/file"], "/no/such/file: no such file"),
        (["fly"], "fly"),
        (["--colour"], "No such option: --colour"),
        (["bench", "nothing"], "nothing"),
        (["bench", "ingest", "--words", "many"], "; try 'nearcast bench ingest --help'"),
        (["match", "LOG"], "either --text with --point"),
        (["match", "LOG", "--query", "a", "--region", '{"type'], "--region.JSON: "),
        (["match", "LOG", "--query", "a", "--region", '{"type": "Box"}'], "--region.bbox: missing"),
        (["match", "LOG", "--query", "a", "--region", "0,0,-1"], "--region.radius: -1.0 given"),
    ],
)
def test_bad_usage_is_told_in_one_line(
    arguments: list[str], said: str, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([each.replace("LOG", log) for each in arguments]) == 2
    assert said in complaint(capsys)
    assert Path(log).read_text() == LOG


def test_a_bad_event_is_told_with_its_file_and_line(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Path(log).open("a") as file:
        file.write('\n{"op": "publish", "id": "m2", "text": "a", "point": [0, 91]}\n')
    assert main(["replay", log]) == 2
    assert complaint(capsys).startswith(f"nearcast: {log}:3: point[1]: 91 given; expected a lat")


def test_a_link_to_the_log_is_the_log(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    link = Path(log).with_name("link.jsonl")
    link.symlink_to(log)
    assert main(["replay", log, "--output", str(link)]) == 2
    assert "another file than EVENTS" in complaint(capsys)
    assert Path(log).read_text() == LOG


@pytest.mark.parametrize(
    ("stream", "arguments"),
    [("stdin", ["replay", "-"]), ("stdout", ["replay", "LOG"])],
)
def test_a_closed_standard_stream_is_bad_input(
    stream: str,
    arguments: list[str],
    log: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(f"sys.{stream}", None)
    assert main([each.replace("LOG", log) for each in arguments]) == 2
    assert "is closed" in complaint(capsys)


@pytest.mark.parametrize("command", [[], ["replay"], ["match"], ["demo"], ["bench", "ingest"]])
def test_every_command_has_help_with_an_example(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--help"]) == 0
    out, err = capsys.readouterr()
    assert "Usage:" in out
    assert not command or "Example" in out
    assert err == ""


def test_help_says_what_the_defaults_are(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("replay", "match", "demo"):
        assert main([command, "--help"]) == 0
    said = " ".join(word for word in capsys.readouterr().out.split() if word != "│")
    for default in ("[default: (100000)]", "[default: (the world)]", "[default: (until Ctrl-C)]"):
        assert default in said


@pytest.mark.parametrize("start", [b"\x1f\x8b", b"\x28\xb5\x2f\xfd"])
def test_a_packed_log_without_anything_in_it_is_told_with_its_name(
    start: bytes, log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(log).write_bytes(start)
    assert main(["replay", log]) == 2
    assert complaint(capsys).startswith(f"nearcast: {log}:1: the ")
    aside = Path(log).with_name("aside")
    assert main(["replay", log, "--on-error", f"quarantine={aside}"]) == 0
    assert "ends too early" in aside.read_text()


def test_a_full_disk_is_no_fault_of_the_program(
    log: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    everywhere = '{"type": "Box", "bbox": [-180, -90, 180, 90]}'
    subscribe = f'{{"op": "subscribe", "id": "s", "query": "a", "region": {everywhere}}}\n'
    Path(log).write_text(subscribe + LOG)
    assert main(["replay", log, "--output", "/dev/full"]) == 1
    said = complaint(capsys)
    assert "No space left on device" in said
    assert "internal error" not in said
