"""The errors of events that have no effect, the same in every engine."""

from __future__ import annotations

from nearcast.errors import (
    KindError,
    NearcastError,
    PastTimeError,
    UnknownIdError,
    UnknownMessageError,
)


def past_time(at: float, now: float) -> NearcastError:
    """The time of an event is before one that has come already."""
    return PastTimeError(
        f"at: {at!r} is before {now!r}, the time of an event before it; times never decrease"
    )


def unknown_id(id: str) -> NearcastError:
    """There is no subscription with this id."""
    return UnknownIdError(f"id: no subscription {id!r}; subscribe it first")


def unknown_message(id: str) -> NearcastError:
    """There is no message with this id to retract."""
    return UnknownMessageError(f"id: no message {id!r} that is active or in the window")


def other_kind(id: str) -> NearcastError:
    """There is a subscription of the other kind with this id."""
    return KindError(
        f"id: {id!r} is in use by a subscription of the other kind (top-k or not); "
        "unsubscribe it first"
    )


def other_place(id: str) -> NearcastError:
    """A boolean subscription was to be moved to a point."""
    return KindError(f"id: {id!r} is a boolean subscription; move it to a region")
