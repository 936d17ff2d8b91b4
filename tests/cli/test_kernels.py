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
from nearcast.kernels.__main__ import main as build_parts
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
    head = {"kernel": name, "signature": "()", "cpu_s": cpu_s}
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

    def fails(*parts: str, errors: object, **_: str) -> object:
        program = f"raise RuntimeError('no compiler for {parts[0]}')"
        return subprocess.Popen([sys.executable, "-c", program], stderr=errors)  # type: ignore[call-overload]

    monkeypatch.setattr(build_module, "start", fails)
    assert main(["kernels", "build", "engine", "spark"]) == 2
    assert "no compiler for" in capfd.readouterr().err
    assert not shelf.exists()


def test_missing_parts_are_divided_among_a_few_processes(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is done takes the next part, the largest first."""
    compiled: list[list[str]] = []

    class Process:
        returncode = 0

        def __init__(self, parts: tuple[str, ...], shared: str) -> None:
            self.polls = 0
            compiled.append([])
            monkeypatch.setattr(
                "nearcast.kernels.parts.compile_part", lambda part: compiled[-1].append(part)
            )
            build_parts([f"--shared={shared}", *parts])

        def poll(self) -> int | None:
            self.polls += 1
            return None if self.polls < 3 else 0

    monkeypatch.setattr(build_module, "start", lambda *parts, shared, **_: Process(parts, shared))
    monkeypatch.setattr("nearcast.kernels.build.time.sleep", lambda _: None)
    _kernel_files.mark("spark")
    told: list[tuple[int, int]] = []
    build_module.build(PARTS, 2, lambda there, total: told.append((there, total)))
    first, second = compiled
    assert first[0] == "engine"
    assert sorted(first) == sorted(part for part in PARTS if part != "spark")
    assert second == []  # the first one had done it all when the second one began
    assert all(map(_kernel_files.at_hand, PARTS))
    assert told[0][1] > 150
    assert told[-1] == (0, 0)
    assert shelf.exists()


def test_the_part_that_failed_is_named_not_those_of_others(
    shelf: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: str, errors: object, shared: str) -> object:
        _kernel_files.mark("engine")
        code = (
            "import os; pid = os.getpid()\n"
            "for name, by in (('ap-tree', 0), ('engine', pid), ('gi2', pid)):\n"
            f"  open({shared!r} + '/' + name, 'w').write(str(by))\n"
            "raise SystemExit(1)"
        )
        return subprocess.Popen([sys.executable, "-c", code], stderr=errors)  # type: ignore[call-overload]

    monkeypatch.setattr(build_module, "start", fails)
    assert main(["kernels", "build", "engine", "ap-tree", "gi2", "--processes", "1"]) == 2
    assert "those of 'gi2' could not be compiled" in capfd.readouterr().err
    assert shelf.exists()
