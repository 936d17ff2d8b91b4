"""Many events in one request, a line each: bad lines are told, good ones are never lost."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import Response

from nearcast.errors import InvalidValue, NearcastError
from nearcast.model import Event, event_from_json
from nearcast.model.log import decode_json
from nearcast.server.bodies import json_response, slices
from nearcast.server.checks import check_fields
from nearcast.server.ids import new_id
from nearcast.server.problems import problem_of
from nearcast.server.routes import Visit

_MOST_TOLD = 1000


class Tally:
    """What became of the lines of a request."""

    def __init__(self) -> None:
        self.accepted = 0
        self.updates = 0
        self.refused = 0
        self.told: list[dict[str, Any]] = []

    def refuse(self, line: int, error: NearcastError) -> None:
        """Take note of a bad line."""
        self.refused += 1
        if len(self.told) < _MOST_TOLD:
            problem = problem_of(error).as_json()
            self.told.append({"line": line, "type": problem["type"], "detail": problem["detail"]})

    def as_json(self) -> dict[str, Any]:
        """The answer; of very many refusals the first are told."""
        return {
            "accepted": self.accepted,
            "refused": self.refused,
            "updates": self.updates,
            "errors": self.told,
        }


async def take_lines(visit: Visit, op: str) -> Response:
    """Apply the lines of a body in slices, each with one commit."""
    tally = Tally()
    visit.caller.pay(0)
    number = 1
    limits = visit.limits
    async for piece in slices(visit.request, limits.bulk_bytes, limits.slice_lines):
        number = await _take(visit, op, piece, number, tally)
    return json_response(tally.as_json())


async def _take(visit: Visit, op: str, piece: bytes, number: int, tally: Tally) -> int:
    events: list[Event] = []
    numbers: list[int] = []
    for number, line in enumerate(piece.split(b"\n"), number):
        if not line or line.isspace():
            continue
        try:
            events.append(_event(op, line, visit))
            numbers.append(number)
        except NearcastError as error:
            tally.refuse(number, error)
    bucket = visit.caller.bucket
    if bucket is not None:
        bucket.take(len(numbers))
        await asyncio.sleep(bucket.debt())
    for line_number, outcome in zip(numbers, await visit.tenant.backend.apply(events), strict=True):
        if outcome.error is not None:
            tally.refuse(line_number, outcome.error)
        else:
            tally.accepted += 1
            tally.updates += len(outcome.updates)
    return number


def _event(op: str, line: bytes, visit: Visit) -> Event:
    if len(line) > visit.limits.line_bytes:
        raise InvalidValue("line", f"{len(line):,} bytes", f"at most {visit.limits.line_bytes:,}")
    fields = decode_json(line, "line")
    if not isinstance(fields, dict):
        raise InvalidValue("line", fields, "a JSON object")
    check_fields(fields, visit.limits)
    if fields.get("id") is None and op in ("publish", "subscribe"):
        fields["id"] = new_id(op[0] if op == "subscribe" else "m")
    return event_from_json(fields | {"op": op})
