"""The commands that the documentation shows for a server, as somebody types them."""

import sys
from pathlib import Path
from subprocess import PIPE, Popen

import pytest

from documented import console, help_examples, words
from nearcast.cli.main import main
from served import serving

ADDRESS = "http://127.0.0.1:8080"


def test_the_commands_of_the_documentation_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Subscribe, listen, publish, and hear of it; the server is one of the test."""
    monkeypatch.chdir(tmp_path)
    assert main(["sample", "--output", "sample.jsonl"]) == 0
    commands = console("docs/reference/server.md", "# The server")
    assert commands.pop(0).startswith("nearcast serve --data deals &")
    with serving() as server:
        monkeypatch.setenv("NEARCAST_URL", server.url)
        listening: list[Popen[str]] = []
        for command in commands:
            arguments = words(command.replace(ADDRESS, server.url))
            if arguments[-1] == "&":
                process = [sys.executable, "-m", "nearcast", *arguments[:-1]]
                listening.append(Popen(process, stdout=PIPE, stderr=PIPE, text=True))
                assert listening[-1].stderr is not None
                assert "listening for updates of s1" in listening[-1].stderr.readline()
            else:
                assert main(arguments) == 0, command
                said = capfd.readouterr()
                assert (bool(said.out), said.err) == (arguments[0] != "sample", ""), command
        for each in listening:
            assert each.stdout is not None
            assert '"subscription":"s1"' in each.stdout.readline()
            each.kill()
            each.communicate()
    assert len(listening) == 1


def test_the_examples_of_the_help_that_need_a_server_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["sample", "--output", "sample.jsonl"]) == 0
    shown = {command for command in help_examples() if f"http={ADDRESS}" in command}
    assert shown
    for command in shown:
        with serving() as server:
            assert main(words(command.replace(ADDRESS, server.url))) == 0
        assert '"subscription": "ada"' in capfd.readouterr().out
