"""`nearcast serve`, `sub`, `publish`, `listen` and `keys`, as somebody types them."""

import builtins
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from nearcast.cli.main import main
from served import Served, serving


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
        ["sub", "add", "s", "q"],
        ["sub", "add", "s", "q", "--k", "3"],
        ["sub", "show", "nobody"],
        ["listen", "--count", "1", "--key", "nck_wrong"],
    ],
)
def test_bad_usage_is_told_in_one_line(
    server: Served, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, out, err = run(capsys, *arguments, "--url", server.url)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_nobody_there(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "sub", "show", "s", "--url", "http://127.0.0.1:9")
    assert code == 2
    assert "is the server running there?" in err


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
