"""System calls that fail: what a broken or full disk answers, below SQLite and Python.

A filter of the kernel (seccomp) answers some calls of one thread with an error. Other threads, and
calls before it was set, are not affected, so a disk can fail for a while and then work again.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

_CALLS = {
    "x86_64": (0xC000003E, {"fsync": 74, "fdatasync": 75, "write": 1, "pwrite64": 18}),
    "aarch64": (0xC00000B7, {"fsync": 82, "fdatasync": 83, "write": 64, "pwrite64": 68}),
}
SUPPORTED = platform.machine() in _CALLS and Path("/proc/sys/kernel/seccomp/actions_avail").exists()
SYNCING = ("fsync", "fdatasync")
WRITING = ("pwrite64",)

_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _FILTER = 38, 22, 2
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


class _Program(ctypes.Structure):
    _fields_ = (("len", ctypes.c_ushort), ("filter", ctypes.c_void_p))


def fail_from_now_on(calls: tuple[str, ...], error: int = errno.EIO) -> None:
    """Let some calls of this thread fail, for the rest of its life."""
    architecture, numbers = _CALLS[platform.machine()]
    code = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _ALLOW)]
    code.append((_LOAD, 0, 0, 0))
    for call in calls:
        code += [(_EQUAL, 0, 1, numbers[call]), (_RETURN, 0, 0, _ERRNO | error)]
    code.append((_RETURN, 0, 0, _ALLOW))
    packed = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *each) for each in code))
    program = _Program(len(code), ctypes.addressof(packed))
    system = ctypes.CDLL(None, use_errno=True)
    if system.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "cannot set a filter for system calls")
    if system.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "cannot set a filter for system calls")


def while_failing(calls: tuple[str, ...], work: Callable[[], T], error: int = errno.EIO) -> T:
    """Do some work in a thread whose calls fail, and return or raise what came of it."""
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            fail_from_now_on(calls, error)
            results.append(work())
        except BaseException as caught:
            errors.append(caught)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
