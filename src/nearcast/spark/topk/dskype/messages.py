"""What the driver and the stages of a step send each other, and their bytes.

Each is a named tuple of flat arrays. The bytes of one are a description in JSON, and the arrays one
after the other.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.lists import picked
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.spark.topk.dskype.terms import Terms
from nearcast.spark.topk.reading import RankedSubscriptions
from nearcast.spark.workers.ranked_work import RankedWork
from nearcast.spark.workers.task import LeftFile, TaskReport
from nearcast.text.columns import buffers

_HEAD = struct.Struct("<Q")
_ALIGNED = 8

Wanted = RankedSubscriptions[Terms]
"""Versions of subscriptions that are found, evaluated or buffered."""


class Portion(NamedTuple):
    """One of `portions` portions in which all buffers are rebuilt."""

    number: int
    portions: int


@dataclass
class DskypeWork(RankedWork):
    """One step of distributed top-k, or one portion of a rebuild before it."""

    spread: bytes  # which finders hold which subscriptions
    finders: int
    epoch: int  # of the buffers
    base: list[LeftFile] | None  # what the rebuild left that began the epoch, if that is this step
    left: list[LeftFile]  # what the previous step left, in this epoch
    portion: Portion | None  # to rebuild; None to take the step


class WindowMessages(NamedTuple):
    """Messages of the window, oldest first; finders are sent those that they must match."""

    numbers: Int64s
    points: Floats
    terms: Terms
    counts: Int32s  # how often each term occurs

    @classmethod
    def read(cls, rows: pa.Table, terms: Terms, counts: Int32s) -> WindowMessages:
        """Read them from rows in the schema `window.MESSAGES`, with the terms of their texts."""
        points = np.column_stack([rows["lon"].to_numpy(), rows["lat"].to_numpy()])
        return cls(rows["number"].to_numpy(), points, terms, counts)

    def of(self, which: Int64s | Int32s) -> WindowMessages:
        """Some of them."""
        _, places = picked(self.terms.starts, which)
        return WindowMessages(
            self.numbers[which], self.points[which], self.terms.of(which), self.counts[places]
        )


class ReachedPairs(NamedTuple):
    """Pairs of a subscription and a message that reaches its threshold, with scores."""

    owners: Int32s
    numbers: Int64s
    scores: Floats


class Requests(NamedTuple):
    """Versions to evaluate, each from event `since` to before event `until`.

    The requests of one subscription are consecutive. `before` has the numbers of the k best of each
    before `since`, `before_scores` their scores, NaN where they stay as they are; with the flag
    `CONTINUES` both follow from the preceding request instead.
    """

    wanted: Wanted
    since: Int32s
    until: Int32s
    flags: Bytes
    before_starts: Int64s
    before: Int64s
    before_scores: Floats


class Replies(NamedTuple):
    """Messages that may matter to requests: of request i `numbers[starts[i] : starts[i + 1]]`."""

    starts: Int64s
    numbers: Int64s
    scores: Floats


class Refills(NamedTuple):
    """Fresh buffers, each with all messages of the window that reach its threshold, by age."""

    wanted: Wanted
    thetas: Floats
    starts: Int64s
    numbers: Int64s
    scores: Floats

    def of(self, which: Int64s | Int32s) -> Refills:
        """Some of them."""
        starts, places = picked(self.starts, which)
        return Refills(
            self.wanted.of(which), self.thetas[which], starts, self.numbers[places],
            self.scores[places],
        )  # fmt: skip

    def without_messages(self, which: Int64s | Int32s) -> Refills:
        """Some of them, without messages, which finders do not need."""
        none = np.zeros(len(which) + 1, np.int64)
        return Refills(
            self.wanted.of(which), self.thetas[which], none, self.numbers[:0], self.scores[:0]
        )


class PairsFound(NamedTuple):
    """From a finder to a buffer shard."""

    pairs: list[ReachedPairs]
    reports: list[TaskReport]


class RequestsMade(NamedTuple):
    """From a buffer shard to a message worker: the file with its requests, if it has any."""

    shard: int
    requests: str | None
    reports: list[TaskReport]


class RequestsAnswered(NamedTuple):
    """From a message worker to aggregation."""

    requests: str | None
    replies: Replies | None
    reports: list[TaskReport]


class NodeStateLost(Exception):  # noqa: N818 - a restarted node is not an error
    """The state of a worker is not on its node."""


class StateLost(NamedTuple):
    """From any task to all of the next stage: a node has lost its buffers, so do nothing."""


class ShardOutcome(NamedTuple):
    """A file of a buffer shard: what it requests, and what the step changes in finders."""

    requests: Requests
    gone: Int32s  # owners that ended
    raised: Int32s  # owners whose thresholds have risen
    thetas: Floats


class FreshBuffers(NamedTuple):
    """A file of aggregation: buffers, and which finders hold the subscriptions."""

    refills: Refills
    starts: Int64s  # finder n holds places[starts[n] : starts[n + 1]]
    places: Int64s


_KINDS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        Terms, RankedSubscriptions, WindowMessages, ReachedPairs, Refills, Replies, Requests,
        PairsFound, RequestsMade, RequestsAnswered, StateLost, ShardOutcome,
        FreshBuffers,
    )
}  # fmt: skip

M = TypeVar("M")


def pack(message: Any) -> bytes:
    """A message or a file as bytes."""
    parts: list[npt.NDArray[Any]] = []
    head = json.dumps(_described(message, parts)).encode()
    head += b" " * (-(len(head) + _HEAD.size) % _ALIGNED)
    pieces: list[Any] = [_HEAD.pack(len(head)), head]
    for part in parts:
        data = part.tobytes()
        pieces += [data, b"\0" * (-len(data) % _ALIGNED)]
    return b"".join(pieces)


def unpack(data: Any, kind: type[M]) -> M:
    """Read a message or a file of that kind."""
    return _checked(_read(data), kind)


def received(packets: Iterator[bytes], kind: type[M]) -> list[M]:
    """Read the messages that were sent to a task; raise `NodeStateLost` if one of them says so."""
    found = [_read(packet) for packet in packets]
    if any(isinstance(each, StateLost) for each in found):
        raise NodeStateLost
    return [_checked(each, kind) for each in found]


def _checked(found: Any, kind: type[M]) -> M:
    if not isinstance(found, kind):
        raise TypeError(f"{type(found).__name__} where {kind.__name__} was expected")
    return found


def _read(data: Any) -> Any:
    view = memoryview(data)
    (length,) = _HEAD.unpack_from(view)
    at = _HEAD.size + length
    return _Reader(view, at).read(json.loads(bytes(view[_HEAD.size : at])))


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
            case ["report", fields]:
                return msgspec.convert(fields, TaskReport)
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
    if isinstance(value, TaskReport):
        return ["report", msgspec.to_builtins(value)]
    if type(value).__name__ in _KINDS:
        return ["tuple", type(value).__name__, [_described(each, parts) for each in value]]
    return ["plain", value]
