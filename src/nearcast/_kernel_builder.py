"""Compiles kernels in a process beside this one, which goes on with its work meanwhile.

The process compiles for a baseline processor, so that what it makes runs on other machines of the
family too, and can be shipped.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from typing import IO

from nearcast import _kernel_files

_NICE = 10  # whatever else the machine does comes first


def start(part: str, errors: IO[bytes] | int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
    """Start a process that compiles what a part of the package needs, and notes that it did."""
    target = _kernel_files.baseline()
    environment = os.environ | ({} if target is None else target.environment)
    environment["PYTHONPATH"] = os.pathsep.join(place for place in sys.path if place)
    return subprocess.Popen(  # noqa: S603 - our own module, in our own interpreter
        [sys.executable, "-m", "nearcast.kernels", part],
        env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors,
    )  # fmt: skip


class Builder:
    """Builds the kernels of one part beside this process, if they are not at hand."""

    def __init__(self, part: str) -> None:
        self.part = part
        self._process: subprocess.Popen[bytes] | None = None

    def done(self) -> bool:
        """Whether there is nothing to wait for; the first time, begin to build what is missing.

        Where no process can be started, or it fails, whoever uses a kernel compiles it.
        """
        if self._process is None:
            if _kernel_files.at_hand(self.part):
                return True
            try:
                self._process = start(self.part)
            except OSError:
                return True
            _make_room(self._process.pid)
            atexit.register(self.stop)
        return self._process.poll() is not None

    def stop(self) -> None:
        """End the process, if there is one; what it has compiled so far stays."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait()


def _make_room(pid: int) -> None:
    if hasattr(os, "setpriority"):
        os.setpriority(os.PRIO_PROCESS, pid, _NICE)
