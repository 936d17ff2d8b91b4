"""The arrays of the core's state: made, found again, and made longer, in whatever memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nearcast.arrays.memory import Memory
from nearcast.topk.kernels.layout import (
    AHEAD,
    CLASSES,
    DUE,
    FIRST,
    FIRST_TERM,
    LAZY,
    LIST,
    MESSAGE,
    MESSAGE_MASK,
    NEXT,
    SCALARS,
    SIZE,
    SUB,
    TERM_TAIL,
    WINDOW_COUNT,
    TopkState,
)
from nearcast.topk.window import Window

_EVER = 1 << 62

_STORED: dict[str, tuple[type, int]] = {
    "scalars": (np.int64, SCALARS),
    "measures": (np.float64, 4),
    "idf": (np.float64, 16),
    "message_f": (np.float64, 16 * MESSAGE),
    "message_i": (np.int32, 16 * MESSAGE),
    "message_terms": (np.int32, 64),
    "lists": (np.int32, 16 * LIST),
    "list_i": (np.int32, 1 << 10),
    "list_free": (np.int32, CLASSES),
    "posts": (np.int32, 16 * LIST),
    "post_i": (np.int32, 1 << 9),
    "post_free": (np.int32, CLASSES),
    "sub_f": (np.float64, 16 * SUB),
    "seat_f": (np.float64, 16 * SUB),
    "buffer_f": (np.float64, 1 << 9),
    "buffer_free": (np.int32, CLASSES),
    "more": (np.int32, 1 << 8),
    "more_free": (np.int32, CLASSES),
    "scales": (np.float64, 16),
}
"""The arrays that are not only views of others: their kinds, and how long they are at first."""

_VIEWS: dict[str, dict[str, type]] = {
    "post_i": {"post_s": np.uint16},
    "sub_f": {"sub_i": np.int32},
    "seat_f": {"seat_i": np.int32},
    "buffer_f": {"buffer_i": np.int32, "buffer_l": np.int64},
}


def sizes_of(state: TopkState) -> dict[str, int]:
    """How long each array is, by which it can be found again in memory that is kept in files."""
    return {name: len(getattr(state, name)) for name in _STORED}


def state_in(memory: Memory, sizes: Mapping[str, int] | None = None) -> TopkState:
    """The arrays of a state in some memory: those there are, of these sizes, or fresh ones."""
    arrays: dict[str, Any] = {}
    for name, (dtype, first) in _STORED.items():
        arrays |= _seen(name, memory.array(name, (sizes or {}).get(name, first), dtype))
    return TopkState(**arrays)


def new_state(
    memory: Memory, window: Window, place: tuple[float, float, float], lazy: bool
) -> TopkState:
    """A state without messages and subscriptions; `place` is the west, south and diagonal."""
    state = state_in(memory)
    scalars = state.scalars
    scalars[:] = 0
    scalars[WINDOW_COUNT] = _EVER if window.count is None else window.count
    scalars[LAZY] = lazy
    scalars[MESSAGE_MASK] = 15
    scalars[AHEAD] = -1
    state.measures[:3] = place
    state.measures[3] = np.inf if window.seconds is None else window.seconds
    state.idf[:] = 1.0
    for lists in (state.lists, state.posts):
        _clear_lists(lists)
    for free in (state.list_free, state.post_free, state.buffer_free, state.more_free):
        free[:] = -1
    state.sub_i[:] = 0
    return state


def _seen(name: str, array: np.ndarray) -> dict[str, np.ndarray]:
    """An array, and what else it is seen as."""
    views = _VIEWS.get(name, {})
    return {name: array, **{other: array.view(dtype) for other, dtype in views.items()}}


def with_longer(memory: Memory, state: TopkState, name: str, size: int) -> TopkState:
    """The state with more room in one of its arrays; what was in it is still there."""
    return state._replace(**_seen(name, longer(getattr(state, name), size, memory, name)))


def longer(
    array: np.ndarray, size: int, memory: Memory | None = None, name: str = ""
) -> np.ndarray:
    """The same array with room for more."""
    if memory is None:
        larger = np.empty(size, array.dtype)
    else:
        larger = memory.array(name, size, array.dtype)
    if memory is None or not memory.keeps:
        larger[: len(array)] = array
    return larger


def with_terms(memory: Memory, state: TopkState, count: int) -> TopkState:
    """The state with room for `count` terms, which weigh 1."""
    had = len(state.idf)
    for name in ("lists", "posts"):
        state = with_longer(memory, state, name, count * LIST)
        _clear_lists(getattr(state, name)[had * LIST :])
    state = with_longer(memory, state, "idf", count)
    state.idf[had:] = 1.0
    return state


def with_subscriptions(memory: Memory, state: TopkState, room: int) -> TopkState:
    """The state with room for that many subscriptions."""
    had = len(state.sub_f)
    state = with_longer(memory, state, "sub_f", room * SUB)
    state = with_longer(memory, state, "seat_f", room * SUB)
    state = with_longer(memory, state, "scales", room)
    state.sub_i[2 * had :] = 0
    return state


def with_larger_ring(memory: Memory, state: TopkState) -> TopkState:
    """The state with room for twice as many messages."""
    mask = int(state.scalars[MESSAGE_MASK])
    size = 2 * (mask + 1)
    numbers = np.arange(state.scalars[DUE], state.scalars[NEXT])
    old, new = numbers & mask, numbers & (size - 1)
    floats = state.message_f.reshape(-1, MESSAGE)[old]
    ints = state.message_i.reshape(-1, MESSAGE)[old]
    for name in ("message_f", "message_i"):
        state = with_longer(memory, state, name, size * MESSAGE)
    state.message_f.reshape(-1, MESSAGE)[new] = floats
    state.message_i.reshape(-1, MESSAGE)[new] = ints
    state.scalars[MESSAGE_MASK] = size - 1
    return state


def with_more_message_terms(memory: Memory, state: TopkState, room: int) -> TopkState:
    """Straighten the circle of the terms of messages into a larger one."""
    mask, old = int(state.scalars[MESSAGE_MASK]), state.message_terms
    first, tail = int(state.scalars[FIRST]), int(state.scalars[TERM_TAIL])
    rows = np.arange(first, int(state.scalars[NEXT])) & mask
    starts = state.message_i.reshape(-1, MESSAGE)[:, FIRST_TERM]
    head = int(starts[rows[0]]) if len(rows) else tail
    used = np.concatenate((old[head:], old[:tail])) if tail < head else old[head:tail].copy()
    starts[rows] = (starts[rows] - head) % len(old)
    state.scalars[TERM_TAIL] = len(used)
    state = with_longer(memory, state, "message_terms", room + 1)
    state.message_terms[: len(used)] = used
    return state


def _clear_lists(lists: np.ndarray) -> None:
    lists[:] = 0
    lists[SIZE::LIST] = -1
