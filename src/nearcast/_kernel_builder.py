"""Compiles kernels in a background process.

That process compiles for a level of the processor family, so that what it makes runs on other
machines of that level too, and can be shipped.
"""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
from threading import Lock
from typing import IO

from nearcast import _kernel_files

_NICE = 10  # a low priority
_building: dict[str, subprocess.Popen[bytes] | None] = {}
_lock = Lock()


def start(
    *parts: str, errors: IO[bytes] | int = subprocess.DEVNULL, shared: str = ""
) -> subprocess.Popen[bytes]:
    """Start a process that compiles what parts of the package need, and notes that it did.

    Processes with the same `shared` folder divide the parts among them.
    """
    sharing = [f"--shared={shared}"] if shared else []
    level = next(iter(_kernel_files.levels()), None)
    environment = os.environ | ({} if level is None else level.environment)
    environment["PYTHONPATH"] = os.pathsep.join(place for place in sys.path if place)
    return subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
        [sys.executable, "-m", "nearcast.kernels", *sharing, *parts],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
    )  # fmt: skip


def prepared(part: str) -> bool:
    """Whether the kernels of a part are there; the first time, start to build missing ones.

    If the process cannot be started, or fails, kernels are compiled on first use.
    """
    with _lock:
        if part not in _building:
            _building[part] = None if _kernel_files.at_hand(part) else _begin(part)
        process = _building[part]
    return process is None or process.poll() is not None


def _begin(part: str) -> subprocess.Popen[bytes] | None:
    try:
        process = start(part)
    except OSError:
        return None
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, process.pid, _NICE)
    atexit.register(_stop, process)
    why = _kernel_files.misfit()
    logging.getLogger("nearcast").info(
        "compiling kernels in a background process, once%s", f" ({why})" if why else ""
    )
    return process


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a process; what it has compiled so far stays."""
    if process.poll() is None:
        process.terminate()
        process.wait()
