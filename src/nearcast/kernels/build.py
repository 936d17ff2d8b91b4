"""Builds the kernels of several parts in parallel processes, and reports progress."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from importlib import resources
from typing import IO

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
    """Compile the missing kernels of these parts, in this order."""
    _kernel_files.forget_others()
    missing = deque(part for part in parts if not _kernel_files.at_hand(part))
    total = _expected(missing)
    most = processes or os.cpu_count() or 1
    running: list[tuple[str, subprocess.Popen[bytes], IO[bytes]]] = []
    try:
        while missing or running:
            while missing and len(running) < most:
                part = missing.popleft()
                errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with its process
                running.append((part, start(part, errors), errors))
            for ended in [each for each in running if each[1].poll() is not None]:
                running.remove(ended)
                _check(*ended)
            if progress is not None:
                compiled = len(_kernel_files.kernel_files())
                progress(compiled, max(compiled, total) if running else compiled)
            if running:
                time.sleep(_LOOK_S)
    finally:
        for _, process, file in running:
            process.terminate()
            process.wait()
            file.close()


def _expected(parts: Iterable[str]) -> int:
    """Estimate the total number of kernels from the counts of the last full build."""
    counts: dict[str, int] = json.loads(
        resources.files("nearcast.kernels").joinpath(_COUNTS).read_text()
    )
    return len(_kernel_files.kernel_files()) + sum(counts.get(part, 0) for part in parts)


def _check(part: str, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    with errors:
        if process.returncode == 0:
            return
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
    raise SetupError(
        f"kernels: those of {part!r} could not be compiled ({' '.join(lines) or 'no reason'}); "
        f"run 'python -m nearcast.kernels {part}' to see all of it"
    )
