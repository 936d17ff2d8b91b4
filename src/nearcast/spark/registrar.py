"""The registrar: decides the events of a batch in order, once, for all shards.

It runs on the driver. Events were checked and parsed before (`reading.py`), each by itself; here
subscriptions are numbered, and whatever depends on the order of events is decided (`ledger.py`):
refused events are listed with the reason, and the log gets what begins, moves, ends and lasts. The
registrar takes rows of what readers packed, and does not look into queries, regions and texts.

The paper's dispatchers handle operations too, because there a deletion carries the whole query. In
an event log it carries an id, so the ids must be known: one place for them is simple and exact, and
at a microsecond or two an operation it is not what limits a cluster.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.settings import Settings
from nearcast.events import Subscription
from nearcast.events.log import decode_json
from nearcast.events.reader import RANGE, Codes
from nearcast.geo import region_from_json
from nearcast.spark.batch import EventBatch
from nearcast.spark.deciding import FINE, NO_OWNER, NOTHING, REFUSED, Records, error_of
from nearcast.spark.definitions import Definitions
from nearcast.spark.entries import with_times
from nearcast.spark.ledger import Ledger
from nearcast.spark.moving import moved_log
from nearcast.spark.operations import (
    END,
    GONE,
    LASTING,
    LOG,
    REPLACING,
    WITHDRAWN,
    BegunSubscriptions,
    completed,
    numbers_in,
    with_columns,
)
from nearcast.spark.packed import StepEvents
from nearcast.spark.reading import lasting_messages, pack_events, texts_of
from nearcast.spark.topk.reading import shifted_log, subscription_of, subscriptions_log

Source = Callable[[Int64s], pa.Table]
"""Gives some events as they were read: for the few of which more is needed than readers pack."""


@dataclass
class Refusal:
    """An event that has no effect, and why."""

    row: int
    error: str


@dataclass
class Reading:
    """What the registrar decided on a batch of events."""

    kinds: Codes  # by row; POINT and RANGE rows that are not refused are to be matched
    verdict: Codes
    log: pa.Table  # what begins and ends, and what lasts, in the schema LOG
    refusals: list[Refusal]
    times: npt.NDArray[np.float64]
    changes: BegunSubscriptions  # what began, and what it was before
    number: Int64s  # of a message that came into the window, or -1
    first: Int64s  # after each row: the number of the oldest message in the window
    again: npt.NDArray[np.bool_]  # its id was that of a message that leaves the window with it
    old: Int64s  # the sequence number of an active message that it ends, or -1
    taken: Int64s  # the number of a message that it takes out of the window, or -1
    ttl: npt.NDArray[np.float64]
    before: int  # the oldest message in the window before all rows
    seq: Int64s
    events: StepEvents
    source: Source

    @property
    def messages(self) -> npt.NDArray[np.bool_]:
        """Which rows are messages."""
        good: npt.NDArray[np.bool_] = (self.verdict == FINE) & (self.kinds <= RANGE)
        return good

    @property
    def matched(self) -> npt.NDArray[np.bool_]:
        """Which rows are messages that tasks match: all but those that replace an active one."""
        matched: npt.NDArray[np.bool_] = self.messages & (self.old == NOTHING)
        return matched

    def texts(self, rows: Int64s) -> pa.Table:
        """What the messages of some rows say, in the schema TEXTS; nulls for other rows."""
        found, where = self.events.table("texts")
        named, others = self.events.table("named")
        known = np.full(len(self.kinds), -1, np.int64)
        known[where] = np.arange(len(where))
        known[others] = np.arange(len(where), len(where) + len(others))
        place = known[rows]
        if ((place < 0) & self.messages[rows]).any():  # more than were wanted of the readers
            again = texts_of(self.source(rows), np.arange(len(rows)))
            return again.drop_columns(["row"])
        every = pa.concat_tables([found, named], promote_options="default")
        return every.take(pa.array(place, mask=place < 0)).combine_chunks()

    @property
    def points(self) -> int:
        """How many messages came into the window."""
        return int((self.number != NOTHING).sum())

    @property
    def uneven(self) -> bool:
        """Whether messages leave the window other than as the oldest, now or later."""
        ends = (self.number != NOTHING) & (self.ttl > 0)
        return bool(ends.any() or (self.taken != NOTHING).any())


class Registrar:
    """Knows all subscriptions by id, and decides what events do to them."""

    def __init__(self, settings: Settings, ledger: Ledger | None = None) -> None:
        self.settings = settings
        self.ledger = ledger or Ledger(settings.window)
        self.known = Definitions()
        self._written = 0  # pieces of it that are in the state

    def read(self, events: pa.Table, seq: Int64s) -> Reading:
        """Read and decide a batch of events in EVENT_SCHEMA, whose sequence numbers ascend."""
        packed = StepEvents([pack_events(events, seq, self.settings)])
        return self.decide(packed, lambda rows: events.take(pa.array(rows)))

    def decide(self, events: StepEvents, source: Source) -> Reading:
        """Decide a batch of events that were read."""
        kinds, seq, before = events.kinds, events.seq, self.ledger.first
        self._written = self.known.pieces
        rows, due = self.ledger.decide(kinds, events.ids, seq, events.at, events.ttl, events.flawed)
        refusals = _refusals(rows, events)
        log = self._log(events, rows, due, source)
        begun = np.flatnonzero((rows["begins"] != NO_OWNER) & ~rows["ranked"])
        changes = BegunSubscriptions(
            rows["begins"][begun], rows["ends"][begun], seq[begun], rows["time"][begun]
        )
        return Reading(
            kinds, rows["verdict"], log, refusals, rows["time"], changes, rows["number"],
            rows["first"], rows["again"], rows["old"], rows["taken"], rows["ttl"], before, seq,
            events, source,
        )  # fmt: skip

    def remember(self, log: pa.Table) -> None:
        """Keep the definitions of subscriptions that begin in a log."""
        self.known.remember(log)

    def settle(self, log: pa.Table) -> None:
        """Keep the definitions of the last batch where its log was written."""
        self.known.settle(self._written, log)

    def start_from(self, begun: pa.Table) -> None:
        """Replace all subscriptions by these."""
        self.known = Definitions()
        self.remember(begun)

    def definitions(self, owners: Int32s) -> pa.Table:
        """The definitions of subscriptions, in the order of these owners."""
        return self.known.of(owners)

    def _log(self, events: StepEvents, rows: Records, due: Records, source: Source) -> pa.Table:
        """What begins and ends with rows, and what lasts."""
        fresh = _begun_log(rows, *_taken(*events.table("begun"), rows["begins"] != NO_OWNER))
        self.remember(fresh)
        places, where = _taken(*events.table("moved"), rows["begins"] != NO_OWNER)
        ranked = rows["ranked"][where]
        moved = []
        for some, make in ((~ranked, self._moves_log), (ranked, self._shifts_log)):
            if some.any():
                moved += make(rows, where[some], places.filter(pa.array(some)))
        if moved:
            self.remember(pa.concat_tables(moved))
        parts = [fresh, *moved, self._ends_log(rows, due)]
        return pa.concat_tables([*parts, *self._messages_log(events, rows, source)])

    def _messages_log(self, events: StepEvents, rows: Records, source: Source) -> list[pa.Table]:
        """Messages that last, and those that end others or take their place."""
        is_message = rows["kind"] <= RANGE
        lasting = np.flatnonzero(is_message & ~np.isnan(rows["until"]))
        ending = np.flatnonzero(rows["old"] != NOTHING)
        replacing = ending[is_message[ending]]
        if not len(lasting) and not len(ending):
            return []
        parts, (known, where) = [], events.table("lasting")
        passing = np.setdiff1d(replacing, where)
        if len(passing):  # they do not last themselves
            batch = EventBatch(source(passing), self.settings)
            more = lasting_messages(batch, np.arange(len(passing)), self.settings)
            known = pa.concat_tables([known, more.drop_columns(["row"])])
            where = np.concatenate([where, passing])
        place = np.full(len(rows), -1, np.int64)
        place[where] = np.arange(len(where))
        for kind, some in ((LASTING, lasting), (REPLACING, replacing)):
            if len(some):
                columns = known.take(pa.array(place[some])).combine_chunks()
                parts.append(_messages_of(kind, rows, some, columns))
        if len(ending):
            kinds = np.full(len(ending), WITHDRAWN, np.int8)
            withdrawn = {"kind": kinds, "seq": rows["seq"][ending], "old": rows["old"][ending]}
            withdrawn["owner"] = np.full(len(ending), NO_OWNER, np.int32)
            parts.append(completed(withdrawn, LOG, len(ending)))
        return parts

    def _moves_log(self, rows: Records, some: Int64s, places: pa.Table) -> list[pa.Table]:
        """A subscription that moves begins again elsewhere; its query is not parsed again."""
        known = self._moving(rows["begins"][some], rows["ends"][some])
        return moved_log(with_columns(known, _decided(rows, some)), places)

    def _shifts_log(self, rows: Records, some: Int64s, places: pa.Table) -> list[pa.Table]:
        """Top-k subscriptions that move to a point, or to a region, or both."""
        known = self._moving(rows["begins"][some], rows["ends"][some])
        points = numbers_in(places, "point")  # NaN for those that move to a region alone
        regions = places["region"].combine_chunks()
        if known["definition"].null_count == len(known) == regions.null_count:
            return [_begun_log(rows, pa.table(shifted_log(points, known)), some)]
        # One by one, as what one of them is may depend on the move before.
        current: dict[int, Subscription] = {}
        each = zip(some.tolist(), known.to_pylist(), points.tolist(), regions, strict=True)
        for row, before, (lon, lat), text in each:
            was = current.get(int(rows["ends"][row])) or subscription_of(before)
            point = was.point if np.isnan(lon) else (lon, lat)
            region = was.region
            if text.is_valid:
                region = region_from_json(decode_json(text.as_py().encode(), "region"))
            current[int(rows["begins"][row])] = replace(was, point=point, region=region)
        return [_begun_log(rows, pa.table(subscriptions_log([*current.values()])), some)]

    def _moving(self, begins: Int32s, ends: Int32s) -> pa.Table:
        """What is known of subscriptions that move, by what they become and what they were."""
        known = ends
        if np.isin(ends, begins).any():
            first: dict[int, int] = {}  # of what moved before in this batch: where it is known
            for owner, was in zip(begins.tolist(), ends.tolist(), strict=True):
                first[owner] = first.get(was, was)
            known = np.array([first[owner] for owner in begins.tolist()], np.int32)
        return self.definitions(known)

    def _ends_log(self, rows: Records, due: Records) -> pa.Table:
        """What ends with rows, and what ended by time."""
        ends = np.flatnonzero(rows["ends"] != NO_OWNER)
        owners = np.concatenate([rows["ends"][ends], due["owner"]])
        where = np.concatenate([ends, due["row"]])
        kind = np.where(self.ledger.is_ranked(owners), GONE, END).astype(np.int8)
        columns = {"kind": kind, "owner": owners, "seq": rows["seq"][where]}
        if len(due):
            by_time = np.arange(len(where)) >= len(ends)
            columns["end"] = pa.array(rows["time"][where], mask=~by_time)
        return completed(columns, LOG, len(where))


def _taken(table: pa.Table, rows: Int64s, wanted: npt.NDArray[np.bool_]) -> Any:
    """The part of a table whose rows are wanted, and these rows."""
    some = wanted[rows]
    return (table, rows) if some.all() else (table.filter(pa.array(some)), rows[some])


def _decided(rows: Records, some: Int64s) -> dict[str, Any]:
    """What was decided on rows that begin something, as columns of the log."""
    until = rows["until"][some]
    return {
        "owner": pa.array(rows["begins"][some]),
        "seq": pa.array(rows["seq"][some]),
        "until": pa.array(until, mask=np.isnan(until)),
    }


def _begun_log(rows: Records, known: pa.Table, some: Int64s) -> pa.Table:
    """The log of subscriptions that begin with some rows."""
    columns = {name: known[name] for name in known.column_names}
    return completed(columns | _decided(rows, some), LOG, len(some))


def _messages_of(kind: int, rows: Records, some: Int64s, known: pa.Table) -> pa.Table:
    """The log of messages of some rows."""
    columns: dict[str, Any] = {name: known[name] for name in ("id", "box", "terms")}
    times = rows["time"][some]
    bodies = with_times(known["body"].combine_chunks(), rows["at"][some], times)
    columns |= {"kind": np.full(len(some), kind, np.int8), "seq": rows["seq"][some]}
    columns |= {"owner": np.full(len(some), NO_OWNER, np.int32), "body": bodies}
    return completed(columns | {"at": times, "end": rows["until"][some]}, LOG, len(some))


def _refusals(rows: Records, events: StepEvents) -> list[Refusal]:
    """Say which rows have no effect, and why."""
    bad = np.flatnonzero(rows["verdict"] != FINE)
    if not len(bad):
        return []
    errors = _texts(*events.table("errors"), "error", rows["verdict"] == REFUSED)
    others = (rows["verdict"] != FINE) & (rows["verdict"] != REFUSED)
    ids: dict[int, str] = {}
    for name in ("named", "begun"):
        ids |= _texts(*events.table(name), "id", others)
    return [
        Refusal(row, errors[row] if row in errors else str(error_of(rows[row], ids.get(row, ""))))
        for row in bad.tolist()
    ]


def _texts(
    table: pa.Table, where: Int64s, name: str, wanted: npt.NDArray[np.bool_]
) -> dict[int, str]:
    """The texts of a column, by row, of wanted rows."""
    some = wanted[where]
    return dict(
        zip(where[some].tolist(), table[name].filter(pa.array(some)).to_pylist(), strict=True)
    )
