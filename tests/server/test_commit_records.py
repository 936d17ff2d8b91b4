"""A commit that is repeated from its record has the same effect, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearcast import Box, Engine
from nearcast.events import Message, Publish, Subscribe, Subscription
from nearcast.server.standby.records import (
    ReplicaError,
    decode_commits,
    encode_commit,
    join_commits,
    repeat_commits,
)
from nearcast.store.lineage import Lineage

HERE = Box(0, 0, 1, 1)


def lineage_of(engine: Engine) -> Lineage:
    assert engine.lineage is not None
    return engine.lineage


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
