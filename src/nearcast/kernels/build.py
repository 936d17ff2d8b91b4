"""Builds the kernels of several parts in parallel processes, and reports progress."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib import resources
from typing import IO, NamedTuple

from nearcast import _kernel_files
from nearcast._kernel_builder import start
from nearcast.errors import SetupError

Progress = Callable[[int, int], None]
"""Gets the number of compiled kernels, and the expected total."""

_LOOK_S = 0.2
_LAST_LINES = 3
_COUNTS = "counts.json"


def build(
    parts: Iterable[str], processes: int | None = None, progress: Progress | None = None
) -> None:
    """Compile the missing kernels of these parts, each process some of them in this order."""
    _kernel_files.forget_others()
    missing = [part for part in parts if not _kernel_files.at_hand(part)]
    total = len(_kernel_files.kernel_files()) + sum(map(_expected, missing))
    running: list[_Builder] = []
    try:
        for share in _shares(missing, processes or os.cpu_count() or 1):
            errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with its process
            running.append(_Builder(share, start(*share, errors=errors), errors))
        while running:
            for ended in [each for each in running if each.process.poll() is not None]:
                running.remove(ended)
                _check(ended)
            if progress is not None:
                compiled = len(_kernel_files.kernel_files())
                progress(compiled, max(compiled, total) if running else compiled)
            if running:
                time.sleep(_LOOK_S)
    finally:
        for each in running:
            each.process.terminate()
            each.process.wait()
            each.errors.close()


class _Builder(NamedTuple):
    """A process, the parts that it compiles one after the other, and what it says of failures."""

    parts: list[str]
    process: subprocess.Popen[bytes]
    errors: IO[bytes]


def _shares(parts: list[str], processes: int) -> list[list[str]]:
    """Divide parts among processes, so that each compiles about as many kernels.

    A process for each part would import everything again, and learn the types of numpy's functions.
    """
    shares: list[list[str]] = [[] for _ in range(min(processes, len(parts)))]
    for part in parts:
        min(shares, key=lambda share: sum(map(_expected, share))).append(part)
    return shares


def _expected(part: str) -> int:
    """How many kernels of a part the last full build compiled."""
    counts: dict[str, int] = json.loads(
        resources.files("nearcast.kernels").joinpath(_COUNTS).read_text()
    )
    return counts.get(part, 0)


def _check(ended: _Builder) -> None:
    with ended.errors as errors:
        if ended.process.returncode == 0:
            return
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
    part = next((each for each in ended.parts if not _kernel_files.at_hand(each)), ended.parts[-1])
    raise SetupError(
        f"kernels: those of {part!r} could not be compiled ({' '.join(lines) or 'no reason'}); "
        f"run 'python -m nearcast.kernels {part}' to see all of it"
    )
