"""Many events in one request, one a line: bad lines are reported, good ones applied."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from starlette.responses import Response

from nearcast.engine.outcome import EventOutcome
from nearcast.errors import InvalidValue, NearcastError
from nearcast.events import Event, event_from_json
from nearcast.events.ids import new_id
from nearcast.events.log import decode_json
from nearcast.server.bodies import encode, too_large, whole_body
from nearcast.server.checks import check_fields
from nearcast.server.config import Config, Limits
from nearcast.server.costs import LEAST_COST, event_cost
from nearcast.server.idempotency import SavedResponse, act
from nearcast.server.jobs import TURN_COST
from nearcast.server.lines import LineSlice, LineSlicer
from nearcast.server.problems import Problem, problem_of
from nearcast.server.routes import RequestContext

_MOST_REPORTED = 1000
_INLINE_BYTES = 1 << 14  # more is parsed in a thread


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

    def fields(self) -> dict[str, Any]:
        """What became of the lines; the first refused ones only are reported."""
        fields: dict[str, Any] = {
            "accepted": self.accepted,
            "refused": self.refused,
            "updates": self.updates,
            "errors": sorted(self.errors, key=lambda error: int(error["line"])),
        }
        if self.seqs is not None:
            fields["seqs"] = self.seqs
        return fields

    def answer(self) -> SavedResponse:
        """The response."""
        return SavedResponse(200, encode(self.fields()))

    def broken_off(self, error: Problem | NearcastError) -> Problem:
        """The problem of a body that was not taken to its end, with what was kept of it."""
        problem = error if isinstance(error, Problem) else problem_of(error)
        problem.more |= self.fields()
        problem.detail += f"; {self.accepted:,} lines before that were accepted, and are kept"
        return problem


class ParsedLines:
    """The events of some lines with their line numbers, and the errors of the other lines."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.numbers: list[int] = []
        self.costs: list[int] = []
        self.errors: list[tuple[int, NearcastError]] = []
        self._cost = 0

    def __len__(self) -> int:
        return len(self.events) + len(self.errors)

    @property
    def cost(self) -> int:
        """What all lines cost; a bad one is some work too."""
        return self._cost + LEAST_COST * len(self.errors)

    def parse(self, piece: LineSlice, op: str | None, config: Config) -> None:
        """Add the lines of a slice."""
        for number, line in enumerate(piece.lines, piece.first):
            if isinstance(line, int) or (line and not line.isspace()):
                try:
                    event = _event(op, line, config)
                except NearcastError as error:
                    self._refuse(number, error)
                else:
                    self.events.append(event)
                    self.numbers.append(number)
                    self.costs.append(event_cost(event))
                    self._cost += self.costs[-1]

    def _refuse(self, number: int, error: NearcastError) -> None:
        """Note a bad line; an error with all that it refers to takes kilobytes."""
        if len(self.errors) < _MOST_REPORTED:
            error.__context__ = error.__cause__ = None
            self.errors.append((number, error.with_traceback(None)))
        else:
            self.errors.append((number, self.errors[-1][1]))  # it is not reported

    def parts(self, most: int) -> Iterator[tuple[Sequence[Event], int]]:
        """Events that are applied together, with their cost: some of them, but not too much."""
        start = cost = 0
        for stop, next_cost in enumerate(self.costs):
            if stop > start and (stop - start == most or cost + next_cost > TURN_COST):
                yield self.events[start:stop], cost
                start, cost = stop, 0
            cost += next_cost
        if self.events:
            yield self.events[start:], cost

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
    if "idempotency-key" in context.request.headers:
        body, lines = await _whole(context, op)
        return await _take_whole(context, body, lines, numbered, stamped=stamped)
    tally = LineTally(numbered=numbered)
    try:
        async for piece in _slices(context):
            lines = ParsedLines()
            await _parse(context, lines, piece, op)
            await _apply(context, lines, tally, piece.size, stamped=stamped)
    except (Problem, NearcastError) as error:
        raise tally.broken_off(error) from None
    return tally.answer().response()


async def take_until_error(context: RequestContext, *, stamped: bool) -> Response:
    """Apply the lines of a body up to the first bad one, in one commit."""
    context.caller.pay(0)
    body, lines = await _whole(context, None)
    if lines.errors:
        first = lines.errors[0][0]
        good = sum(number < first for number in lines.numbers)
        lines.events, lines.errors = lines.events[:good], lines.errors[:1]
    return await _take_whole(context, body, lines, True, stop=True, stamped=stamped)


async def _apply(
    context: RequestContext, lines: ParsedLines, tally: LineTally, size: int, *, stamped: bool
) -> None:
    """Apply the events of a slice, others in between; the key must still be valid."""
    outcomes: list[EventOutcome] = []
    try:
        await context.caller.pace(len(lines))  # slower, rather than half a body
        for events, cost in lines.parts(context.limits.slice_lines):
            context.state.authenticator.confirm(context.caller)
            outcomes += await context.tenant.backend.apply(
                events, stamped=stamped, cost=cost, size=size
            )
    finally:
        lines.count(outcomes, tally)


async def _slices(context: RequestContext) -> AsyncIterator[LineSlice]:
    limits = context.limits
    slicer = LineSlicer(limits.slice_lines, limits.slice_bytes, limits.line_bytes)
    read = 0
    async for chunk in context.request.stream():
        read += len(chunk)
        if read > limits.bulk_bytes:
            raise too_large(limits.bulk_bytes)
        if piece := slicer.feed(chunk):
            yield piece
    yield slicer.rest()


async def _whole(context: RequestContext, op: str | None) -> tuple[bytes, ParsedLines]:
    """Read a body that is one commit, and its events; it may not be too much work."""
    limits = context.limits
    body = await whole_body(context.request, limits.keyed_bytes)
    slicer = LineSlicer(limits.slice_lines, limits.slice_bytes, limits.line_bytes)
    lines = ParsedLines()
    for start in range(0, len(body), limits.slice_bytes):
        if piece := slicer.feed(body[start : start + limits.slice_bytes]):
            await _parse(context, lines, piece, op)
            _check_cost(lines, limits)
    await _parse(context, lines, slicer.rest(), op)
    _check_cost(lines, limits)
    return body, lines


def _check_cost(lines: ParsedLines, limits: Limits) -> None:
    """Refuse a body that is too much work for one commit."""
    if lines.cost > limits.keyed_cost:
        raise Problem(
            413,
            "body-too-large",
            f"the texts are longer than {limits.keyed_cost:,} characters after Unicode "
            f"normalisation, of which a line has at least {LEAST_COST}; send several bodies",
            limit=limits.keyed_cost,
        )


async def _parse(
    context: RequestContext, lines: ParsedLines, piece: LineSlice, op: str | None
) -> None:
    """Parse a slice; a large one in a thread, so that other requests are answered meanwhile."""
    config = context.state.config
    if piece.size <= _INLINE_BYTES:
        lines.parse(piece, op, config)
    else:
        parser = context.state.parser
        await asyncio.get_running_loop().run_in_executor(parser, lines.parse, piece, op, config)


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

    await context.caller.pace(len(lines))  # slower, rather than half a body
    cost = sum(lines.costs)  # without the lines that are not applied
    return await act(context, body, lines.events, respond, stop=stop, stamped=stamped, cost=cost)


def _event(op: str | None, line: bytes | int, config: Config) -> Event:
    size = line if isinstance(line, int) else len(line)
    if isinstance(line, int) or size > config.limits.line_bytes:
        raise InvalidValue("line", f"{size:,} bytes", f"at most {config.limits.line_bytes:,}")
    fields = decode_json(line, "line")
    if not isinstance(fields, dict):
        raise InvalidValue("line", fields, "a JSON object")
    check_fields(fields, config)
    if op is not None:
        fields["op"] = op
        if fields.get("id") is None:
            fields["id"] = new_id("s" if op == "subscribe" else "m")
    return event_from_json(fields)
