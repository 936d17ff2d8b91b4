"""Replacing the file of a tenant by a copy of the primary's."""

from __future__ import annotations

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
                old.replace(aside.with_name(aside.name + beside))
        to_disk(aside.parent)
    for beside in ("-wal", "-shm"):
        path.with_name(path.name + beside).unlink(missing_ok=True)
    shutil.rmtree(path.with_name(f"{path.name}-index"), ignore_errors=True)
    copy.replace(path)
    to_disk(path.parent)
