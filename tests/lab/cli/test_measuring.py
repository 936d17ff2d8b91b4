"""What all commands that measure have in common."""

import json

import numpy as np
import pytest

from nearcast_lab.cli.measuring import give


def test_numbers_of_numpy_are_numbers_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    """An hour of measuring is not lost because a mean was not rounded to a float of Python."""
    outcome = {
        "mean": np.float64(0.1),
        "short": np.float32(0.5),
        "count": np.int64(2**40),
        "holds": np.bool_(True),
        "series": [np.int32(1), np.arange(2.0)],
    }
    give(outcome, True, print)
    assert json.loads(capsys.readouterr().out) == {
        "mean": 0.1, "short": 0.5, "count": 2**40, "holds": True, "series": [1, [0.0, 1.0]],
    }  # fmt: skip


def test_what_json_cannot_hold_is_named() -> None:
    with pytest.raises(NotImplementedError, match="complex in what"):
        give({"load": 1j}, True, print)


def test_a_person_is_shown_what_was_measured(capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[object] = []
    give({"load": np.float64(1)}, False, shown.append)
    assert shown == [{"load": 1.0}]
    assert capsys.readouterr().out == ""
