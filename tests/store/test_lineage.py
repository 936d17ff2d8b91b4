"""The numbers of commits: they grow, go to copies, and say where two histories part."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearcast import Box, Engine
from nearcast.engine import Engine as AnyEngine
from nearcast.events import Message, Publish, Subscribe, Subscription
from nearcast.server.standby.records import (
    ReplicaError,
    decode_commits,
    encode_commit,
    join_commits,
    repeat_commits,
)
from nearcast.store.lineage import HistoryEnd, Lineage, Term, fork

HERE = Box(0, 0, 1, 1)


def lineage_of(engine: AnyEngine) -> Lineage:
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


def test_a_copy_that_repeats_commits_is_the_same(tmp_path: Path) -> None:
    with Engine(path=tmp_path / "a.nearcast", index="scan") as one:
        lineage = lineage_of(one)
        lineage.begin(1)
        one.backup(tmp_path / "b.nearcast")
        lineage.recording = True
        frames: list[bytes] = []
        for events in (
            [Subscribe(Subscription("s1", "ipad OR sale", HERE), 5.0)],
            [Publish(Message("m1", "ipad", (0.5, 0.5), at=6.0, ttl=60.0))],
            [Publish(Message(f"n{n}", "sale", (0.5, 0.5))) for n in range(3)],
        ):
            one.apply_all(events, {f"key-{len(frames)}": b"\x00\xff"})
            frames += [
                encode_commit(commit, events, one.seq, one.log.last) for commit in lineage.take()
            ]
        lineage.begin(2)
        frames += [encode_commit(commit, (), one.seq, one.log.last) for commit in lineage.take()]
        with Engine(path=tmp_path / "b.nearcast", index="scan") as two:
            records = decode_commits(join_commits(frames))
            assert len(records) == 4
            assert sum(len(events) for events, _, _ in repeat_commits(two, records)) == 5
            other = lineage_of(two)
            assert (other.position, other.mark) == (lineage.position, lineage.mark)
            assert other.terms == lineage.terms
            assert two.log.read(0, 100) == one.log.read(0, 100)
            assert two.results("s1") == one.results("s1")
            assert [two.recall(f"key-{n}") for n in range(3)] == [b"\x00\xff"] * 3
            with pytest.raises(ReplicaError, match="does not follow"):
                list(repeat_commits(two, records))


def test_another_effect_is_noticed(tmp_path: Path) -> None:
    with Engine(path=tmp_path / "a.nearcast", index="scan") as one:
        lineage_of(one).begin(1)
        one.backup(tmp_path / "b.nearcast")
        lineage_of(one).recording = True
        events = [Subscribe(Subscription("s1", "ipad", HERE))]
        one.apply_all(events)
        (commit,) = lineage_of(one).take()
        frame = encode_commit(commit, events, one.seq, one.log.last + 1)
        with (
            Engine(path=tmp_path / "b.nearcast", index="scan") as two,
            pytest.raises(ReplicaError, match="update 0 here"),
        ):
            list(repeat_commits(two, decode_commits(join_commits([frame]))))


A1 = Term(1, "a", 1, 0, 0)
B2, C2 = Term(2, "b", 11, 20, 30), Term(2, "c", 8, 14, 21)
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
    own: list[Term], theirs: list[Term], position: int, expected: HistoryEnd | None
) -> None:
    assert fork(own, END, theirs, position) == expected
