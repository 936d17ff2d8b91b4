"""The registrar: reads the events of a batch in order, once, for all shards.

It runs on the driver. Here events are checked, subscriptions parsed and numbered, and whatever
depends on the order of events is decided (`ledger.py`); refused events are listed with the reason.
Messages are only checked: tasks read and match them, and know which ones to leave out.

The paper's dispatchers handle operations too, because there a deletion carries the whole query. In
an event log it carries an id, so the ids must be known: one place for them is simple and exact, and
at a few microseconds an operation it is not what limits a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.slots import Slots, hash_strings
from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.order import FINE, NO_OWNER, Rows
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events.flat import present
from nearcast.events.reader import (
    BAD,
    MOVE,
    POINT,
    RANGE,
    RANKED,
    SHIFT,
    SUBSCRIBE,
    CheckedEvents,
    Codes,
)
from nearcast.events.reader import (
    OTHER as NOT_COLUMNS,
)
from nearcast.geo import Box, Circle, Region, region_to_json
from nearcast.geo.circles import circle_columns
from nearcast.spark.definitions import Definitions
from nearcast.spark.ledger import Ledger
from nearcast.spark.operations import (
    END,
    GONE,
    LASTING,
    LOG,
    OTHER,
    PLAIN,
    ROUND,
    BegunSubscriptions,
    begun_in,
    fixed_lists,
)
from nearcast.spark.refusals import Refusal, check_event, check_query, check_shape, refusals_in
from nearcast.spark.shaped import hull
from nearcast.spark.topk.reading import ranked_log, shifted_log
from nearcast.text import Query, parse_bag, parse_query
from nearcast.text.columns import buffers, hash_terms, hash_texts, may_have_syntax


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
    before: int  # the oldest message in the window before all rows
    events: pa.Table
    seq: Int64s

    @property
    def messages(self) -> npt.NDArray[np.bool_]:
        """Which rows are messages to be matched."""
        good: npt.NDArray[np.bool_] = (self.verdict == FINE) & (self.kinds <= RANGE)
        return good

    @property
    def points(self) -> int:
        """How many messages came into the window."""
        return int(((self.verdict == FINE) & (self.kinds == POINT)).sum())


class _Places:
    """Where the subscriptions of a batch are to be, by row, if one plain box bounds them."""

    def __init__(self, checked: CheckedEvents) -> None:
        self.boxes, self.circles = checked.boxes, checked.circles  # NaN for boxes
        rows = np.flatnonzero(~np.isnan(self.circles[:, 0]))
        if len(rows):
            self.boxes, self.circles = self.boxes.copy(), self.circles.copy()
            circles = self.circles[rows]
            boxes, _, whole = circle_columns(circles[:, :2].copy(), circles[:, 2].copy())
            self.boxes[rows[whole]] = boxes[whole]
            self.circles[rows[~whole]] = np.nan
        self.plain = self.boxes[:, 0] <= self.boxes[:, 2]

    def columns(self, rows: Int64s) -> dict[str, Any]:
        """The place of plain rows, and whether they are round, as columns."""
        circles = self.circles[rows]
        kinds = np.where(np.isnan(circles[:, 0]), PLAIN, ROUND).astype(np.int8)
        columns: dict[str, Any] = {"kind": kinds, "box": fixed_lists(self.boxes[rows])}
        return columns | ({"circle": fixed_lists(circles)} if (kinds == ROUND).any() else {})


class _Batch:
    """The events of a batch, and the queries of those that are not plain words in a plain place."""

    def __init__(self, events: pa.Table, settings: Settings) -> None:
        self._settings = settings
        self.checked = CheckedEvents(events)
        self.kinds = self.checked.kinds
        self.errors = {row: str(error) for row, error in self.checked.errors.items()}
        if "problem" in events.column_names:
            problems = events["problem"].combine_chunks()
            for row in np.flatnonzero(present(problems)).tolist():
                self.errors[row] = problems[row].as_py()
        self.flawed = np.zeros(len(events), np.bool_)  # events that cannot be taken as they are
        self.places = _Places(self.checked)
        self.queries: dict[int, Query] = {}
        placed = np.isin(self.kinds, (POINT, RANKED, SHIFT))
        for row in np.flatnonzero(settings.outside(self.checked.points) & placed).tolist():
            self._try(row, partial(settings.check_inside, tuple(self.checked.points[row].tolist())))
        for row, event in self.checked.others.items():
            self._try(row, partial(check_event, event))
        for row, region in self.checked.regions.items():
            self._try(row, partial(check_shape, region))
        self.kinds[self.kinds == NOT_COLUMNS] = BAD
        for row in self._special():
            self._parse(row)

    def _special(self) -> list[int]:
        """The rows of subscriptions that have to be parsed."""
        boolean = self.kinds == SUBSCRIBE
        asked = np.flatnonzero((boolean & self.places.plain) | (self.kinds == RANKED))
        queries = self.checked.queries.take(pa.array(asked))
        odd = may_have_syntax(queries)
        texts = hash_texts(queries.filter(pa.array(~odd)), self._settings.analyser)
        odd[np.flatnonzero(~odd)[np.diff(texts.starts) == 0]] = True  # no term at all
        return [*asked[odd].tolist(), *np.flatnonzero(boolean & ~self.places.plain).tolist()]

    def _parse(self, row: int) -> None:
        query, analyser = self.checked.queries[row].as_py(), self._settings.analyser

        def parse() -> None:
            if self.kinds[row] == RANKED:
                parse_bag(query, analyser)
            else:
                parsed = parse_query(query, analyser)
                check_query(parsed)
                self.queries[row] = parsed

        self._try(row, parse)

    def _try(self, row: int, check: Any) -> None:
        """Note the error that a check ends in; the first one counts."""
        try:
            check()
        except NearcastError as error:
            self.flawed[row] = True
            self.errors.setdefault(row, str(error))


class Registrar:
    """Knows all subscriptions by id, and decides what events do to them."""

    def __init__(self, settings: Settings, ledger: Ledger | None = None) -> None:
        self.settings = settings
        self.ledger = ledger or Ledger(settings.window)
        self.known = Definitions()

    def read(self, events: pa.Table, seq: Int64s) -> Reading:
        """Decide a batch of events in EVENT_SCHEMA, whose sequence numbers ascend."""
        events = events.combine_chunks()
        batch = _Batch(events, self.settings)
        checked, kinds, before = batch.checked, batch.kinds, self.ledger.first
        ids = hash_ids(pc.fill_null(checked.ids, ""))
        ttl = None if np.isnan(checked.ttl).all() else checked.ttl
        rows = self.ledger.decide(kinds, ids, checked.at, ttl, batch.flawed)
        refusals = refusals_in(rows, checked.ids, batch.errors)
        log = self._log(batch, seq, rows)
        begun = np.flatnonzero((rows["begins"] != NO_OWNER) & (kinds < BAD))
        changes = BegunSubscriptions(
            rows["begins"][begun], rows["ends"][begun], seq[begun], rows["time"][begun]
        )
        return Reading(
            kinds, rows["verdict"], log, refusals, rows["time"], changes, rows["number"],
            rows["first"], rows["again"], before, events, seq,
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

    def _log(self, batch: _Batch, seq: Int64s, rows: Rows) -> pa.Table:
        """What begins and ends with rows, and what lasts."""

        all_begun = np.flatnonzero(rows["begins"] != NO_OWNER)
        their_kinds = rows["kind"][all_begun]

        def begun(kind: int) -> Int64s:
            some: Int64s = all_begun[their_kinds == kind]
            return some

        checked = batch.checked
        begins = begun(SUBSCRIBE)
        special = np.isin(begins, np.array([*batch.queries], np.int64))
        plain = begins[~special]
        texts = self._texts(checked, plain)
        fresh = [
            _begun_log(seq, rows, plain, texts | batch.places.columns(plain)),
            self._other_log(batch, seq, rows, begins[special]),
        ]
        ranked = begun(RANKED)
        if len(ranked):
            fresh.append(_begun_log(seq, rows, ranked, ranked_log(checked, ranked)))
        self.remember(pa.concat_tables(fresh))
        moved = [self._moves_log(batch, seq, rows, begun(MOVE))]
        shifts = begun(SHIFT)
        if len(shifts):
            known = self._moving(rows["begins"][shifts], rows["ends"][shifts])
            moved.append(_begun_log(seq, rows, shifts, shifted_log(checked, shifts, known)))
        self.remember(pa.concat_tables(moved))
        ends = np.flatnonzero(rows["ends"] != NO_OWNER)
        parts = [*fresh, *moved, self._ends_log(seq[ends], rows["ends"][ends])]
        lasting = np.flatnonzero(~np.isnan(rows["until"]))
        if len(lasting):
            parts.append(self._lasting_log(checked, seq, rows, lasting))
        return pa.concat_tables(parts)

    def _texts(self, checked: CheckedEvents, rows: Int64s) -> dict[str, Any]:
        """The ids and queries of subscriptions, and the hashes of their terms."""
        where = pa.array(rows)
        queries = checked.queries.take(where)
        return {"id": checked.ids.take(where), "query": queries, "terms": self._terms(queries)}

    def _terms(self, texts: pa.StringArray) -> pa.ListArray:
        found = hash_texts(texts, self.settings.analyser)
        return pa.ListArray.from_arrays(
            pa.array(found.starts.astype(np.int32)), pa.array(found.hashes)
        )

    def _lasting_log(
        self, checked: CheckedEvents, seq: Int64s, rows: Rows, some: Int64s
    ) -> pa.Table:
        where = pa.array(some)
        boxes = np.hstack([checked.points[some], checked.points[some]])
        wide = np.isnan(boxes[:, 0])
        boxes[wide] = checked.boxes[some[wide]]
        columns = {
            "kind": np.full(len(some), LASTING, np.int8),
            "owner": np.full(len(some), NO_OWNER, np.int32),
            "seq": seq[some],
            "id": checked.ids.take(where),
            "box": fixed_lists(boxes),
            "terms": self._terms(checked.texts.take(where)),
            "at": rows["time"][some],
            "end": rows["until"][some],
        }
        return _completed(columns, len(some))

    def _other_log(self, batch: _Batch, seq: Int64s, rows: Rows, some: Int64s) -> pa.Table:
        ids = batch.checked.ids.take(pa.array(some)).to_pylist()
        conjuncts = [c for row in some.tolist() for c in batch.queries[row].conjuncts]
        words = sorted({term for c in conjuncts for term in c.required | c.excluded})
        hashes = dict(zip(words, hash_terms(words).tolist(), strict=True))
        entries = []
        for row, id in zip(some.tolist(), ids, strict=True):
            query = batch.queries[row]
            required = [[hashes[term] for term in sorted(c.required)] for c in query.conjuncts]
            excluded = [[hashes[term] for term in sorted(c.excluded)] for c in query.conjuncts]
            known = {"id": id, "query": query.text, "required": required, "excluded": excluded}
            owner, region = int(rows["begins"][row]), batch.checked.region(row)
            entries.append(_entry(owner, int(seq[row]), known, region))
        return pa.Table.from_pylist(entries, schema=LOG)

    def _moves_log(self, batch: _Batch, seq: Int64s, rows: Rows, some: Int64s) -> pa.Table:
        """A subscription that moves begins again elsewhere; its query is not parsed again."""
        if not len(some):
            return LOG.empty_table()
        begins = rows["begins"][some]
        known = self._moving(begins, rows["ends"][some])
        plain = batch.places.plain[some] & (known["kind"].to_numpy() != OTHER)
        same, moved = known.filter(pa.array(plain)), some[plain]
        columns = {name: same[name] for name in ("id", "query", "terms")}
        entries = []
        others = np.flatnonzero(~plain)
        for at, each in zip(others.tolist(), known.take(pa.array(others)).to_pylist(), strict=True):
            region = batch.checked.region(int(some[at]))
            if each["kind"] != OTHER:
                each |= {"required": [each["terms"]], "excluded": [[]]}
            entries.append(_entry(int(begins[at]), int(seq[some[at]]), each, region))
        return pa.concat_tables(
            [
                _begun_log(seq, rows, moved, columns | batch.places.columns(moved)),
                pa.Table.from_pylist(entries, schema=LOG),
            ]
        )

    def _moving(self, begins: Int32s, ends: Int32s) -> pa.Table:
        """What is known of subscriptions that move, by what they become and what they were."""
        first: dict[int, int] = {}  # of what moved before in this batch: where its query is known
        for owner, was in zip(begins.tolist(), ends.tolist(), strict=True):
            first[owner] = first.get(was, was)
        return self.definitions(np.array([first[owner] for owner in begins.tolist()], np.int32))

    def _ends_log(self, seq: Int64s, owners: Int32s) -> pa.Table:
        kind = np.where(self.ledger.is_ranked(owners), GONE, END).astype(np.int8)
        return _completed({"kind": kind, "owner": owners, "seq": seq}, len(seq))


def hash_ids(ids: pa.StringArray) -> Slots:
    """Both hashes of each id, by which it is known."""
    hashes = np.empty((len(ids), 2), np.uint64)
    hash_strings(*buffers(ids), hashes)
    return hashes


def _begun_log(seq: Int64s, rows: Rows, some: Int64s, columns: dict[str, Any]) -> pa.Table:
    """The log of subscriptions that begin with some rows."""
    return _completed({"owner": rows["begins"][some], "seq": seq[some]} | columns, len(some))


def _completed(columns: dict[str, Any], count: int) -> pa.Table:
    arrays = [
        columns[name] if name in columns else pa.nulls(count, LOG.field(name).type)
        for name in LOG.names
    ]
    return pa.Table.from_arrays([_as_arrow(array) for array in arrays], schema=LOG)


def _as_arrow(array: Any) -> Any:
    return pa.array(array) if isinstance(array, np.ndarray) else array


def _entry(owner: int, seq: int, known: dict[str, Any], region: Region) -> dict[str, Any]:
    """One subscription in the form of the log: plain where it is, for the sake of speed.

    `known` has its id and its query, as text and as hashes.
    """
    entry: dict[str, Any] = {"owner": owner, "seq": seq, "id": known["id"], "query": known["query"]}
    required, excluded = known["required"], known["excluded"]
    bounds = region.bounds()
    if len(bounds) == 1 and len(required) == 1 and not excluded[0]:
        entry |= {"box": bounds[0], "terms": required[0]}
        if isinstance(region, Box):
            return entry | {"kind": PLAIN}
        if isinstance(region, Circle):
            return entry | {"kind": ROUND, "circle": [*region.center, region.radius]}
    shape = msgspec.json.encode(region_to_json(region)).decode()
    entry = {key: value for key, value in entry.items() if key != "terms"} | {"box": hull(bounds)}
    return entry | {"kind": OTHER, "region": shape, "required": required, "excluded": excluded}
