"""The numbers of commits: they grow, go to copies, and say where two histories part."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearcast import Box, Engine
from nearcast.store.lineage import HistoryEnd, Lineage, PrimaryTerm, fork

HERE = Box(0, 0, 1, 1)


def lineage_of(engine: Engine) -> Lineage:
    assert engine.lineage is not None
    return engine.lineage


def test_commits_are_counted_once_a_term_has_begun(tmp_path: Path) -> None:
    path = tmp_path / "a.nearcast"
    with Engine(path=path, index="scan") as engine:
        engine.subscribe("s1", "ipad", HERE)
        assert lineage_of(engine).position == 0
        lineage_of(engine).begin(1)
        engine.publish("m1", "ipad", (0.5, 0.5))
        engine.remember("key", b"answer")
        lineage = lineage_of(engine)
        assert (lineage.position, [term.number for term in lineage.terms]) == (3, [1])
        assert lineage.terms[0][2:] == (1, 1, 0)
        mark = lineage.mark
    with Engine(path=path, index="scan") as engine:
        assert (lineage_of(engine).position, lineage_of(engine).mark) == (3, mark)


A1 = PrimaryTerm(1, "a", 1, 0, 0)
B2, C2 = PrimaryTerm(2, "b", 11, 20, 30), PrimaryTerm(2, "c", 8, 14, 21)
END = HistoryEnd(15, 25, 40)


@pytest.mark.parametrize(
    ("own", "theirs", "position", "expected"),
    [
        ([A1], [A1], 15, None),
        ([A1], [A1], 7, None),
        ([A1], [A1], 16, END),
        ([A1, B2], [A1], 10, None),
        ([A1, B2], [A1], 12, HistoryEnd(10, 20, 30)),
        ([A1, B2], [A1, B2], 15, None),
        ([A1], [A1, B2], 15, HistoryEnd(10, 20, 30)),
        ([A1, B2], [A1, C2], 9, HistoryEnd(7, 14, 21)),
        ([A1, C2], [A1, B2], 30, HistoryEnd(7, 14, 21)),
        ([B2], [A1], 1, HistoryEnd(0, 0, 0)),
    ],
)
def test_where_two_histories_part(
    own: list[PrimaryTerm], theirs: list[PrimaryTerm], position: int, expected: HistoryEnd | None
) -> None:
    assert fork(own, END, theirs, position) == expected
