"""`nearcast replay --engine http=URL`: the log into a server that is running."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from nearcast.cli.remote import connect
from nearcast.engine.replay import Refusal
from nearcast.errors import NearcastError, StateError
from nearcast.events import LateBody, Record, Update
from nearcast.events.bodies import NOTHING, Include

if TYPE_CHECKING:
    from nearcast.client import Client

PREFIX = "http="
_SLICE = 1000
_RETRIES = 5


def replay_over_http(
    records: Iterable[Record],
    url: str,
    key: str | None,
    wait_s: float | None,
    refuse: Refusal,
    *,
    stop: bool,
    include: Include = NOTHING,
) -> Iterator[tuple[int, list[Update]]]:
    """Send the events to a server, and yield their positions with the updates they caused.

    With `stop` the server does not apply the events after one that it refuses.
    """
    with connect(url, key, wait_s, retries=_RETRIES) as client:
        yield from _Replay(client, refuse, stop=stop, include=include).run(iter(records))


class _Replay:
    def __init__(self, client: Client, refuse: Refusal, *, stop: bool, include: Include) -> None:
        self._client = client
        self._refuse = refuse
        self._stop = stop
        self._include = include
        self._place = client.last_update()

    def run(self, records: Iterator[Record]) -> Iterator[tuple[int, list[Update]]]:
        while some := list(islice(records, _SLICE)):
            yield from self._slice(some)

    def _slice(self, records: list[Record]) -> Iterator[tuple[int, list[Update]]]:
        """Send each run of valid events in one request, and refuse the records between them."""
        run: list[Record] = []
        for record in records:
            if record.event is not None:
                run.append(record)
                continue
            yield from self._send(run)
            run = []
            self._refuse(record, record.error or StateError("no event"))
        yield from self._send(run)

    def _send(self, run: list[Record]) -> Iterator[tuple[int, list[Update]]]:
        if not run:
            return
        events = [record.event for record in run if record.event is not None]
        done = self._client.apply(events, stop_at_error=self._stop, log_time=True)
        details = {error.line: error.detail for error in done.errors}
        positions: dict[int, int] = {}
        refused: list[tuple[Record, NearcastError]] = []
        for line, (record, seq) in enumerate(zip(run, done.seqs, strict=False), 1):
            if seq is None:
                refused.append((record, StateError(details.get(line, "refused"))))
            else:
                positions[seq] = record.position
        yield from self._updates(positions)
        for record, error in refused:
            self._refuse(record, error)

    def _updates(self, positions: dict[int, int]) -> Iterator[tuple[int, list[Update]]]:
        """The updates of the events that were accepted, as soon as the server has them all."""
        found: dict[int, list[Update]] = {position: [] for position in positions.values()}
        if positions:
            last, include = max(positions), self._include.names
            for each in self._client.log(self._place, up_to_seq=last, include=include):
                self._place = each.id
                if each.seq in positions:
                    late = None if each.body is None else LateBody.ready(each.body)
                    update = Update(
                        each.op, each.subscription, each.message, each.score, each.meta, late
                    )
                    found[positions[each.seq]].append(update)
        yield from found.items()
