"""Folders on a node are removed in the end, however often their removal was cut off."""

import shutil
from pathlib import Path

import pytest

from nearcast.spark.workers.node_folders import remove


class Killed(BaseException):
    """The end of a process."""


def test_a_removal_that_was_cut_off_often_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process that died in it had given the folder a name of its own."""

    def die(*_: object, **__: object) -> None:
        raise Killed

    run = tmp_path / "000001"
    run.mkdir()
    (run / "rows.bin").touch()
    for _ in range(30):
        left = next(tmp_path.iterdir())
        with monkeypatch.context() as patch:
            patch.setattr(shutil, "rmtree", die)
            with pytest.raises(Killed):
                remove(left)
    remove(next(tmp_path.iterdir()))
    assert list(tmp_path.iterdir()) == []
