"""Plans as bytes: a mark, a version, a description in JSON, arrays, a checksum."""

from __future__ import annotations

import json
import struct
import zlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from nearcast.errors import SourceError

PLAN = b"NEARPLAN"
"""The mark of a plan for boolean subscriptions; other kinds of plan have other marks."""

_HEAD = struct.Struct("<8sII")  # mark, version, length of the description
_SUM = struct.Struct("<I")
_DTYPES = ("<i4", "<i8", "<u8", "<f8")

Facts = dict[str, Any]
Arrays = dict[str, npt.NDArray[Any]]


@dataclass(frozen=True, eq=False)
class SavedPlan(ABC):
    """A plan that is never changed; a change is another plan under the next number.

    Plans are equal if their bytes are. `mark` and `version` say what the bytes hold; those of all
    earlier versions are read.
    """

    mark: ClassVar[bytes]
    version: ClassVar[int]

    @abstractmethod
    def described(self) -> tuple[Facts, Arrays]:
        """What is saved: facts that JSON can hold, and one-dimensional arrays."""

    @classmethod
    @abstractmethod
    def restored(cls, facts: Facts, arrays: Arrays) -> Self:
        """Make a plan from what `described` gave."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def changed(self, **changes: Any) -> Self:
        """Give the plan with some fields changed, under the next number."""
        facts, _ = self.described()
        return replace(self, **{"number": facts["number"] + 1} | changes)

    def to_bytes(self) -> bytes:
        """Write the plan as bytes; the same plan always gives the same bytes."""
        return pack(self.version, *self.described(), self.mark)

    @classmethod
    def from_bytes(cls, data: bytes, name: str = "plan") -> Self:
        """Read what `to_bytes` wrote; `name` is what errors call it."""
        facts, arrays = unpack(cls.version, data, name, cls.mark)
        try:
            return cls.restored(facts, arrays)
        except (KeyError, TypeError, IndexError, ValueError) as error:
            raise SourceError(f"{name}: damaged ({error}); make a new plan") from None

    def save(self, path: str | PathLike[str]) -> None:
        """Write one file; what `path` held before stays until the new file is whole."""
        _write(Path(path), self.to_bytes())

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a file that `save` wrote."""
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            raise SourceError(f"{path}: the plan cannot be read: {error}") from error
        return cls.from_bytes(data, str(path))


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


def unpack(version: int, data: bytes, name: str, mark: bytes = PLAN) -> tuple[Facts, Arrays]:
    """Read what `pack` wrote in this version or an earlier one, or say why it cannot be read."""
    if len(data) < _HEAD.size or not data.startswith(mark):
        raise SourceError(f"{name}: not a plan; expected a file that `nearcast spark plan` saved")
    _, found, length = _HEAD.unpack_from(data)
    if not 1 <= found <= version:
        raise SourceError(
            f"{name}: a plan of version {found}, this reads version {version}; "
            "make a new plan, or use the release that wrote it"
        )
    body = data[: -_SUM.size]
    if zlib.crc32(body) != _SUM.unpack(data[-_SUM.size :])[0]:
        raise SourceError(f"{name}: damaged (its checksum is wrong); make a new plan")
    try:
        described = json.loads(body[_HEAD.size : _HEAD.size + length])
        facts: Facts = described["facts"]
        arrays: Arrays = {}
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


def _write(path: Path, data: bytes) -> None:
    """Write a file and then let it take the place of what was there."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.write_bytes(data)
        unfinished.replace(path)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise SourceError(f"{path}: the plan cannot be written: {error}") from error
