"""Settings from the command line, the environment and a file, in this order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nearcast.cli.main import main
from server_process import ServerProcess

Out = pytest.CaptureFixture[str]

FILE = """
[serve]
port = 7001
max-lead = 60
allow-host = ["one.example", "two.example"]
require-key = true

[spark.run]
workers = 8
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "nearcast.toml"
    path.write_text(FILE)
    return path


def settings(capfd: Out) -> dict[tuple[str, str], tuple[object, str]]:
    rows = json.loads(capfd.readouterr().out)
    return {(row["command"], row["setting"]): (row["value"], row["from"]) for row in rows}


def test_the_environment_comes_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: Out
) -> None:
    monkeypatch.setenv("NEARCAST_SERVE_PORT", "7002")
    monkeypatch.setenv("NEARCAST_SPARK_RUN_PARTITIONER", "hybrid")
    assert main(["--config", str(file), "config"]) == 0
    shown = settings(capfd)
    assert shown["serve", "port"] == (7002, "environment")
    assert shown["serve", "max-lead"] == (60, "file")
    assert shown["serve", "allow-host"] == (["one.example", "two.example"], "file")
    assert shown["serve", "require-key"] == (True, "file")
    assert shown["serve", "host"] == ("127.0.0.1", "default")
    assert shown["spark run", "workers"] == (8, "file")
    assert shown["spark run", "partitioner"] == ("hybrid", "environment")


def test_the_file_may_be_named_in_the_environment(
    file: Path, monkeypatch: pytest.MonkeyPatch, capfd: Out
) -> None:
    monkeypatch.setenv("NEARCAST_CONFIG", str(file))
    assert main(["config", "--json"]) == 0
    assert settings(capfd)["serve", "port"] == (7001, "file")
    monkeypatch.delenv("NEARCAST_CONFIG")
    assert main(["config", "--json"]) == 0
    assert settings(capfd)["serve", "port"] == (8080, "default")


def test_a_server_takes_what_the_file_says_and_the_command_line_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The port is given on the command line, the lead and the folder by the file."""
    file = tmp_path / "nearcast.toml"
    file.write_text(f'[serve]\nport = 1\nmax-lead = 60\ndata = "{tmp_path}/deals"\n')
    monkeypatch.setenv("NEARCAST_CONFIG", str(file))
    server = ServerProcess(tmp_path / "log")
    try:
        early = {"text": "soon", "point": [0, 0], "at": 4e9}
        answer = server.http.post("/v1/messages", json=early)
        assert answer.status_code == 422
        assert "60" in answer.json()["detail"]
        assert (tmp_path / "deals").is_dir()
    finally:
        server.process.kill()
        server.process.wait()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[serve]\nprot = 1", "serve.prot: 1 given; expected the name of an option of nearcast "
         "serve, such as port"),
        ("[serve]\nport = 'x'", "Invalid value for '--port': Input should be a valid integer"),
        ("[serve]\nport = {a = 1}", "serve.port: {'a': 1} given; expected a value, not a table"),
        ("[sevre]\nport = 1", "'sevre' given; expected one of the tables serve, spark"),
        ("serve = 1", "serve: 1 given; expected a table: [serve]"),
        ("spark = {run = 1}", "spark.run: 1 given; expected a table: [spark.run]"),
        ("[serve", "expected TOML ("),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_in_one_line(
    text: str, complaint: str, file: Path, capfd: Out
) -> None:
    file.write_text(text)
    assert main(["--config", str(file), "config"]) == 2
    said = capfd.readouterr()
    assert said.out == ""
    assert complaint in said.err
    assert said.err.count("\n") == 1


def test_a_file_that_is_not_there_is_named(tmp_path: Path, capfd: Out) -> None:
    assert main(["--config", str(tmp_path / "none.toml"), "serve"]) == 2
    assert "none.toml' given; expected a file (No such file" in capfd.readouterr().err
