"""Builds the kernels of several parts in parallel processes, and reports progress."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
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
    """Compile the missing kernels of these parts; a process that is done takes the next part.

    The largest parts come first, so that no process is left alone with one. A process for each part
    would import everything again, and learn the types of numpy's functions.
    """
    _kernel_files.carry_over()
    missing = [part for part in parts if not _kernel_files.at_hand(part)]
    missing.sort(key=_expected, reverse=True)
    total = len(_kernel_files.kernel_files()) + sum(map(_expected, missing))
    running: list[_Builder] = []
    shared = tempfile.mkdtemp()
    try:
        for _ in range(min(processes or os.cpu_count() or 1, len(missing))):
            errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with its process
            running.append(_Builder(start(*missing, errors=errors, shared=shared), errors))
        while running:
            for ended in [each for each in running if each.process.poll() is not None]:
                running.remove(ended)
                _check(ended, Path(shared))
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
        shutil.rmtree(shared, ignore_errors=True)


class _Builder(NamedTuple):
    """A process, and what it says of failures."""

    process: subprocess.Popen[bytes]
    errors: IO[bytes]


def _expected(part: str) -> int:
    """How many kernels of a part the last full build compiled."""
    counts: dict[str, int] = json.loads(
        resources.files("nearcast.kernels").joinpath(_COUNTS).read_text()
    )
    return counts.get(part, 0)


def _check(ended: _Builder, shared: Path) -> None:
    with ended.errors as errors:
        if ended.process.returncode == 0:
            return
        errors.seek(0)
        lines = errors.read().decode(errors="replace").splitlines()[-_LAST_LINES:]
    taken = [path.name for path in shared.iterdir() if path.read_text() == str(ended.process.pid)]
    part = next((each for each in taken if not _kernel_files.at_hand(each)), "a part")
    raise SetupError(
        f"kernels: those of {part!r} could not be compiled ({' '.join(lines) or 'no reason'}); "
        f"run 'python -m nearcast.kernels {part}' to see all of it"
    )
