"""Folders of a node in which pipelines cache their state: `ROOT/PIPELINE/RUN`.

They are usually in memory, so none must stay for longer than it is used. A process that uses one
holds a lock in it. When Spark stops the Python workers of a node, their parent process removes
their folders. If that was killed too, they are removed when a pipeline next starts on the node.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from uuid import uuid4

from nearcast.errors import SourceError

_IN_USE = "in-use"
_NODE_VARIABLES = (
    "SPARK_EXECUTOR_POD_IP",  # on Kubernetes
    "NM_HOST",  # on YARN
    "SPARK_LOCAL_HOSTNAME",
    "SPARK_LOCAL_IP",
)
_PLACE_VARIABLE = "NEARCAST_CACHE"
_ROOM = 64 << 20  # bytes that must be free besides what a step may need
_FORGOTTEN_S = 3600.0


def cache_root() -> Path:
    """The root of all folders: in memory if there is room, or else a temporary folder."""
    chosen = os.environ.get(_PLACE_VARIABLE)
    if chosen:
        return Path(chosen)
    shared = Path("/dev/shm")  # noqa: S108 - folders in it are made for this user only
    good = shared.is_dir() and os.access(shared, os.W_OK)
    if good and shutil.disk_usage(shared).free > 1 << 30:
        return shared / f"nearcast-{os.getuid()}"
    return Path(tempfile.gettempdir()) / f"nearcast-{os.getuid()}"


@cache
def node_name() -> str:
    """The name that Spark, or what runs it, has for the node of this process."""
    given = (os.environ.get(name) for name in _NODE_VARIABLES)
    return next((name for name in given if name), None) or socket.gethostname()


def occupy(folder: Path) -> int:
    """Make a folder, and mark it as used until the returned descriptor is closed."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    mark = folder / _IN_USE
    with suppress(FileExistsError), mark.open("x") as file:
        file.write(str(os.getppid()))
    descriptor = os.open(mark, os.O_RDWR)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    return descriptor


def still_occupy(folder: Path) -> None:
    """Mark a folder as used just now."""
    with suppress(OSError):
        os.utime(folder / _IN_USE)


def remove_forgotten(mine: Path) -> None:
    """Remove folders of earlier runs of the pipeline that has `mine`, and of others that ended."""
    pipeline = mine.parent
    for other in _folders(pipeline.parent):
        for run in _folders(other):
            # Runs are numbered, and only one at a time works on the state of a pipeline.
            older = other == pipeline and run.name < mine.name
            if older or (other != pipeline and _forgotten(run)):
                _remove_run(run)


def make_sure_of_room(place: Path, size: int) -> None:
    """Raise an error unless there is room: a write to a mapped file would kill the process."""
    free = shutil.disk_usage(place).free
    if free < size + _ROOM:
        raise SourceError(
            f"{place}: {free >> 20} MB free, up to {(size + _ROOM) >> 20} MB needed; make room, or "
            f"set {_PLACE_VARIABLE} to a folder on a file system with more of it, on every node"
        )


def _folders(place: Path) -> list[Path]:
    try:
        return [each for each in place.iterdir() if each.is_dir()]
    except OSError:
        return []


def remove(folder: Path) -> None:
    """Remove a folder; its name is free at once, and files that are mapped stay readable."""
    gone = folder
    if not folder.name.startswith("."):  # or else a process has died while it removed it
        gone = folder.with_name(f".{folder.name}.{uuid4().hex[:8]}")
        with suppress(OSError):
            folder.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _remove_run(run: Path) -> None:
    remove(run)
    with suppress(OSError):
        run.parent.rmdir()  # if it was the last


def _forgotten(run: Path) -> bool:
    """Whether no process uses the folder of a run, nor has for a while."""
    mark = run / _IN_USE
    try:
        if not mark.exists():  # its process has yet to mark it, or was killed
            return _age(run) > _FORGOTTEN_S
        with mark.open("r+") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return _age(mark) > _FORGOTTEN_S
    except OSError:  # in use, or removed by another process meanwhile
        return False


def _age(path: Path) -> float:
    return time.time() - path.stat().st_mtime


def remove_what_children_made() -> None:
    """Remove the folders of child processes, which have ended or are about to."""
    for pipeline in _folders(cache_root()):
        for run in _folders(pipeline):
            with suppress(OSError):
                if (run / _IN_USE).read_text() == str(os.getpid()):
                    _remove_run(run)
