"""The registrar: reads the events of a batch in order, once, for all shards.

It runs on the driver. Here events are checked, subscriptions parsed and numbered, and whatever
depends on the order of events is decided (`ledger.py`); refused events are listed with the reason.
Messages are only checked: tasks read and match them, and know which ones to leave out.

The paper's dispatchers handle operations too, because there a deletion carries the whole query. In
an event log it carries an id, so the ids must be known: one place for them is simple and exact, and
at a few microseconds an operation it is not what limits a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.slots import Slots, hash_strings
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events import Event, Move, Publish, Subscribe, event_from_json
from nearcast.events.parquet import table_rows
from nearcast.geo import WORLD, Box, Circle, Region, region_to_json
from nearcast.geo.circles import circle_columns
from nearcast.spark.columns import (
    boxes_of,
    circles_of,
    floats_of,
    good_ids,
    is_text,
    mask_of,
    points_of,
    present,
)
from nearcast.spark.definitions import Definitions
from nearcast.spark.ledger import (
    BAD,
    FINE,
    MOVE,
    NO_OWNER,
    POINT,
    RANGE,
    RANKED,
    SHIFT,
    SUBSCRIBE,
    UNSUBSCRIBE,
    Codes,
    Decisions,
    Ledger,
)
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
from nearcast.spark.refusals import Refusal, refusals_in
from nearcast.spark.shaped import hull
from nearcast.spark.topk.reading import good_tops, ranked_log, shifted_log
from nearcast.spark.workers.messages import places_of
from nearcast.text import Query, parse_bag, parse_query
from nearcast.text.columns import buffers, hash_terms, hash_texts

_OPS = ["publish", "subscribe", "unsubscribe", "move"]
_PUBLISH, _SUBSCRIBE, _UNSUBSCRIBE, _MOVE = range(4)
_MAYBE_SYNTAX = r"[()]|AND|OR|NOT"


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


@dataclass
class _Parsed:
    """Where subscriptions of a batch are to be, and the queries of those that are not plain."""

    boxes: Floats  # by row, of plain boxes and circles
    circles: Floats  # by row, NaN for others
    flawed: npt.NDArray[np.bool_]  # by row: an event as it should be that cannot be taken
    regions: dict[int, Region] = field(default_factory=dict)  # of all others, by row
    queries: dict[int, Query] = field(default_factory=dict)


class Registrar:
    """Knows all subscriptions by id, and decides what events do to them."""

    def __init__(self, settings: Settings, ledger: Ledger | None = None) -> None:
        self.settings = settings
        self.ledger = ledger or Ledger(settings.window)
        self.known = Definitions()

    def read(self, events: pa.Table, seq: Int64s) -> Reading:
        """Decide a batch of events in EVENT_SCHEMA, whose sequence numbers ascend."""
        events = events.combine_chunks()
        errors: dict[int, str] = {}
        count = len(events)
        parsed = _Parsed(
            np.full((count, 4), np.nan), np.full((count, 3), np.nan), np.zeros(count, np.bool_)
        )
        kinds = self._kinds(events, errors, parsed)
        ids = hash_ids(pc.fill_null(_column(events, "id"), ""))
        ttl = _column(events, "ttl")
        before = self.ledger.first
        decisions = self.ledger.decide(
            kinds, ids, floats_of(_column(events, "at")),
            None if ttl.null_count == len(ttl) else floats_of(ttl), parsed.flawed,
        )  # fmt: skip
        refusals = refusals_in(events, kinds, decisions, errors)
        log = self._log(events, seq, kinds, decisions, parsed)
        begins = np.flatnonzero((decisions.begins != NO_OWNER) & (kinds < BAD))
        changes = BegunSubscriptions(
            decisions.begins[begins], decisions.ends[begins], seq[begins], decisions.times[begins]
        )
        return Reading(
            kinds, decisions.verdict, log, refusals, decisions.times, changes, decisions.number,
            decisions.first, decisions.again, before, events, seq,
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

    def _kinds(self, events: pa.Table, errors: dict[int, str], parsed: _Parsed) -> Codes:
        count = len(events)
        op = pc.fill_null(pc.index_in(events["op"], pa.array(_OPS)), -1).to_numpy()
        kinds = np.full(count, BAD, np.int8)
        at, ttl = floats_of(_column(events, "at")), _column(events, "ttl")
        sound = good_ids(_column(events, "id")) & (
            np.isfinite(at) | ~present(_column(events, "at"))
        )
        seconds = floats_of(ttl)
        timed = ~present(ttl) | ((seconds >= 0.0) & np.isfinite(seconds))
        placed = self._placed(events)
        in_region = present(_column(events, "region"))
        pointless = ~present(_column(events, "point"))
        texts = present(_column(events, "text"))
        for name in ("op", "id", "query", "text"):
            sound &= is_text(_column(events, name))
        if "problem" in events.column_names:
            sound &= ~present(events["problem"].combine_chunks())
        kinds[sound & (op == _PUBLISH) & texts & placed & ~in_region & timed] = POINT
        kinds[sound & (op == _UNSUBSCRIBE)] = UNSUBSCRIBE
        if in_region.any():
            boxes, boxed = boxes_of(_column(events, "region"))
            kinds[sound & (op == _PUBLISH) & texts & boxed & pointless & timed] = RANGE
            straight = boxed & (boxes[:, 0] <= boxes[:, 2])
            parsed.boxes[straight] = boxes[straight]
            straight |= _take_circles(_column(events, "region"), parsed)
            straight &= pointless
            plain = sound & (op == _SUBSCRIBE) & straight
            plain &= ~present(_column(events, "top"))
            kinds[self._plain_queries(events, plain)] = SUBSCRIBE
            kinds[sound & (op == _MOVE) & straight] = MOVE
        placed &= ~in_region
        kinds[sound & (op == _MOVE) & placed] = SHIFT
        if present(_column(events, "top")).any():
            plain = sound & (op == _SUBSCRIBE) & placed & good_tops(_column(events, "top"))
            kinds[self._plain_queries(events, plain)] = RANKED
        self._look_closely(events, np.flatnonzero(kinds == BAD), kinds, errors, parsed)
        return kinds

    def _placed(self, events: pa.Table) -> npt.NDArray[np.bool_]:
        points, good = points_of(_column(events, "point"))
        space = self.settings.space
        if space != WORLD:
            with np.errstate(invalid="ignore"):
                good &= (points >= (space.west, space.south)).all(axis=1)
                good &= (points <= (space.east, space.north)).all(axis=1)
        return good

    def _plain_queries(self, events: pa.Table, rows: npt.NDArray[np.bool_]) -> Int64s:
        """Which of these rows have queries of plain words, at least one of them a term."""
        some = np.flatnonzero(rows & present(_column(events, "query")))
        queries = _column(events, "query").take(pa.array(some))
        syntax = mask_of(pc.match_substring_regex(queries, _MAYBE_SYNTAX))
        some, queries = some[~syntax], queries.filter(pa.array(~syntax))
        texts = hash_texts(queries, self.settings.analyser)
        wordy = np.diff(texts.starts) > 0
        return some[wordy]

    def _look_closely(
        self,
        events: pa.Table,
        rows: Int64s,
        kinds: Codes,
        errors: dict[int, str],
        parsed: _Parsed,
    ) -> None:
        """Read single rows that are invalid, or merely unusual."""
        if not len(rows):
            return
        some = events.take(pa.array(rows))
        problems = (
            some["problem"].to_pylist() if "problem" in events.column_names else [None] * len(rows)
        )
        for row, fields, problem in zip(rows.tolist(), table_rows(some), problems, strict=True):
            try:
                if problem is not None:
                    errors[row] = problem
                    continue
                event = event_from_json(fields)
                kinds[row] = _kind_of(event)
                self._check(event, row, parsed)
            except NearcastError as error:
                errors[row] = str(error)
                parsed.flawed[row] = True

    def _check(self, event: Event, row: int, parsed: _Parsed) -> None:
        """Parse the subscription of an event; refuse what is not supported."""
        match event:
            case Publish(message) if message.point is not None:
                self.settings.check_inside(message.point)
            case Subscribe(subscription) if subscription.point is not None:
                self.settings.check_inside(subscription.point)
                parse_bag(subscription.query, self.settings.analyser)
            case Subscribe(subscription) if subscription.region is not None:
                parsed.queries[row] = parse_query(subscription.query, self.settings.analyser)
                parsed.regions[row] = subscription.region
            case Move(_, region, point):
                if point is not None:
                    self.settings.check_inside(point)
                if region is not None:
                    parsed.regions[row] = region

    def _log(
        self,
        events: pa.Table,
        seq: Int64s,
        kinds: Codes,
        decisions: Decisions,
        parsed: _Parsed,
    ) -> pa.Table:
        begins = np.flatnonzero((decisions.begins != NO_OWNER) & (kinds == SUBSCRIBE))
        special = np.isin(begins, np.array([*parsed.queries], np.int64))
        plain, others = begins[~special], begins[special]
        fresh = [
            self._plain_log(events, seq, plain, decisions.begins[plain], parsed),
            self._other_log(events, seq, others, decisions.begins[others], parsed),
        ]
        ranked = np.flatnonzero((decisions.begins != NO_OWNER) & (kinds == RANKED))
        if len(ranked):
            columns = ranked_log(events, seq, ranked, decisions.begins)
            fresh.append(_completed(columns, len(ranked)))
        self.remember(pa.concat_tables(fresh))
        moves = np.flatnonzero((decisions.begins != NO_OWNER) & (kinds == MOVE))
        moved = self._moves_log(seq, moves, decisions, parsed)
        shifts = np.flatnonzero((decisions.begins != NO_OWNER) & (kinds == SHIFT))
        if len(shifts):
            known = self._moving(decisions.begins[shifts], decisions.ends[shifts])
            columns = shifted_log(events, seq, shifts, decisions.begins, known)
            moved = pa.concat_tables([moved, _completed(columns, len(shifts))])
        self.remember(moved)
        ends = np.flatnonzero(decisions.ends != NO_OWNER)
        parts = [*fresh, moved, self._ends_log(seq[ends], decisions.ends[ends])]
        lasting = np.flatnonzero(~np.isnan(decisions.until))
        if len(lasting):
            parts.append(self._lasting_log(events, seq, lasting, decisions))
        return pa.concat_tables(parts)

    def _plain_log(
        self, events: pa.Table, seq: Int64s, rows: Int64s, owners: Int32s, parsed: _Parsed
    ) -> pa.Table:
        some = events.select(["id", "query"]).take(pa.array(rows))
        texts = hash_texts(some["query"].combine_chunks(), self.settings.analyser)
        columns = {
            "owner": owners,
            "seq": seq[rows],
            "id": some["id"],
            "query": some["query"],
            "terms": _lists(texts.starts, pa.array(texts.hashes)),
        }
        return _completed(columns | _placed_at(parsed, rows), len(rows))

    def _lasting_log(
        self, events: pa.Table, seq: Int64s, rows: Int64s, decisions: Decisions
    ) -> pa.Table:
        some = events.select(["id", "text", "point", "region"]).take(pa.array(rows))
        some = some.combine_chunks()
        texts = hash_texts(_column(some, "text"), self.settings.analyser)
        columns = {
            "kind": np.full(len(rows), LASTING, np.int8),
            "owner": np.full(len(rows), NO_OWNER, np.int32),
            "seq": seq[rows],
            "id": some["id"],
            "box": fixed_lists(places_of(some)),
            "terms": _lists(texts.starts, pa.array(texts.hashes)),
            "at": decisions.times[rows],
            "end": decisions.until[rows],
        }
        return _completed(columns, len(rows))

    def _other_log(
        self, events: pa.Table, seq: Int64s, rows: Int64s, owners: Int32s, parsed: _Parsed
    ) -> pa.Table:
        ids = events["id"].take(pa.array(rows)).to_pylist()
        conjuncts = [c for row in rows.tolist() for c in parsed.queries[row].conjuncts]
        words = sorted({term for c in conjuncts for term in c.required | c.excluded})
        hashes = dict(zip(words, hash_terms(words).tolist(), strict=True))
        entries = []
        for row, owner, id in zip(rows.tolist(), owners.tolist(), ids, strict=True):
            query = parsed.queries[row]
            required = [[hashes[term] for term in sorted(c.required)] for c in query.conjuncts]
            excluded = [[hashes[term] for term in sorted(c.excluded)] for c in query.conjuncts]
            known = {"id": id, "query": query.text, "required": required, "excluded": excluded}
            entries.append(_entry(owner, int(seq[row]), known, parsed.regions[row]))
        return pa.Table.from_pylist(entries, schema=LOG)

    def _moves_log(
        self, seq: Int64s, rows: Int64s, decisions: Decisions, parsed: _Parsed
    ) -> pa.Table:
        """A subscription that moves begins again elsewhere; its query is not parsed again."""
        if not len(rows):
            return LOG.empty_table()
        begins = decisions.begins[rows]
        known = self._moving(begins, decisions.ends[rows])
        shaped = np.isin(rows, np.array([*parsed.regions], np.int64))
        plain = ~shaped & (known["kind"].to_numpy() != OTHER)
        some, moved = known.filter(pa.array(plain)), rows[plain]
        columns = {name: some[name] for name in ("id", "query", "terms")}
        columns |= {"owner": begins[plain], "seq": seq[moved]} | _placed_at(parsed, moved)
        entries = []
        others = np.flatnonzero(~plain)
        for at, each in zip(others.tolist(), known.take(pa.array(others)).to_pylist(), strict=True):
            region = _region_at(parsed, int(rows[at]))
            if each["kind"] != OTHER:
                each |= {"required": [each["terms"]], "excluded": [[]]}
            entries.append(_entry(int(begins[at]), int(seq[rows[at]]), each, region))
        return pa.concat_tables(
            [_completed(columns, len(moved)), pa.Table.from_pylist(entries, schema=LOG)]
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


def _kind_of(event: Event) -> int:
    match event:
        case Publish(message):
            return RANGE if message.point is None else POINT
        case Subscribe(subscription):
            return SUBSCRIBE if subscription.top is None else RANKED
        case Move(_, region, _):
            return SHIFT if region is None else MOVE
    return UNSUBSCRIBE


def hash_ids(ids: pa.StringArray) -> Slots:
    """Both hashes of each id, by which it is known."""
    hashes = np.empty((len(ids), 2), np.uint64)
    hash_strings(*buffers(ids), hashes)
    return hashes


def _column(events: pa.Table, name: str) -> Any:
    column = events[name]
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _lists(starts: Int64s, values: pa.Array) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(starts.astype(np.int32)), values)


def _take_circles(regions: Any, parsed: _Parsed) -> npt.NDArray[np.bool_]:
    """Store the circles that a plain box bounds, and return which rows have one."""
    circles, good = circles_of(regions)
    rows = np.flatnonzero(good)
    if len(rows):
        boxes, _, whole = circle_columns(circles[rows, :2].copy(), circles[rows, 2].copy())
        good[rows[~whole]] = False
        rows = rows[whole]
        parsed.boxes[rows], parsed.circles[rows] = boxes[whole], circles[rows]
    return good


def _placed_at(parsed: _Parsed, rows: Int64s) -> dict[str, Any]:
    """The place of plain rows, and whether they are round, as columns."""
    circles = parsed.circles[rows]
    kinds = np.where(np.isnan(circles[:, 0]), PLAIN, ROUND).astype(np.int8)
    columns: dict[str, Any] = {"kind": kinds, "box": fixed_lists(parsed.boxes[rows])}
    return columns | ({"circle": fixed_lists(circles)} if (kinds == ROUND).any() else {})


def _region_at(parsed: _Parsed, row: int) -> Region:
    if row in parsed.regions:
        return parsed.regions[row]
    lon, lat, radius = parsed.circles[row].tolist()
    return Box(*parsed.boxes[row].tolist()) if np.isnan(lon) else Circle((lon, lat), radius)


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
