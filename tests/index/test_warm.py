"""Whoever waits for the compiler is told so."""

import io
import logging

import pytest

from nearcast import _jit


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
