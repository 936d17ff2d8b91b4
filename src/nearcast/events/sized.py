"""JSON objects that know how long they were as they were given: limits are about that."""

from __future__ import annotations

from typing import Any

import msgspec

_decode = msgspec.json.Decoder().decode
_SHORT = 4096  # bytes; nothing in a line of this length is above a limit
_SIZED = ("properties", "meta")


class SizedObject(dict[str, Any]):
    """An object of a JSON text, with the bytes that it took there."""

    __slots__ = ("size",)

    def __init__(self, fields: dict[str, Any], size: int) -> None:
        super().__init__(fields)
        self.size = size


class _RawParts(msgspec.Struct):
    properties: msgspec.Raw = msgspec.Raw(b"")
    meta: msgspec.Raw = msgspec.Raw(b"")


_decode_parts = msgspec.json.Decoder(_RawParts).decode


def decode_sized(data: bytes) -> Any:
    """Decode JSON; those of its members whose size is limited know how long they were."""
    value = _decode(data)
    if type(value) is dict:
        for name in _SIZED:
            inner = value.get(name)
            if type(inner) is dict:
                value[name] = SizedObject(inner, _size(data, name))
    return value


def _size(data: bytes, name: str) -> int:
    """How long a member is; that of a short text need not be known exactly."""
    if len(data) <= _SHORT:
        return len(data)
    return len(memoryview(getattr(_decode_parts(data), name)))
