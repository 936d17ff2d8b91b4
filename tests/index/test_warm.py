"""A message says when the compiler makes a caller wait."""

import io
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import pytest

from nearcast import _jit
from nearcast.index import index_named, warm


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_person_is_told_what_is_being_waited_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    caplog.set_level(logging.INFO, "nearcast")
    _jit._announce()
    assert terminal.getvalue().startswith("nearcast: compiling kernels")
    assert "compiling kernels" in caplog.text


def test_nothing_is_said_away_from_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    _jit._announce()
    assert capfd.readouterr().err == ""


def test_nothing_is_said_when_nothing_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[bool] = []
    monkeypatch.setattr(_jit, "_announce", lambda: said.append(True))
    with _jit.announced_compilation():
        pass
    assert said == []


def test_each_task_is_made_ready_once_and_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that only matches messages does not wait for what bulk loads and shapes need."""
    announced: list[str] = []

    @contextmanager
    def announcing() -> Iterator[None]:
        announced.append("")
        yield

    monkeypatch.setattr(warm, "_warm", set())
    monkeypatch.setattr(warm, "announced_compilation", announcing)
    kind = index_named("rarest-term")
    for task, times in (("messages", 1), ("messages", 1), ("bulk", 2), ("shapes", 3), ("bulk", 3)):
        warm.warm_up(kind, cast("warm.Task", task))
        assert len(announced) == times
