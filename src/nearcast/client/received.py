"""Values and errors that the clients return and raise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from nearcast.errors import NearcastError
from nearcast.events import UpdateOp


class ServerError(NearcastError):
    """The server refused a request: its `status`, and the `problem` document it sent."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        detail = problem.get("detail") or problem.get("title") or "no reason given"
        super().__init__(f"the server answered {status}: {detail}")
        self.status = status
        self.problem = problem


class UnreachableError(NearcastError):
    """The server at `url` cannot be reached, broke off or is not ready: the `reason` says which."""

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: cannot be reached ({reason}); is the server running there?")
        self.url = url
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Published:
    """A message was published: its id, and how many updates it caused."""

    id: str
    updates: int


@dataclass(frozen=True, slots=True)
class Refused:
    """A refused line of a bulk request."""

    line: int
    detail: str


@dataclass(frozen=True, slots=True)
class Bulk:
    """The outcome of a bulk request."""

    accepted: int = 0
    refused: int = 0
    updates: int = 0
    errors: list[Refused] = field(default_factory=list)
    seqs: list[int | None] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Received:
    """An update; ids grow, so an update that is repeated can be recognised by its id.

    An `add` or `change` has the message as its `body`, and every update has the `meta` of its
    subscription, if it has one, unless they were left out.
    """

    id: int
    op: UpdateOp
    subscription: str
    message: str
    at: float
    score: float | None = None
    body: dict[str, Any] | None = None
    meta: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Logged(Received):
    """An update of the log, with the number of the event that caused it."""

    seq: int = 0


@dataclass(frozen=True, slots=True)
class Gap:
    """Updates that the server no longer has: those with the ids `first` to `last`."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class CurrentResult:
    """A message that is in a subscription's results now."""

    message: str
    text: str | None = None
    point: tuple[float, float] | None = None
    score: float | None = None
    fields: dict[str, Any] = field(default_factory=dict)
