"""The bytes of a saved plan: a mark, a version, a description in JSON, arrays, a checksum."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast.errors import SourceError

PLAN = b"NEARPLAN"
"""The mark of a plan for boolean subscriptions; other kinds of plan have other marks."""

_HEAD = struct.Struct("<8sII")  # mark, version, length of the description
_SUM = struct.Struct("<I")
_DTYPES = ("<i4", "<i8", "<u8", "<f8")


def pack(
    version: int,
    facts: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]],
    mark: bytes = PLAN,
) -> bytes:
    """Write facts and one-dimensional arrays."""
    parts = [np.ascontiguousarray(a, a.dtype.newbyteorder("<")) for a in arrays.values()]
    listed = [[name, part.dtype.str, len(part)] for name, part in zip(arrays, parts, strict=True)]
    described = json.dumps({"facts": facts, "arrays": listed}, sort_keys=True).encode()
    head = _HEAD.pack(mark, version, len(described))
    body = b"".join([head, described, *(part.tobytes() for part in parts)])
    return body + _SUM.pack(zlib.crc32(body))


def unpack(
    version: int, data: bytes, name: str, mark: bytes = PLAN, oldest: int | None = None
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Read what `pack` wrote, from the oldest version that is known, or say why it cannot be."""
    if len(data) < _HEAD.size or not data.startswith(mark):
        raise SourceError(f"{name}: not a plan; expected a file that `nearcast spark plan` saved")
    _, found, length = _HEAD.unpack_from(data)
    if not (version if oldest is None else oldest) <= found <= version:
        raise SourceError(
            f"{name}: a plan of version {found}, this reads version {version}; "
            "make a new plan, or use the release that wrote it"
        )
    body = data[: -_SUM.size]
    if zlib.crc32(body) != _SUM.unpack(data[-_SUM.size :])[0]:
        raise SourceError(f"{name}: damaged (its checksum is wrong); make a new plan")
    try:
        described = json.loads(body[_HEAD.size : _HEAD.size + length])
        facts: dict[str, Any] = described["facts"]
        arrays: dict[str, npt.NDArray[Any]] = {}
        at = _HEAD.size + length
        for array, dtype, count in described["arrays"]:
            if dtype not in _DTYPES:
                raise ValueError(f"{array} has numbers of kind {dtype}")
            read = np.frombuffer(body, dtype, count, at)
            arrays[array] = read.astype(read.dtype.newbyteorder("="))
            at += read.nbytes
        if at != len(body):
            raise ValueError(f"{len(body) - at} bytes too many")
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(f"{name}: damaged ({error}); make a new plan") from None
    return facts, arrays


def write(path: Path, data: bytes) -> None:
    """Write a file and then let it take the place of what was there."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise SourceError(f"{path}: the plan cannot be written: {error}") from error


def read(path: Path) -> bytes:
    """Read a file whole."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: the plan cannot be read: {error}") from error
