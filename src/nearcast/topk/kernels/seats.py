"""Seats: the record of where the buffer of a subscription is, and which expiry it waits for."""

from __future__ import annotations

from nearcast._jit import inlined, inner
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.topk.kernels.layout import (
    BEFORE,
    BEGIN,
    BUFFER,
    BUFFER_END,
    BUFFER_SIZES,
    END,
    K_AND_CLASS,
    MESSAGE,
    NEXT_SEAT,
    NOT_FILED,
    SEATS,
    SUB,
    TopkState,
)
from nearcast.topk.kernels.window import message_row

_SIZES = tuple(BUFFER_SIZES.tolist())
_MOST_ASKED = 128  # of larger buffers the processor guesses the rest


@inlined
def size_of_class(kind: int) -> int:
    """How many entries a buffer of a class has room for."""
    return wide(_SIZES[kind])


@inlined
def largest_class(k: int) -> int:
    """The class of the largest buffer that a subscription to the k best may have."""
    kind = 0
    while 4 * _SIZES[kind] < 11 * k:
        kind += 1
    return kind


@inlined
def depth_for(size: int) -> int:
    """How many messages a buffer of that size gets when it is evaluated: 2.25 k for k = 20."""
    return size * 4 // 5 + 1


@inlined
def file_seat(state: TopkState, sub: int, number: int) -> None:
    """Let a seat wait for the expiry of a message."""
    seat = 2 * SUB * sub
    row = message_row(state, number) * MESSAGE + SEATS
    following = wide(state.message_i[row])
    state.seat_i[seat + NEXT_SEAT], state.seat_i[seat + BEFORE] = following, -2 - number
    if following >= 0:
        state.seat_i[2 * SUB * following + BEFORE] = sub
    state.message_i[row] = sub


@inlined
def take_seat(state: TopkState, number: int) -> int:
    """Give a seat that waits for a message, or -1; it waits no longer."""
    row = message_row(state, number) * MESSAGE + SEATS
    sub = wide(state.message_i[row])
    if sub >= 0:
        seat = 2 * SUB * sub
        following = wide(state.seat_i[seat + NEXT_SEAT])
        state.message_i[row], state.seat_i[seat + NEXT_SEAT] = following, NOT_FILED
        if following >= 0:
            state.seat_i[2 * SUB * following + BEFORE] = -2 - number
    return sub


@inner
def unfile_seat(state: TopkState, sub: int) -> None:
    """Let a seat wait no longer, however many others wait for the same message."""
    seat = 2 * SUB * sub
    following = wide(state.seat_i[seat + NEXT_SEAT])
    if following == NOT_FILED:
        return
    before = wide(state.seat_i[seat + BEFORE])
    if before >= 0:
        state.seat_i[2 * SUB * before + NEXT_SEAT] = following
    else:
        state.message_i[message_row(state, -2 - before) * MESSAGE + SEATS] = following
    if following >= 0:
        state.seat_i[2 * SUB * following + BEFORE] = before
    state.seat_i[seat + NEXT_SEAT] = NOT_FILED


@inlined
def ask_for_buffer(state: TopkState, sub: int) -> None:
    """Ask for the memory of a buffer before it is needed."""
    seat = 2 * SUB * sub
    base = wide(state.seat_i[seat + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    end = min(end, begin + _MOST_ASKED)
    for n in range(begin, end + 1, 8):
        prefetch(state.buffer_f, base + n)
    for n in range(begin, end + 1, 16):
        prefetch(state.buffer_i, numbers + n)


@inlined
def take_buffer(state: TopkState, kind: int) -> int:
    """Give a region for a buffer, in units of 8 bytes."""
    at = wide(state.buffer_free[kind])
    if at >= 0:
        state.buffer_free[kind] = state.buffer_i[2 * at]
        return at
    at = wide(state.scalars[BUFFER_END])
    state.scalars[BUFFER_END] += size_of_class(kind) * 3 // 2
    return at


@inlined
def give_buffer_back(state: TopkState, kind: int, at: int) -> None:
    """Chain a region to the free ones."""
    state.buffer_i[2 * at] = state.buffer_free[kind]
    state.buffer_free[kind] = at
