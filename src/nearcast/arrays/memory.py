"""Where growing arrays are kept: in ordinary memory, or in files that several processes map."""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

_HUGE = 1 << 22
"""Bytes from which numpy asks for huge pages; room that is not used takes no memory."""


def give_back() -> None:
    """Give freed memory back to the system; glibc alone keeps it, what is below other blocks.

    It takes some milliseconds for gigabytes.
    """
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)


class Memory:
    """Gives arrays in ordinary memory."""

    keeps = False
    """Whether an array that is asked for again, for more room, has what was in it."""

    def room(self, name: str, row: int) -> int:
        """How many rows of `row` bytes the array made before under this name has room for."""
        del name, row
        return 0

    def array(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Give an array, uninitialised, to take the place of a smaller one of that name."""
        del name
        # Made by numpy, not in a kernel: only then it lies in huge pages. Its blocks of 64 bytes
        # must not straddle cache lines.
        kind = np.dtype(dtype)
        count = shape if isinstance(shape, int) else prod(shape)
        size = count * kind.itemsize + 64
        whole = np.empty(_HUGE if _HUGE // 4 < size < _HUGE else size, np.uint8)
        skip = -whole.ctypes.data % 64
        array: npt.NDArray[Any] = whole[skip : skip + count * kind.itemsize].view(kind)
        return array.reshape(shape)


class MappedMemory(Memory):
    """Gives arrays that are files in a folder, seen by every process that maps them.

    An array that is asked for again has what was in it. A file grows with its array and is sparse:
    room that was never written takes no memory and no disk. What should be there must be: if
    `complete`, a file that is missing or too small is an OSError.
    """

    keeps = True

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.complete = False
        self._mapped: dict[str, tuple[int, int, mmap.mmap]] = {}

    def room(self, name: str, row: int) -> int:
        """How many rows of `row` bytes the file of that name has room for."""
        try:
            return int((self.folder / f"{name}.bin").stat().st_size // row)
        except FileNotFoundError:
            return 0

    def array(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> npt.NDArray[Any]:
        """Map the file of that name, made as large as needed."""
        kind = np.dtype(dtype)
        count = shape if isinstance(shape, int) else prod(shape)
        mapped = self._map(name, max(count * kind.itemsize, 1))
        return np.frombuffer(mapped, kind, count).reshape(shape)

    def _map(self, name: str, size: int) -> mmap.mmap:
        path = self.folder / f"{name}.bin"
        made = 0 if self.complete else os.O_CREAT
        descriptor = os.open(path, os.O_RDWR | made, 0o600)
        try:
            found = os.fstat(descriptor)
            known = self._mapped.get(name)
            # What is mapped already need not be found in memory again, page by page.
            if known and known[0] == found.st_ino and size <= known[1] <= found.st_size:
                return known[2]
            if found.st_size < size:
                if self.complete:
                    raise OSError(f"{path}: is smaller than {size} bytes")
                os.ftruncate(descriptor, size)
            whole = max(size, found.st_size)
            mapped = mmap.mmap(descriptor, whole)
        finally:
            os.close(descriptor)
        self._mapped[name] = (found.st_ino, whole, mapped)
        return mapped
