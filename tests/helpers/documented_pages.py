"""Runs what a page of the documentation shows, from top to bottom, in the current folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from documented import ROOT, words
from nearcast.cli.main import main
from served import serving

ADDRESS = "http://127.0.0.1:8080"


class Block(NamedTuple):
    """A block of a page: its language, its title if it has one, and its lines."""

    language: str
    title: str
    text: str


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page in order."""
    pattern = r"^```(\w*)(?: title=\"(.*?)\")?\n(.*?)^```$"
    for found in re.finditer(pattern, page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE):
        yield Block(found[1], found[2] or "", found[3])


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> int:
    """Run the blocks of a page, compare what it shows as output, and count what was run.

    Files are written, Python has one namespace for the page, commands run one after the other
    with a server of the test in the place of `nearcast serve`. Pipelines and benchmarks have tests
    of their own.
    """
    names: dict[str, Any] = {"__name__": "page"}
    said, ran = "", 0
    with ExitStack() as stack:
        for block in blocks(page):
            if block.title:
                Path(block.title).write_text(block.text)
            elif block.language == "python":
                exec(compile(block.text, str(page), "exec"), names)  # noqa: S102 - ours
                said, ran = capfd.readouterr().out, ran + 1
            elif block.language == "output":
                assert said == block.text, f"{page.relative_to(ROOT)} shows another output"
            elif block.language == "console":
                ran += run_commands(block.text, stack, monkeypatch, capfd)
    return ran


def run_commands(
    text: str,
    stack: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> int:
    """Run the commands of a block, and look for the lines that it shows after each."""
    ran = 0
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, *shown = part.splitlines()
        ran += 1
        if command.startswith("mkdir -p "):
            Path(command.removeprefix("mkdir -p ")).mkdir(parents=True, exist_ok=True)
        elif command.startswith("nearcast serve "):  # in a terminal of its own, or with &
            server = stack.enter_context(serving())
            monkeypatch.setenv("NEARCAST_URL", server.url)
        elif not command.startswith(("nearcast spark ", "nearcast bench ")):
            address = os.environ.get("NEARCAST_URL", ADDRESS)
            assert main([each.replace(ADDRESS, address) for each in words(command)]) == 0, command
            out, err = capfd.readouterr()
            assert err == "" or command.startswith("nearcast listen "), (command, err)
            assert "\n0 matching" not in f"\n{out}", command
            for line in shown:
                pattern = ".*".join(map(re.escape, line.split("...")))
                assert re.search(f"^{pattern}$", out, flags=re.MULTILINE), (line, out)
    return ran
