"""Rankings by every method against `scan`: the same updates at every event, bit for bit."""

from functools import partial
from typing import Any, ClassVar

import pyarrow as pa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nearcast import Box, Engine, NearcastError, Top
from nearcast.engine.tables import TableError
from nearcast.geo import WORLD
from nearcast.text import Vocabulary
from nearcast.topk.skype import Skype

WORDS = [*"abcdefgh", "É", "ﬁ", "x1"]
COMMON = [*"aaab", *WORDS]
words = st.lists(st.sampled_from(COMMON), min_size=0, max_size=12).map(" ".join)
queries = st.lists(st.sampled_from(COMMON), min_size=1, max_size=8).map(" ".join)
coordinates = st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.5, 1.25])
points = st.tuples(coordinates, coordinates)
names = st.sampled_from([f"s{n}" for n in range(12)])
tops = st.builds(
    Top,
    st.sampled_from([1, 1, 2, 3, 5, 20, 1000]),
    st.sampled_from([0.0, 1.0, 0.5, 0.3, 0.9]),
)
steps = st.sampled_from([None, None, None, 0.0, 1.0, 3.0, 40.0])
windows = st.sampled_from(
    [{"window_count": n} for n in (1, 2, 7, 30, 90)]
    + [{"window_seconds": s} for s in (1.0, 5.0, 25.0)]
)
histories = st.sampled_from([None, ("a b", "a", "a c d", "É", "e f"), ("a",)])


METHODS: list[dict[str, Any]] = [
    {"dissemination": "taat", "reevaluation": "cskyband"},
    {"dissemination": "taat", "reevaluation": "kmax"},
    {"dissemination": "ciq", "reevaluation": "skyband"},
    {"dissemination": "igpt", "reevaluation": "kmax", "parameter": 25},
    {"dissemination": "igpt", "reevaluation": "cskyband", "traversal": "term", "capacity": 2},
    {"dissemination": "igpt", "reevaluation": "skyband", "capacity": 3, "groups": 2},
    {"dissemination": "igpt", "without": ("groups", "cells"), "capacity": 3},
    {"dissemination": "igpt", "without": ("prefix", "unseen", "inner"), "capacity": 3},
]


class Rankings(RuleBasedStateMachine):
    """One engine with the core and one that scans get the same events."""

    methods: ClassVar[list[dict[str, Any]]] = [{}]
    ranking: ClassVar[str] = "auto"

    @initialize(
        data=st.data(),
        window=windows,
        history=histories,
        space=st.sampled_from([WORLD, Box(0, 0, 2, 3)]),
    )
    def start(
        self,
        data: st.DataObject,
        window: dict[str, Any],
        history: tuple[str, ...] | None,
        space: Box,
    ) -> None:
        vocabulary = None
        if history is not None:
            vocabulary = Vocabulary.from_documents(text.split() for text in history)
        self.engines = [
            Engine(index=index, ranking=ranking, history=vocabulary, space=space, **window)
            for index, ranking in (("rarest-term", self.ranking), ("scan", "auto"))
        ]
        method = data.draw(st.sampled_from(self.methods))
        if method:
            core: Any = self.engines[0]._core
            core.ranked.make = partial(Skype, **method)
        self.made, self.now = 0, 0.0
        self.known: set[str] = set()

    def _both(self, do: Any) -> None:
        answers = []
        for engine in self.engines:
            try:
                answers.append(do(engine))
            except NearcastError as error:
                answers.append((type(error), str(error)))
        assert answers[0] == answers[1]

    def _at(self, step: float | None) -> float | None:
        if step is None:
            return None
        self.now += step
        return self.now

    def _message(self, again: bool) -> str:
        self.made += not again
        return f"m{self.made % 1000}"

    @rule(id=names, query=queries, point=points, top=tops, step=steps)
    def subscribe(self, id: str, query: str, point: Any, top: Top, step: float | None) -> None:
        at = self._at(step)
        self._both(lambda engine: engine.subscribe(id, query, point=point, top=top, at=at))
        self.known.add(id)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), point=points, step=steps)
    def move(self, data: st.DataObject, point: Any, step: float | None) -> None:
        id, at = data.draw(st.sampled_from(sorted(self.known))), self._at(step)
        self._both(lambda engine: engine.move(id, point=point, at=at))

    @precondition(lambda self: self.known)
    @rule(data=st.data(), step=steps)
    def unsubscribe(self, data: st.DataObject, step: float | None) -> None:
        id, at = data.draw(st.sampled_from(sorted(self.known))), self._at(step)
        self._both(lambda engine: engine.unsubscribe(id, at=at))
        self.known.discard(id)

    @rule(text=words, point=points, step=steps, again=st.integers(0, 19), ttl=st.integers(0, 3))
    def publish(self, text: str, point: Any, step: float | None, again: int, ttl: int) -> None:
        id, at = self._message(again == 7), self._at(step)
        self._both(lambda e: e.publish(id, text, point, at=at, ttl=float(ttl == 3)))

    @rule(
        rows=st.lists(st.tuples(words, points), min_size=1, max_size=40),
        step=steps,
        again=st.integers(0, 9),
        spread=st.booleans(),
    )
    def publish_many(self, rows: Any, step: float | None, again: int, spread: bool) -> None:
        first = self._at(step)
        ids = [self._message(again == 7 and n == 3) for n in range(len(rows))]
        columns = {"id": ids, "text": [text for text, _ in rows], "point": [p for _, p in rows]}
        if first is not None:
            columns["at"] = [first + (n // 5 if spread else 0) for n in range(len(rows))]
            self.now = columns["at"][-1]
        self._tables("publish_table", pa.table(columns))

    @rule(
        rows=st.lists(st.tuples(queries, points, tops), min_size=1, max_size=12),
    )
    def subscribe_many(self, rows: Any) -> None:
        ids = [f"t{self.made}-{n}" for n in range(len(rows))]
        tops = [{"k": top.k, "alpha": top.alpha} for _, _, top in rows]
        points = [point for _, point, _ in rows]
        table = {"id": ids, "query": [q for q, _, _ in rows], "point": points, "top": tops}
        self._tables("subscribe_table", pa.table(table))
        self.known |= set(ids)

    def _tables(self, method: str, table: pa.Table) -> None:
        answers: list[Any] = []
        for engine in self.engines:
            try:
                answers.append(getattr(engine, method)(table).to_pylist())
            except TableError as error:
                answers.append((str(error), error.updates.to_pylist()))
        assert answers[0] == answers[1]

    @rule(id=st.sampled_from(["b1", "b2"]), query=queries, step=steps)
    def subscribe_to_a_region(self, id: str, query: str, step: float | None) -> None:
        at = self._at(step)
        self._both(lambda engine: engine.subscribe(id, query, Box(0, 0, 1, 1), at=at))

    @invariant()
    def all_have_the_same_results(self) -> None:
        for id in self.known:
            assert self.engines[0].results(id) == self.engines[1].results(id)
        cores: list[Any] = [engine._core for engine in self.engines]
        last = f"m{self.made % 1000}"
        assert cores[0].rankings.message(last) == cores[1].rankings.message(last)
        fast, plain = (engine.subscriptions() for engine in self.engines)
        assert sorted(fast, key=lambda s: s.id) == sorted(plain, key=lambda s: s.id)


class RankingsOfThePaper(Rankings):
    """The same, with a method of Skype in the place of the core."""

    methods = METHODS


class RankingsOfSkype(Rankings):
    """The same, with the whole system of the paper as it is made by its name."""

    ranking = "skype"


def _test_case(machine: type[RuleBasedStateMachine], examples: int) -> Any:
    case = machine.TestCase
    case.settings = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return case


TestRankings = _test_case(Rankings, 25)
TestRankingsOfThePaper = _test_case(RankingsOfThePaper, 25)
TestRankingsOfSkype = _test_case(RankingsOfSkype, 25)
