"""`nearcast serve`, `sub`, `publish`, `listen` and `keys`, as somebody types them."""

import builtins
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE, Popen
from types import ModuleType
from typing import Any, Self

import pytest

from nearcast.cli.main import main
from nearcast.cli.remote import A_WHILE_S, reach
from nearcast.client import Client
from nearcast.errors import SourceError
from nearcast.server.run import bound
from served import IPAD, SALE, Served, serving

NOBODY = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(list(arguments))
    said = capsys.readouterr()
    return code, said.out, said.err


def test_from_a_subscription_to_its_update(
    server: Served, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    url = ["--url", server.url]
    code, out, _ = run(capsys, "sub", "add", "c1", "ipad", "--region", "151.2,-33.87,2000", *url)
    assert code == 0
    assert json.loads(out)["region"]["radius"] == 2000.0
    code, out, _ = run(capsys, "sub", "add", "-", "jazz", "--point", "0,0", "--k", "3", *url)
    assert json.loads(out)["top"] == {"k": 3, "alpha": 0.5}
    code, out, _ = run(capsys, "publish", "iPad!", "--point", "151.2,-33.87", "--id", "x", *url)
    assert (code, json.loads(out)) == (0, {"id": "x", "updates": 1})
    file = tmp_path / "m.jsonl"
    file.write_text('{"text":"ipad","point":[151.2,-33.87]}\n\nbad\n')
    code, out, err = run(capsys, "publish", "--file", str(file), *url)
    assert code == 2
    assert (json.loads(out)["accepted"], json.loads(out)["refused"]) == (1, 1)
    assert f"{file}:3: line: 'bad' given" in err
    code, out, _ = run(capsys, "listen", "c1", "--after", "0", "--count", "2", *url)
    updates = [json.loads(line) for line in out.splitlines()]
    assert [(update["op"], update["subscription"]) for update in updates] == [("add", "c1")] * 2
    code, out, _ = run(capsys, "sub", "list", "--bbox", "151,-34,152,-33", *url)
    assert [json.loads(line)["id"] for line in out.splitlines()] == ["c1"]
    code, out, _ = run(capsys, "sub", "show", "c1", *url)
    assert json.loads(out)["results"] == []
    assert run(capsys, "sub", "remove", "c1", *url) == (0, "", "")
    code, _, err = run(capsys, "sub", "remove", "c1", *url)
    assert code == 2
    assert "404" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["publish", "x"],
        ["publish"],
        ["publish", "x", "--file", "y", "--point", "0,0"],
        ["publish", "x", "--point", "0"],
        ["sub", "add", "s"],
        ["sub", "add", "s", "q", "--k", "3"],
        ["sub", "show", "nobody"],
        ["listen", "--count", "1", "--key-file", "no-such-file"],
    ],
)
def test_bad_usage_is_told_in_one_line(
    server: Served, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, out, err = run(capsys, *arguments, "--url", server.url)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_key_comes_from_a_file_or_the_environment(
    server: Served,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that is given on the command line works, with a warning: it is seen by other users."""
    file = tmp_path / "key"
    file.write_text("nck_wrong\n")
    listing = ("sub", "list", "--url", server.url)
    code, out, unknown = run(capsys, *listing, "--key-file", str(file))
    assert (code, out, unknown.count("\n")) == (2, "", 1)
    assert "401" in unknown
    warned = run(capsys, *listing, "--key", "nck_wrong")
    assert warned[0] == 2
    assert warned[2].endswith(unknown)
    assert "--key-file" in warned[2]
    monkeypatch.setenv("NEARCAST_KEY", "nck_wrong")
    assert run(capsys, *listing) == (2, "", unknown)
    file.write_text("\n")
    assert "empty" in run(capsys, *listing, "--key-file", str(file))[2]


@pytest.mark.parametrize(
    "arguments",
    [
        ["listen"],
        ["publish", "x", "--point", "0,0"],
        ["sub", "add", "s", "q", "--region", "0,0,1"],
        ["sub", "list"],
        ["sub", "show", "s"],
        ["sub", "remove", "s"],
        ["replay", os.devnull, "--engine", f"http={NOBODY}"],
    ],
)
def test_nobody_there(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    """Every command that needs a server gives up, and says in one line what to do."""
    address = [] if arguments[0] == "replay" else ["--url", NOBODY]
    code, out, err = run(capsys, *arguments, *address, "--wait", "0")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"nearcast: {NOBODY}: cannot be reached (")
    assert "tried once; start a server there with 'nearcast serve'" in err


@pytest.mark.parametrize(("wait_s", "tries", "reported"), [(A_WHILE_S, 11, False), (6.0, 13, True)])
def test_it_waits_and_gives_up(
    capsys: pytest.CaptureFixture[str], wait_s: float, tries: int, reported: bool
) -> None:
    """It tries again and again, by a clock of its own; a long wait is reported, a short is not.

    So a command that nobody watches ends with one line on standard error.
    """
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with (
        Client(NOBODY) as client,
        pytest.raises(SourceError, match=rf"tried {tries} times in {wait_s:g} s; start a server"),
    ):
        reach(client, wait_s, clock=lambda: now[0], sleep=sleep)
    assert now == [wait_s]
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == reported
    assert all(line.startswith(f"nearcast: waiting for {NOBODY} (") for line in lines)


def test_bad_usage_needs_no_server(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["publish", "x"], ["sub", "add", "s", "q", "--region", "0,0,-1"]):
        code, _, err = run(capsys, *arguments, "--url", NOBODY)
        assert code == 2
        assert "reached" not in err


class Listening:
    """`nearcast listen` as a process of its own, and what it says."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-m", "nearcast", "listen", *arguments]
        self.process = Popen(command, stdout=PIPE, stderr=PIPE, text=True)

    def said(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.readline()

    def told(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return told

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()


def test_listening_begins_before_the_server_and_before_the_subscription(tmp_path: Path) -> None:
    """It says what is missing, connects when it can, and goes on after a restart."""
    with bound("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with Listening("s1", "--url", url, "--wait", "inf") as listening:
        assert listening.said().startswith(f"nearcast: waiting for {url} (")
        with serving(tmp_path, port=port) as server:
            assert listening.said() == "nearcast: connected\n"
            assert "listening for updates of s1, Ctrl-C ends it" in listening.said()
            assert "there is no subscription 's1'" in listening.said()
            server.http.put("/v1/subscriptions/s1", json=IPAD)
            server.post("/v1/messages", {**SALE, "id": "m1"})
            assert listening.told()["message"] == "m1"
        assert listening.said().startswith(f"nearcast: waiting for {url} (")
        with serving(tmp_path, port=port) as server:
            assert listening.said() == "nearcast: connected\n"
            server.post("/v1/messages", {**SALE, "id": "m2"})
            assert listening.told()["message"] == "m2"


def test_what_happens_after_it_says_so_is_told(server: Served) -> None:
    """Whoever publishes once it says that it listens is heard, and output is nothing but JSON."""
    server.http.put("/v1/subscriptions/early", json=IPAD)
    with Listening("early", "--url", server.url, "--count", "1") as listening:
        assert "listening for updates of early" in listening.said()
        server.post("/v1/messages", {**SALE, "id": "first"})
        assert listening.told()["message"] == "first"
        out, err = listening.process.communicate()
    assert (out, err, listening.process.returncode) == ("", "", 0)


def test_a_listener_that_was_told_how_long_to_wait_ends(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        listening = Listening("--url", server.url, "--wait", "0")
        assert "listening for all updates" in listening.said()
    _, err = listening.process.communicate()
    assert listening.process.returncode == 2
    assert err.startswith(f"nearcast: {server.url}: cannot be reached (")


def test_keys_are_made_listed_and_removed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    data = ["--data", str(tmp_path)]
    code, token, _ = run(capsys, "keys", "add", "phone", "--scope", "subscribe", *data)
    assert code == 0
    assert token.startswith("nck_")
    assert run(capsys, "keys", "add", "phone", *data)[0] == 2
    assert run(capsys, "keys", "add", "x", "--scope", "everything", *data)[0] == 2
    assert run(capsys, "keys", "add", "../x", *data)[0] == 2
    assert run(capsys, "keys", "add", "x", "--rate", "0", *data)[0] == 2
    _, out, _ = run(capsys, "keys", "list", *data)
    listed = json.loads(out)
    assert (listed["name"], listed["scopes"]) == ("phone", ["subscribe"])
    assert "hash" not in out
    assert token.strip() not in out
    assert run(capsys, "keys", "remove", "phone", *data)[0] == 0
    assert run(capsys, "keys", "remove", "phone", *data)[0] == 2
    assert run(capsys, "keys", "list", "--data", str(tmp_path / "none"))[0] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--host", "0.0.0.0"], "nearcast keys add"),  # noqa: S104 - refused
        (["--require-key"], "nearcast keys add"),
        (["--engine", "x"], "--engine"),
        (["--log-level", "x"], "--log-level"),
        (["--host", "300.1.1.1", "--require-key"], "keys add"),
        (["--port", "99999"], "--port"),
        (["--window-count", "1", "--window-seconds", "1"], "--window-seconds"),
    ],
)
def test_a_server_that_may_not_start(
    capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    code, _, err = run(capsys, "serve", *arguments)
    assert code == 2
    assert words in err


def test_a_port_that_is_taken(server: Served, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "serve", "--port", str(server.port))
    assert code == 2
    assert "choose another --port" in err


def test_a_folder_in_use_ends_the_server_with_a_reason(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with serving(tmp_path):
        code, _, err = run(
            capsys, "serve", "--data", str(tmp_path), "--port", "0", "--index", "scan"
        )
    assert code == 2
    assert "default.nearcast" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["serve"],
        ["keys", "list", "--data", "x"],
        ["publish", "x", "--point", "0,0"],
        ["listen"],
        ["sub", "list"],
        ["replay", "-", "--engine", "http=http://127.0.0.1:9"],
    ],
)
def test_without_the_extras_it_says_how_to_get_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.setattr("nearcast.cli.need.find_spec", lambda _: None)
    code, _, err = run(capsys, *arguments)
    assert code == 2
    assert "pip install 'nearcast[" in err


def test_the_package_needs_no_httpx_until_a_client_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import nearcast

    real = builtins.__import__

    def without_httpx(name: str, *more: Any) -> ModuleType:
        if name == "httpx":
            raise ModuleNotFoundError("No module named 'httpx'", name="httpx")
        return real(name, *more)

    for name in [name for name in sys.modules if name.startswith("nearcast.client")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(nearcast, "client", raising=False)
    monkeypatch.setattr(builtins, "__import__", without_httpx)
    with pytest.raises(nearcast.NearcastError, match=r"pip install 'nearcast\[client\]'"):
        _ = nearcast.Client
    with pytest.raises(AttributeError):
        _ = nearcast.Nothing


def test_the_fields_of_subscriptions_and_messages_as_options(
    server: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    url = ["--url", server.url]
    fence = ["--region", "10,10,11,11", "--ttl", "900", "--ops", "add,remove", "--meta", '{"a":1}']
    code, out, _ = run(capsys, "sub", "add", "fence", *fence, *url)
    assert (code, json.loads(out)["ops"]) == (0, ["add", "remove"])
    best = ["--point", "10.5,10.5", "--k", "1", "--filter", "line:333"]
    assert run(capsys, "sub", "add", "best", "bus", *best, *url)[0] == 0
    code, _, err = run(capsys, "sub", "add", "small", "bus and tram", *url)
    assert (code, err.startswith("nearcast: 'and' at position 4 is an ordinary word")) == (0, True)
    assert run(capsys, "sub", "remove", "small", *url)[0] == 0
    bus = ["--point", "10.5,10.5", "--properties", '{"line": 333}']
    code, out, _ = run(capsys, "match", "--text", "bus", *bus, *url)
    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["subscription"], "score" in each) for each in found] == [
        ("best", True),
        ("fence", False),
    ]
    place = server.http.get("/v1/updates", headers={"accept": "application/x-ndjson"})
    code, out, _ = run(capsys, "publish", "--id", "bus-7", "--ttl", "60", *bus, *url)
    assert (code, json.loads(out)) == (0, {"id": "bus-7", "updates": 1})
    code, out, _ = run(capsys, "retract", "bus-7", *url)
    assert (code, json.loads(out)) == (0, {"id": "bus-7", "updates": 1})
    code, _, err = run(capsys, "retract", "bus-7", *url)
    assert code == 2
    assert "no message 'bus-7'" in err
    after = ["--after", place.headers["nearcast-last"], "--count", "1"]
    code, out, _ = run(capsys, "listen", "fence", *after, *url)
    assert json.loads(out)["body"]["properties"] == {"line": 333}
    assert json.loads(out)["meta"] == {"a": 1}
    code, out, _ = run(capsys, "listen", "fence", *after, "--include", "", *url)
    assert json.loads(out).keys() == {"id", "op", "subscription", "message", "at"}
    code, _, err = run(capsys, "sub", "add", "x", "a", "--meta", "[1]", *url)
    assert (code, "--meta" in err) == (2, True)
