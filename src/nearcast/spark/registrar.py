"""The registrar: reads the events of a batch in order, once, for all shards.

It runs on the driver. Here events are checked, subscriptions parsed and numbered, and whatever
depends on the order of events is decided (`ledger.py`); refused events are listed with the reason.
Messages are only checked: tasks read and match them, and know which ones to leave out. Messages
that last, and those that replace another, are in the log.

The paper's dispatchers handle operations too, because there a deletion carries the whole query. In
an event log it carries an id, so the ids must be known: one place for them is simple and exact, and
at a few microseconds an operation it is not what limits a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.slots import Slots, hash_strings
from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.settings import Settings
from nearcast.events import Subscription
from nearcast.events.reader import (
    MOVE,
    RANGE,
    RANKED,
    SHIFT,
    SUBSCRIBE,
    CheckedEvents,
    Codes,
)
from nearcast.geo import WORLD, Region
from nearcast.spark.asking import encoded, mask_of, needs_asking
from nearcast.spark.batch import EventBatch
from nearcast.spark.deciding import FINE, NO_OWNER, NOTHING, Records
from nearcast.spark.definitions import Definitions
from nearcast.spark.entries import completed_log, entry_of, hash_lists, messages_log, with_everyone
from nearcast.spark.ledger import Ledger
from nearcast.spark.operations import (
    END,
    EVERYONE,
    GONE,
    LASTING,
    LOG,
    OTHER,
    REPLACING,
    WITHDRAWN,
    BegunSubscriptions,
    begun_in,
)
from nearcast.spark.refusals import Refusal, refusals_in
from nearcast.spark.topk.reading import (
    ranked_log,
    shifted_log,
    subscription_of,
    subscriptions_log,
)
from nearcast.text.columns import buffers, hash_terms, hash_texts


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
    events: pa.Table
    seq: Int64s

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

    def read(self, events: pa.Table, seq: Int64s) -> Reading:
        """Decide a batch of events in EVENT_SCHEMA, whose sequence numbers ascend."""
        events = events.combine_chunks()
        batch = EventBatch(events, self.settings)
        checked, kinds, before = batch.checked, batch.kinds, self.ledger.first
        ids = hash_ids(pc.fill_null(checked.ids, ""))
        rows, due = self.ledger.decide(kinds, ids, seq, checked.at, checked.ttl, batch.flawed)
        refusals = refusals_in(rows, checked.ids, batch.errors)
        log = self._log(batch, rows, due)
        begun = np.flatnonzero((rows["begins"] != NO_OWNER) & ~rows["ranked"])
        changes = BegunSubscriptions(
            rows["begins"][begun], rows["ends"][begun], seq[begun], rows["time"][begun]
        )
        return Reading(
            kinds, rows["verdict"], log, refusals, rows["time"], changes, rows["number"],
            rows["first"], rows["again"], rows["old"], rows["taken"], rows["ttl"], before, events,
            seq,
        )  # fmt: skip

    def remember(self, log: pa.Table) -> None:
        """Keep the definitions of subscriptions that begin."""
        self.known.remember(begun_in(log))

    def start_from(self, begun: pa.Table) -> None:
        """Replace all subscriptions by these."""
        self.known = Definitions()
        self.remember(begun)

    def definitions(self, owners: Int32s) -> pa.Table:
        """The definitions of subscriptions, in the order of these owners."""
        return self.known.of(owners)

    def _log(self, batch: EventBatch, rows: Records, due: Records) -> pa.Table:
        """What begins and ends with rows, and what lasts."""
        all_begun = np.flatnonzero(rows["begins"] != NO_OWNER)
        their_kinds, ranked = rows["kind"][all_begun], rows["ranked"][all_begun]
        checked = batch.checked
        begins = all_begun[their_kinds == SUBSCRIBE]
        special = np.isin(begins, np.array([*batch.queries], np.int64))
        plain = begins[~special]
        texts = self._texts(checked, plain)
        fresh = [
            _begun_log(rows, plain, texts | batch.places.columns(plain)),
            self._other_log(batch, rows, begins[special]),
        ]
        tops = all_begun[their_kinds == RANKED]
        if len(tops):
            fresh.append(_begun_log(rows, tops, ranked_log(checked, tops, batch.subscriptions)))
        self.remember(pa.concat_tables(fresh))
        moves = (their_kinds == MOVE) | (their_kinds == SHIFT)
        moved = [self._moves_log(batch, rows, all_begun[moves & ~ranked])]
        moved += self._shifts_log(batch, rows, all_begun[moves & ranked])
        self.remember(pa.concat_tables(moved))
        parts = [*fresh, *moved, self._ends_log(rows, due)]
        parts += self._messages_log(batch, rows)
        return pa.concat_tables(parts)

    def _messages_log(self, batch: EventBatch, rows: Records) -> list[pa.Table]:
        """Messages that last, and those that end others or take their place."""
        parts, is_message = [], rows["kind"] <= RANGE
        lasting = np.flatnonzero(is_message & ~np.isnan(rows["until"]))
        ending = np.flatnonzero(rows["old"] != NOTHING)
        for kind, some in ((LASTING, lasting), (REPLACING, ending[is_message[ending]])):
            if len(some):
                texts = batch.checked.texts.take(pa.array(some))
                terms = hash_lists(*with_everyone(hash_texts(texts, self.settings.analyser)))
                parts.append(messages_log(kind, batch, rows, some, terms))
        if len(ending):
            kinds = np.full(len(ending), WITHDRAWN, np.int8)
            columns = {"kind": kinds, "seq": rows["seq"][ending], "old": rows["old"][ending]}
            columns["owner"] = np.full(len(ending), NO_OWNER, np.int32)
            parts.append(completed_log(columns, len(ending)))
        return parts

    def _texts(self, checked: CheckedEvents, rows: Int64s) -> dict[str, Any]:
        """The ids and queries of subscriptions, and the hashes of their terms."""
        where = pa.array(rows)
        queries = checked.queries.take(where)
        terms = hash_lists(*hash_texts(queries, self.settings.analyser))
        return {"id": checked.ids.take(where), "query": queries, "terms": terms}

    def _other_log(self, batch: EventBatch, rows: Records, some: Int64s) -> pa.Table:
        ids = batch.checked.ids.take(pa.array(some)).to_pylist()
        conjuncts = [c for row in some.tolist() for c in batch.queries[row].conjuncts]
        words = sorted({term for c in conjuncts for term in c.required | c.excluded})
        hashes = dict(zip(words, hash_terms(words).tolist(), strict=True))
        entries = []
        for row, id in zip(some.tolist(), ids, strict=True):
            query, given = batch.queries[row], batch.subscriptions.get(row)
            required = [
                [hashes[term] for term in sorted(c.required)] or [int(EVERYONE)]
                for c in query.conjuncts
            ]
            excluded = [[hashes[term] for term in sorted(c.excluded)] for c in query.conjuncts]
            known = {"id": id, "query": query.text, "required": required, "excluded": excluded}
            known["asks"] = needs_asking(query)
            region: Region = WORLD
            if given is None or given.region is not None:
                region = batch.checked.region(row)
            if given is not None:
                known |= {"query": given.query, "ops": mask_of(given.ops)}
                known["meta"] = None if given.meta is None else encoded(given.meta)
            entries.append(entry_of(rows[row], known, region))
        return pa.Table.from_pylist(entries, schema=LOG)

    def _moves_log(self, batch: EventBatch, rows: Records, some: Int64s) -> pa.Table:
        """A subscription that moves begins again elsewhere; its query is not parsed again."""
        if not len(some):
            return LOG.empty_table()
        known = self._moving(rows["begins"][some], rows["ends"][some])
        plain = batch.places.plain[some] & (known["kind"].to_numpy() != OTHER)
        plain &= known["asks"].is_null().to_numpy()
        same, moved = known.filter(pa.array(plain)), some[plain]
        columns = {name: same[name] for name in ("id", "query", "terms", "ops", "meta")}
        entries = []
        others = np.flatnonzero(~plain)
        for at, each in zip(others.tolist(), known.take(pa.array(others)).to_pylist(), strict=True):
            row = int(some[at])
            if each["kind"] != OTHER:
                each |= {"required": [each["terms"]], "excluded": [[]]}
            entries.append(entry_of(rows[row], each, batch.checked.region(row)))
        return pa.concat_tables(
            [
                _begun_log(rows, moved, columns | batch.places.columns(moved)),
                pa.Table.from_pylist(entries, schema=LOG),
            ]
        )

    def _shifts_log(self, batch: EventBatch, rows: Records, some: Int64s) -> list[pa.Table]:
        """Top-k subscriptions that move to a point, or to a region, or both."""
        if not len(some):
            return []
        known = self._moving(rows["begins"][some], rows["ends"][some])
        rich = known["definition"].null_count < len(known)
        if not rich and (rows["kind"][some] == SHIFT).all() and batch.moves.keys().isdisjoint(some):
            return [_begun_log(rows, some, shifted_log(batch.checked, some, known))]
        # One by one, as what one of them is may depend on the move before.
        current: dict[int, Subscription] = {}
        for row, each in zip(some.tolist(), known.to_pylist(), strict=True):
            was = current.get(int(rows["ends"][row])) or subscription_of(each)
            move = batch.moves.get(row)
            if move is not None:
                place, region = move.point, move.region
            elif rows["kind"][row] == SHIFT:
                lon, lat = batch.checked.points[row].tolist()
                place, region = (lon, lat), None
            else:
                place, region = None, batch.checked.region(row)
            current[int(rows["begins"][row])] = replace(
                was, point=place or was.point, region=region or was.region
            )
        return [_begun_log(rows, some, subscriptions_log(list(current.values())))]

    def _moving(self, begins: Int32s, ends: Int32s) -> pa.Table:
        """What is known of subscriptions that move, by what they become and what they were."""
        first: dict[int, int] = {}  # of what moved before in this batch: where its query is known
        for owner, was in zip(begins.tolist(), ends.tolist(), strict=True):
            first[owner] = first.get(was, was)
        return self.definitions(np.array([first[owner] for owner in begins.tolist()], np.int32))

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
        return completed_log(columns, len(where))


def hash_ids(ids: pa.StringArray) -> Slots:
    """Both hashes of each id, by which it is known."""
    hashes = np.empty((len(ids), 2), np.uint64)
    hash_strings(*buffers(ids), hashes)
    return hashes


def _begun_log(rows: Records, some: Int64s, columns: dict[str, Any]) -> pa.Table:
    """The log of subscriptions that begin with some rows."""
    own: dict[str, Any] = {"owner": rows["begins"][some], "seq": rows["seq"][some]}
    until = rows["until"][some]
    if not np.isnan(until).all():
        own["until"] = pa.array(until, mask=np.isnan(until))
    return completed_log(own | columns, len(some))
