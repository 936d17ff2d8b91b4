"""`nearcast kernels`: what is compiled, and compiling it ahead of time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nearcast import _kernel_files
from nearcast.cli.main import main
from nearcast.kernels import build as build_module
from nearcast.kernels.names import PARTS


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder for kernels, where this process looks for them."""
    monkeypatch.setenv("NEARCAST_KERNELS", str(tmp_path))
    monkeypatch.setattr(_kernel_files, "home", lambda: tmp_path)
    return tmp_path / _kernel_files.stamp()


def put(shelf: Path, name: str, cpu_s: float) -> None:
    """Put a kernel there, as far as the command looks at it."""
    target = _kernel_files.targets()[0]
    shelf.mkdir(exist_ok=True)
    head = {"kernel": name, "signature": "()", "cpu_s": cpu_s, "entry": True}
    (shelf / f"{name}-1-00.{target}.kernel").write_bytes(json.dumps(head).encode() + b"\ncode")


def test_it_shows_what_there_is_and_what_each_took(
    shelf: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    put(shelf, "nearcast.quick", 0.25)
    put(shelf, "nearcast.slow", 3.5)
    _kernel_files.mark("engine")
    assert main(["kernels"]) == 0
    shown = capfd.readouterr().out
    assert f"2 in {shelf}" in shown
    assert "Ready to use: engine" in shown
    assert shown.index("nearcast.slow") < shown.index("nearcast.quick")
    assert main(["kernels", "--json"]) == 0
    told = json.loads(capfd.readouterr().out)
    assert {each["kernel"]: each["cpu_s"] for each in told["kernels"]} == {
        "nearcast.quick": 0.25,
        "nearcast.slow": 3.5,
    }
    assert [part for part, ready in told["parts"].items() if ready] == ["engine"]


def test_without_any_it_says_how_to_get_them(
    shelf: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["kernels"]) == 0
    assert "'nearcast kernels build' compiles them" in capfd.readouterr().out
    assert not shelf.exists()


def test_an_unknown_part_is_named_with_those_there_are(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["kernels", "build", "engines"]) == 2
    error = capfd.readouterr().err
    assert "'engines'" in error
    assert "ap-tree" in error


def test_a_part_that_does_not_compile_is_told_with_its_reason(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """And the processes of the others are ended."""

    def fails(*parts: str, errors: object) -> object:
        program = f"raise RuntimeError('no compiler for {parts[0]}')"
        return subprocess.Popen([sys.executable, "-c", program], stderr=errors)  # type: ignore[call-overload]

    monkeypatch.setattr(build_module, "start", fails)
    assert main(["kernels", "build", "engine", "spark"]) == 2
    assert "no compiler for" in capfd.readouterr().err
    assert not shelf.exists()


def test_missing_parts_are_divided_among_a_few_processes(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each compiles about as many kernels, and marks what it has done."""
    started: list[tuple[str, ...]] = []

    class Process:
        returncode = 0

        def __init__(self, parts: tuple[str, ...]) -> None:
            self.polls = 0
            started.append(parts)

        def poll(self) -> int | None:
            self.polls += 1
            return None if self.polls < 3 else 0

    monkeypatch.setattr(build_module, "start", lambda *parts, **_: Process(parts))
    monkeypatch.setattr("nearcast.kernels.build.time.sleep", lambda _: None)
    _kernel_files.mark("spark")
    told: list[tuple[int, int]] = []
    build_module.build(PARTS, 2, lambda there, total: told.append((there, total)))
    assert len(started) == 2
    assert sorted(sum(started, ())) == sorted(part for part in PARTS if part != "spark")
    assert all(sum(map(build_module._expected, parts)) > 200 for parts in started)
    assert told[0][1] > 500
    assert told[-1] == (0, 0)
    assert shelf.exists()


def test_the_part_that_failed_is_named_not_those_before_it(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: str, errors: object) -> object:
        _kernel_files.mark("engine")
        return subprocess.Popen([sys.executable, "-c", "raise SystemExit(1)"], stderr=errors)  # type: ignore[call-overload]

    monkeypatch.setattr(build_module, "start", fails)
    assert main(["kernels", "build", "engine", "gi2", "--processes", "1"]) == 2
    assert "those of 'gi2' could not be compiled" in capfd.readouterr().err
    assert shelf.exists()
