"""The memory of a process, and the CPU of this one and of those it started, by what they are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_PROC = Path("/proc")


class Cpu(NamedTuple):
    """Seconds of CPU: of this process, of the JVM, and of Spark's Python workers."""

    driver: float = 0.0
    jvm: float = 0.0
    python: float = 0.0

    def since(self, before: Cpu) -> Cpu:
        """Give what was used after another reading."""
        return Cpu(*(now - then for now, then in zip(self, before, strict=True)))

    @property
    def total(self) -> float:
        """All of it."""
        return sum(self)


def resident_mib(pid: int | str = "self") -> float:
    """The memory of a process now; 0 where the system does not report it."""
    try:
        pages = int((_PROC / str(pid) / "statm").read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_seconds(pid: int) -> float:
    """The CPU time of a process so far; 0 where the system does not report it."""
    process = _read(str(pid))
    return 0.0 if process is None else process.seconds


class _Process(NamedTuple):
    parent: int
    name: str
    seconds: float


def _read(pid: str) -> _Process | None:
    try:
        text = (_PROC / pid / "stat").read_text()
    except OSError:
        return None
    name, _, rest = text.partition("(")[2].rpartition(")")
    fields = rest.split()
    return _Process(int(fields[1]), name, _seconds(fields))


def _seconds(fields: list[str]) -> float:
    """User and system time, with that of children that have ended and were waited for."""
    return sum(int(fields[place]) for place in (11, 12, 13, 14)) / os.sysconf("SC_CLK_TCK")


def cpu_used() -> Cpu:
    """Read the CPU used so far; zeros where the system does not report it."""
    if not (_PROC / "self" / "stat").exists():
        return Cpu()
    pids = (path.name for path in _PROC.iterdir() if path.name.isdigit())
    processes = {int(pid): process for pid in pids if (process := _read(pid)) is not None}
    driver = jvm = python = 0.0
    for pid, process in processes.items():
        if pid == os.getpid():
            driver += process.seconds
        elif _descends(processes, pid, os.getpid()):
            if process.name.startswith("java"):
                jvm += process.seconds
            else:
                python += process.seconds
    return Cpu(driver, jvm, python)


def _descends(processes: dict[int, _Process], pid: int, from_: int) -> bool:
    seen: set[int] = set()
    while pid in processes and pid not in seen:
        seen.add(pid)
        pid = processes[pid].parent
        if pid == from_:
            return True
    return False
