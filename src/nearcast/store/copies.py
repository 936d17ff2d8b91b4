"""Copies of a server's folder: complete, or not there, and checked before they are used.

A copy is made beside its place and takes it by one rename. Its `manifest.json` has the size and the
checksum of each file. It goes when the copy is put to use: from then on the files change.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from nearcast.errors import DamagedStoreError, StoreError
from nearcast.store.backup import copy_file
from nearcast.store.connect import to_disk

MANIFEST = "manifest.json"
_FORMAT = 1
_PIECE = 1 << 20


def back_up(data: Path, files: Iterable[Path], target: Path) -> None:
    """Copy files of a folder in use to a new folder, with a manifest."""

    def fill(folder: Path) -> None:
        _write_manifest(folder, None)  # an unfinished folder must not pass for a copy
        for path in files:
            place = folder / path.relative_to(data)
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            copy_file(path, place)
        _write_manifest(folder, _described(folder))

    make_folder(target, fill)


def restore_copy(copy: Path, data: Path) -> int:
    """Make a server's folder of a copy, which stays as it is; return the number of files."""
    described = _read_manifest(copy)
    if described is None:
        raise StoreError(f"{copy}: has no {MANIFEST}; expected a folder that `backup` has made")
    _check(copy, copy, described)

    def fill(folder: Path) -> None:
        for name in described:
            place = folder / name
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copyfile(copy / name, place)
            place.chmod(0o600)
            to_disk(place)
        _check(copy, folder, described)

    make_folder(data, fill)
    return len(described)


def accept_copy(data: Path) -> None:
    """Check a folder that may be a copy before it is used; after that it is a copy no longer."""
    if not data.exists() and _unfinished(data).exists():
        raise StoreError(
            f"{data}: the backup of this name was not finished ({_unfinished(data).name}); "
            "make it again, or use another"
        )
    described = _read_manifest(data)
    if described is not None:
        _check(data, data, described)
        (data / MANIFEST).unlink()
        to_disk(data)


def _unfinished(folder: Path) -> Path:
    return folder.with_name(folder.name + ".unfinished")


def make_folder(target: Path, fill: Callable[[Path], None]) -> None:
    """Fill a folder beside its place, then give it its name."""
    target = target.resolve()
    unfinished = _unfinished(target)
    try:
        if target.exists() and any(target.iterdir()):
            raise StoreError(f"{target}: is there already; choose a new or empty folder")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700, parents=True)
        fill(unfinished)
        for folder in [unfinished, *(each for each in unfinished.rglob("*") if each.is_dir())]:
            to_disk(folder)
        unfinished.replace(target)
        to_disk(target.parent)
    except OSError as error:
        raise StoreError(f"{target}: cannot be written ({error.strerror}); make room") from None
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _write_manifest(folder: Path, files: dict[str, Any] | None) -> None:
    made = folder / f"{MANIFEST}.unfinished"
    text = json.dumps({"format": _FORMAT, "complete": files is not None, "files": files or {}})
    made.write_text(text, encoding="utf-8")
    to_disk(made)
    made.replace(folder / MANIFEST)


def _read_manifest(folder: Path) -> dict[str, Any] | None:
    """The files of a copy by their names; None if the folder is none."""
    try:
        found = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        files, known, complete = found["files"], found["format"] == _FORMAT, found["complete"]
        if not isinstance(files, dict):
            raise TypeError
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError):
        raise DamagedStoreError(f"{folder}: {MANIFEST} is damaged; use another backup") from None
    if not known:
        raise StoreError(f"{folder}: is a backup of another release; use that release")
    if not complete:
        raise StoreError(f"{folder}: this backup was not finished; use another")
    return files


def _check(named: Path, folder: Path, described: dict[str, Any]) -> None:
    found = _described(folder)
    for name, expected in described.items():
        if found.get(name) != expected:
            state = "is missing" if name not in found else "is not as it was when it was copied"
            raise DamagedStoreError(f"{named}: {name} {state}; use another backup")


def _described(folder: Path) -> dict[str, Any]:
    return {
        path.relative_to(folder).as_posix(): {"size": path.stat().st_size, "sha256": _sum(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }


def _sum(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            total.update(piece)
    return total.hexdigest()
