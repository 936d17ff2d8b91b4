"""Replacing the file of a tenant by a copy of the primary's."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from nearcast.store.connect import to_disk


def replace_file(path: Path, copy: Path, aside: Path | None) -> None:
    """Put a copy in the place of a file that is closed; the old one is kept if `aside` says so."""
    if aside is not None and path.exists():
        aside.parent.mkdir(mode=0o700, exist_ok=True)
        for beside in ("", "-wal"):
            old = path.with_name(path.name + beside)
            if old.exists():
                _link(old, aside.with_name(aside.name + beside))
        to_disk(aside.parent)
    for beside in ("-wal", "-shm", "-sums"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    shutil.rmtree(path.with_name(f"{path.name}-index"), ignore_errors=True)
    copy.replace(path)
    to_disk(path.parent)


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, so that it is never without one."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:  # not on every file system
        shutil.copyfile(source, target)
