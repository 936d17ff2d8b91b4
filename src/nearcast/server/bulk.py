"""Many events in one request, one a line: bad lines are reported, good ones applied."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from starlette.responses import Response

from nearcast.engine.outcome import EventOutcome
from nearcast.errors import InvalidValue, NearcastError
from nearcast.events import Event, event_from_json
from nearcast.events.log import decode_json
from nearcast.server.bodies import encode, slices, whole_body
from nearcast.server.checks import check_fields
from nearcast.server.idempotency import SavedResponse, act
from nearcast.server.ids import new_id
from nearcast.server.problems import problem_of
from nearcast.server.routes import RequestContext

_MOST_REPORTED = 1000


class LineTally:
    """Counts the accepted and refused lines of a request.

    If `numbered`, `seqs` has the sequence number of each event, None for a refused one.
    """

    def __init__(self, *, numbered: bool = False) -> None:
        self.accepted = self.updates = self.refused = 0
        self.errors: list[dict[str, Any]] = []
        self.seqs: list[int | None] | None = [] if numbered else None

    def refuse(self, line: int, error: NearcastError) -> None:
        """Count a bad line."""
        self.refused += 1
        if len(self.errors) < _MOST_REPORTED:
            problem = problem_of(error).as_json()
            self.errors.append({"line": line, "type": problem["type"], "detail": problem["detail"]})

    def answer(self) -> SavedResponse:
        """The response; it reports the first refused lines only."""
        fields: dict[str, Any] = {
            "accepted": self.accepted,
            "refused": self.refused,
            "updates": self.updates,
            "errors": sorted(self.errors, key=lambda error: int(error["line"])),
        }
        if self.seqs is not None:
            fields["seqs"] = self.seqs
        return SavedResponse(200, encode(fields))


class ParsedLines:
    """The events of some lines with their line numbers, and the errors of the other lines."""

    def __init__(self, op: str | None, data: bytes, first: int, context: RequestContext) -> None:
        self.events: list[Event] = []
        self.numbers: list[int] = []
        self.errors: list[tuple[int, NearcastError]] = []
        lines = data.split(b"\n")
        for number, line in enumerate(lines, first):
            if line and not line.isspace():
                try:
                    self.events.append(_event(op, line, context))
                    self.numbers.append(number)
                except NearcastError as error:
                    self.errors.append((number, error))
        self.next = first + len(lines) - 1

    def count(
        self, outcomes: Sequence[EventOutcome], tally: LineTally, *, others: bool = True
    ) -> None:
        """Add the outcomes of the events to a tally and, with `others`, the bad lines."""
        seqs: dict[int, int | None] = {}
        for number, error in self.errors if others else ():
            tally.refuse(number, error)
            seqs[number] = None
        for number, outcome in zip(self.numbers, outcomes, strict=False):
            seqs[number] = outcome.seq
            if outcome.error is not None:
                tally.refuse(number, outcome.error)
            else:
                tally.accepted += 1
                tally.updates += len(outcome.updates)
        if tally.seqs is not None:
            tally.seqs += [seqs[number] for number in sorted(seqs)]


async def take_lines(
    context: RequestContext, op: str | None, *, numbered: bool = False, stamped: bool = True
) -> Response:
    """Apply the lines of a body in slices, each with one commit.

    Without `op` each line names its own. Under an idempotency key the whole body is one commit,
    so that it is applied either completely or not at all.
    """
    context.caller.pay(0)
    limits = context.limits
    if "idempotency-key" in context.request.headers:
        body = await whole_body(context.request, limits.keyed_bytes)
        return await _take_whole(
            context, body, ParsedLines(op, body, 1, context), numbered, stamped=stamped
        )
    tally = LineTally(numbered=numbered)
    next_line = 1
    async for piece in slices(context.request, limits.bulk_bytes, limits.slice_lines):
        lines = ParsedLines(op, piece, next_line, context)
        next_line = lines.next
        await _pace(context, len(lines.events))
        outcomes = await context.tenant.backend.apply(lines.events, stamped=stamped)
        lines.count(outcomes, tally)
    return tally.answer().response()


async def take_until_error(context: RequestContext, *, stamped: bool) -> Response:
    """Apply the lines of a body up to the first bad one, in one commit."""
    context.caller.pay(0)
    body = await whole_body(context.request, context.limits.keyed_bytes)
    lines = ParsedLines(None, body, 1, context)
    if lines.errors:
        first = lines.errors[0][0]
        good = sum(number < first for number in lines.numbers)
        lines.events, lines.errors = lines.events[:good], lines.errors[:1]
    return await _take_whole(context, body, lines, True, stop=True, stamped=stamped)


async def _take_whole(
    context: RequestContext,
    body: bytes,
    lines: ParsedLines,
    numbered: bool,
    *,
    stop: bool = False,
    stamped: bool,
) -> Response:
    def respond(outcomes: Sequence[EventOutcome]) -> SavedResponse:
        tally = LineTally(numbered=numbered)
        stopped = stop and bool(outcomes) and outcomes[-1].error is not None
        lines.count(outcomes, tally, others=not stopped)
        return tally.answer()

    await _pace(context, len(lines.events))
    return await act(context, body, lines.events, respond, stop=stop, stamped=stamped)


async def _pace(context: RequestContext, events: int) -> None:
    """Keep to the rate limit of the key by reading more slowly, not by refusing half a body."""
    bucket = context.caller.bucket
    if bucket is not None:
        bucket.take(events)
        await asyncio.sleep(bucket.debt())


def _event(op: str | None, line: bytes, context: RequestContext) -> Event:
    if len(line) > context.limits.line_bytes:
        raise InvalidValue("line", f"{len(line):,} bytes", f"at most {context.limits.line_bytes:,}")
    fields = decode_json(line, "line")
    if not isinstance(fields, dict):
        raise InvalidValue("line", fields, "a JSON object")
    check_fields(fields, context.limits)
    if op is not None:
        fields["op"] = op
        if fields.get("id") is None:
            fields["id"] = new_id("s" if op == "subscribe" else "m")
    return event_from_json(fields)
