"""Arrays as bytes, for files and for packets between tasks."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.spark.topk.dskype.columns import (
    ReachedPairs,
    Refills,
    Replies,
    Requests,
    SubscriptionVersions,
    Terms,
    Updates,
    WindowMessages,
)
from nearcast.text.columns import buffers

_HEAD = struct.Struct("<Q")
_ALIGNED = 8

_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        WindowMessages,
        ReachedPairs,
        Refills,
        Replies,
        Requests,
        Terms,
        Updates,
        SubscriptionVersions,
    )
}


def pack(**values: Any) -> bytes:
    """Pack arrays, columns of ids, tuples of them from `columns`, and whatever JSON can hold."""
    parts: list[npt.NDArray[Any]] = []
    described = {name: _described(value, parts) for name, value in values.items()}
    head = json.dumps(described).encode()
    head += b" " * (-(len(head) + _HEAD.size) % _ALIGNED)
    pieces: list[Any] = [_HEAD.pack(len(head)), head]
    for part in parts:
        data = part.tobytes()
        pieces += [data, b"\0" * (-len(data) % _ALIGNED)]
    return b"".join(pieces)


def unpack(data: Any) -> dict[str, Any]:
    """The values that were packed, by name."""
    view = memoryview(data)
    (length,) = _HEAD.unpack_from(view)
    at = _HEAD.size + length
    described = json.loads(bytes(view[_HEAD.size : at]))
    reader = _Reader(view, at)
    return {name: reader.read(each) for name, each in described.items()}


class _Reader:
    """Reads packed values one after the other."""

    def __init__(self, view: memoryview, at: int) -> None:
        self._view, self._at = view, at

    def read(self, described: Any) -> Any:
        match described:
            case ["array", dtype, shape]:
                return self._array(dtype, shape)
            case ["ids", count, size]:
                offsets, data = self._array("<i8", [count + 1]), self._array("|u1", [size])
                return pa.LargeStringArray.from_buffers(
                    count, pa.py_buffer(offsets), pa.py_buffer(data)
                )
            case ["list", items]:
                return [self.read(each) for each in items]
            case ["tuple", kind, fields]:
                return _KINDS[kind](*(self.read(each) for each in fields))
        return described[1]

    def _array(self, dtype: str, shape: list[int]) -> npt.NDArray[Any]:
        kind = np.dtype(dtype)
        count = int(np.prod(shape))
        # A copy, because kernels are compiled for writable arrays only.
        found = np.frombuffer(self._view, kind, count, self._at).reshape(shape).copy()
        self._at += found.nbytes + -found.nbytes % _ALIGNED
        return found


def _described(value: Any, parts: list[npt.NDArray[Any]]) -> Any:
    if isinstance(value, np.ndarray):
        parts.append(np.ascontiguousarray(value))
        return ["array", value.dtype.str, list(value.shape)]
    if isinstance(value, pa.Array):
        data, ends = buffers(value)
        letters = data[ends[0] : ends[-1]]
        parts += [ends - ends[0], letters]
        return ["ids", len(ends) - 1, len(letters)]
    if isinstance(value, list):
        return ["list", [_described(each, parts) for each in value]]
    if type(value).__name__ in _KINDS:
        return ["tuple", type(value).__name__, [_described(each, parts) for each in value]]
    return ["plain", value]
