"""A running pipeline measures its loads, evens itself out, and is evened out by hand."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from any_targets import any_target
from boolean_logs import scanned
from crashes import Crash, Crashes
from nearcast.cli.main import main
from nearcast.engine.settings import Settings
from nearcast.errors import InvalidValue
from nearcast.geo import Box
from nearcast.partition.adjust.meter import BalanceWatch
from nearcast.partition.adjust.replan import Proposal
from nearcast.partition.adjust.versions import differing, line_of
from nearcast.partition.grid import Grid
from nearcast.partition.load import balance_of
from nearcast.partition.plan import Plan
from nearcast.partition.sample import Sample, SampleMessages
from nearcast.spark.driver.adjusting import Allowance, Pace
from nearcast.spark.driver.balancing import Balancer, suggest
from nearcast.spark.driver.feed import BatchFeed
from nearcast.spark.driver.loads import LoadCounters, read_loads
from nearcast.spark.driver.planning import COSTS
from nearcast.spark.driver.snapshot import standing
from nearcast.spark.reports.report import BatchReport, WorkerReport, read_reports
from small_pipeline import WORDS, Small, churn, write_events
from uneven import uneven_log

Out = pytest.CaptureFixture[str]
SPACE = Settings(space=Box(-12, -12, 12, 12))


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Small:
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.fsync", lambda _: None)
    monkeypatch.setattr("nearcast.spark.driver.loads._EVERY_S", 0.0)
    small = Small(tmp_path, SPACE)
    small.partitioner, small.workers, small.step_rows = "space-kd", 4, 1000
    return small


def plan_of(feed: BatchFeed) -> Plan:
    assert feed.pipeline.history.plan is not None
    return feed.pipeline.history.plan


def test_a_crash_at_any_point_of_a_move_loses_nothing_and_repeats_nothing(
    tmp_path: Path, crashes: Crashes
) -> None:
    """It dies between any two changes of files while cells change hands, a few with every batch."""
    batches, rows, some = 12, 14, Random(5)
    log = churn(batches * rows, seed=5)
    small = Small(tmp_path, SPACE)
    small.partitioner, small.workers = "space-kd", 3
    expected, refused = scanned(log, SPACE)
    feed: BatchFeed | None = None
    deaths, versions = 0, set[int]()
    for batch, path in enumerate(write_events(tmp_path / "in", log, batches, 6)):
        if feed is not None and batch % 2:
            feed.pipeline.state.write_target(any_target(plan_of(feed), some, WORDS))
        taken = False
        while not taken:
            try:
                with crashes.anywhere_new(tmp_path):
                    clock = iter(range(0, 1_000_000, 7))
                    small.allowance = Allowance(9_000, lambda: float(next(clock)))  # noqa: B023 - used in this turn
                    feed = feed or small.open()
                    small.take(feed, batch, [path])
                    taken = True
            except Crash:
                feed = None
                deaths += 1
        assert feed is not None
        versions.add(plan_of(feed).number)
    small.check(expected)
    assert small.refused() == refused
    assert deaths == crashes.deaths
    assert len(crashes.known) > 100
    assert len(versions) > 4


def taken_with(small: Small, log: list[dict[str, Any]], batches: int, mode: Any) -> BatchFeed:
    """Run a log, batch by batch, with a balancer that works at once."""
    clock = iter(range(0, 1_000_000, 20))
    balancer = Balancer(
        mode,
        clock=lambda: float(next(clock)),
        beside=False,
        watch=BalanceWatch(patience=1),
        fewest_messages=20,
    )
    small.balancer = balancer
    feed = small.open()
    for batch, path in enumerate(write_events(small.folder / "in", log, batches, 500)):
        small.take(feed, batch, [path])
    return feed


def test_a_pipeline_evens_itself_out_when_its_load_moves_on(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers are judged by the work they did; what is found stays the same."""
    batches, rows = 12, 120
    log = uneven_log(3, batches, rows)
    expected, _ = scanned(log, SPACE)
    monkeypatch.setattr("nearcast.spark.driver.loads._MOST_MESSAGES", 200)
    feed = taken_with(small, log, batches, "auto")
    small.check(expected)
    reports = read_reports(str(small.folder / "state"))
    taken = [report.advice for report in reports if report.advice is not None]
    moves = [report.moved for report in reports if report.moved is not None]
    assert taken
    assert all(advice.taken and advice.expected < advice.balance for advice in taken)
    assert moves
    assert sum(move.bytes for move in moves) > 0
    assert line_of(plan_of(feed)) < plan_of(feed).number  # its shards have lived on
    drifted = batches // 2
    before, after = busiest(reports[drifted : drifted + 1]), busiest(reports[-3:])
    assert before > 2.0
    assert after < 0.8 * before


def busiest(reports: list[BatchReport]) -> float:
    """The messages of the busiest worker by the mean, over some batches."""
    loads = np.zeros(4)
    for report in reports:
        for worker in report.workers:
            loads[worker.worker] += worker.messages
    return balance_of(loads)


def test_what_is_only_suggested_is_not_done(small: Small) -> None:
    """The advice is in the reports; the plan stays."""
    feed = taken_with(small, uneven_log(3, 6, 120), 6, "suggest")
    reports = read_reports(str(small.folder / "state"))
    assert any(report.advice is not None and not report.advice.taken for report in reports)
    assert not any(report.moved for report in reports)
    assert line_of(plan_of(feed)) == plan_of(feed).number
    assert feed.pipeline.state.target() is None


def test_by_hand_it_is_shown_first_and_done_with_apply(small: Small, capsys: Out) -> None:
    """`spark adjust` reads the state only; with --apply the stream goes there, also rescaled."""
    batches, rows = 6, 120
    log = uneven_log(4, batches, rows)
    expected, _ = scanned(log, SPACE)
    paths = write_events(small.folder / "in", log, batches, 500)
    feed = small.open()
    for batch, path in enumerate(paths[:2]):
        small.take(feed, batch, [path])
    state = str(small.folder / "state")
    picture = small.folder / "change.html"
    assert main(["spark", "adjust", state, "--json", "--output", str(picture)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert not shown["applied"]
    assert shown["balance_after"] < shown["balance_before"]
    for name in ("before", "cpu"):
        assert sum(share[name] for share in shown["shares"]) == pytest.approx(1.0, abs=1e-3)
    assert "changes hands" in picture.read_text()
    image = small.folder / "change.png"
    assert main(["spark", "adjust", state, "--output", str(image)]) == 0
    assert image.read_bytes().startswith(b"\x89PNG")
    assert "CPU" in capsys.readouterr().out
    assert feed.pipeline.state.target() is None
    assert main(["spark", "adjust", state, "--workers", "6", "--apply"]) == 0
    assert "applied" in capsys.readouterr().out
    small.take(feed, 2, [paths[2]])
    assert plan_of(feed).workers == 6
    small.take(feed, 3, [paths[3]])
    assert main(["spark", "adjust", state, "--workers", "2", "--apply", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workers"] == 2
    for batch in (4, 5):
        small.take(feed, batch, [paths[batch]])
    assert plan_of(feed).workers == 2
    assert main(["spark", "status", state]) == 0
    assert "moved" in capsys.readouterr().out
    small.check(expected)


def test_a_plan_that_is_not_reached_can_be_given_up(small: Small, capsys: Out) -> None:
    """Nothing else changes, and what cannot be adjusted is reported in one line."""
    paths = write_events(small.folder / "in", churn(40), 2, 20)
    feed = small.open()
    small.take(feed, 0, [paths[0]])
    state = feed.pipeline.state
    state.write_target(any_target(plan_of(feed), Random(1), WORDS))
    assert main(["spark", "adjust", state.path, "--cancel"]) == 0
    assert state.target() is None
    assert main(["spark", "adjust", state.path, "--cancel", "--apply"]) == 2
    assert main(["spark", "adjust", state.path, "--output", "x.pdf"]) == 2
    assert main(["spark", "adjust", str(small.folder / "in")]) == 2
    state.write_target(plan_of(feed).changed(order_terms=np.array([9], np.uint64),
                                             order_counts=np.array([1])))  # fmt: skip
    small.take(feed, 1, [paths[1]])
    assert plan_of(feed).number == 1
    assert state.target() is None  # it does not go with the plan in use
    capsys.readouterr()


def test_what_stands_is_read_from_outside_as_the_pipeline_has_it(small: Small) -> None:
    """Also while bases come and logs go, and subscriptions change and end."""
    paths = write_events(small.folder / "in", churn(160, seed=9), 8, 20)
    feed = small.open()
    for batch, path in enumerate(paths):
        small.take(feed, batch, [path])
        history = feed.pipeline.history
        found = standing(feed.pipeline.state)
        assert found.step == history.step.number
        assert found.plan == history.plan
        assert found.begun.equals(history.registrar.definitions(history.live))


def test_loads_are_found_again(small: Small) -> None:
    """What was measured, and the messages that came lately, survive a stop."""
    paths = write_events(small.folder / "in", churn(80, seed=2), 2, 40)
    feed = small.open()
    reports: list[BatchReport] = []
    feed.pipeline.listeners.append(reports.append)
    small.take(feed, 0, [paths[0]])
    written = read_loads(feed.pipeline.state)
    assert written is not None
    assert written.messages.size >= reports[0].messages
    handled = sum(worker.messages for worker in reports[0].workers)
    assert written.workers.counted("messages").sum() == pytest.approx(handled)
    operations = [worker.operations for worker in reports[0].workers]
    assert written.workers.counted("operations").sum() == sum(operations) > 0
    small.take(small.open(), 1, [paths[1]])
    later = read_loads(feed.pipeline.state)
    assert later is not None
    assert later.messages.size > 0
    assert later.workers.counted("messages").sum() > written.workers.counted("messages").sum() / 2
    (small.folder / "state" / "loads.json").write_text("{}")
    assert read_loads(feed.pipeline.state) is None


def observed(loads: LoadCounters, plan: Plan, messages: list[int], busy: float = 1.0) -> None:
    """Count a step in which workers handled `messages` messages."""
    workers = [
        WorkerReport(number, load=busy, messages=count) for number, count in enumerate(messages)
    ]
    point = np.zeros((1, 4))
    sample = SampleMessages(point, np.array([0, 1]), np.array([sum(messages)], np.uint64))
    loads.observe(plan, 0.0, workers, point, sample)


def test_loads_are_looked_at_window_by_window(small: Small) -> None:
    """A window is as long as enough messages take; what was before the last two is over."""
    paths = write_events(small.folder / "in", churn(40), 1, 40)
    feed = small.open()
    small.take(feed, 0, [paths[0]])
    loads, plan = LoadCounters(feed.pipeline.state), plan_of(feed)
    assert loads.full_window(100) is None
    observed(loads, plan, [10, 20, 30, 30])
    assert loads.full_window(100) is None
    observed(loads, plan, [10, 0, 0, 0], busy=99.0)  # whatever the CPU that it took
    assert loads.full_window(100) == pytest.approx(np.array([20, 20, 30, 30]) * COSTS.message_ns)
    assert loads.full_window(100) is None
    observed(loads, plan, [0, 0, 0, 100])
    observed(loads, plan, [0, 0, 0, 100])
    assert loads.full_window(100) == pytest.approx(np.array([0, 0, 0, 200]) * COSTS.message_ns)
    observed(loads, plan, [100, 0, 0, 1])
    assert loads.full_window(100) is not None
    lately = loads.lately()
    assert lately.workers.counted("messages").tolist() == [100, 0, 0, 201]
    assert lately.messages.terms.tolist() == [100, 100, 101]
    observed(loads, plan.changed(number=plan.number + 1), [1, 1, 1, 1])
    assert loads.full_window(5) is None  # another version: counting starts again
    assert loads.full_window(4) == pytest.approx(np.ones(4) * COSTS.message_ns)


def test_a_rebuilt_plan_counts_each_operation_once(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers have counted it in as many copies as there are by the plan of the time."""
    everywhere = {"type": "Box", "bbox": [-12, -12, 12, 12]}
    events: list[dict[str, Any]] = [
        {"op": "subscribe", "id": f"s{n}", "query": WORDS[n % 4], "region": everywhere}
        for n in range(30)
    ]
    some = Random(1)
    events += [
        {
            "op": "publish", "id": f"m{n}", "text": " ".join(WORDS[:4]),
            "point": [some.uniform(-12, 12), some.uniform(-12, 12)],
        }
        for n in range(60)
    ]  # fmt: skip
    feed = small.open()
    small.take(feed, 0, write_events(small.folder / "in", events, 1, len(events)))
    found, measured = standing(feed.pipeline.state), read_loads(feed.pipeline.state)
    assert measured is not None
    assert measured.workers.counted("operations").sum() == 30 * 4
    given: list[Sample] = []

    def proposed(plan: Plan, sample: Sample, *_: Any, **__: Any) -> Proposal:
        given.append(sample)
        return Proposal(plan, 0.0, False)

    monkeypatch.setattr("nearcast.spark.driver.balancing.propose", proposed)
    suggest(plan_of(feed), found.begun, measured, rebuild=True)
    assert [sample.operations for sample in given] == [round(30 * measured.share)]


class Uneven:
    """Loads of which one worker always has most, and every look is at a full window."""

    def full_window(self, _: float) -> Any:
        return np.array([9.0, 1.0, 1.0, 1.0])

    def lately(self) -> Any:
        return None


def test_searching_takes_little_and_less_while_it_is_in_vain(
    small: Small, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so much CPU a minute; and the wait doubles whenever there is nothing to be found."""
    paths = write_events(small.folder / "in", churn(40), 1, 40)
    feed = small.open()
    small.take(feed, 0, [paths[0]])
    plan, now, searched = plan_of(feed), [0.0], list[float]()
    answer: list[Any] = [(None, 0.001)]

    def search(*_: Any) -> Any:
        searched.append(now[0])
        return answer[0]

    monkeypatch.setattr("nearcast.spark.driver.balancing._searched", search)
    balancer = Balancer("auto", clock=lambda: now[0], beside=False)
    loads: Any = Uneven()
    for _ in range(40):
        now[0] += 1.0
        balancer.look(plan, loads, lambda _: (lambda: None, 0))
        assert balancer.found() is None
    assert searched == [2.0, 4.0, 8.0, 16.0, 32.0]
    answer[0] = "a plan", 10.0
    searched.clear()
    balancer = Balancer("auto", clock=lambda: now[0], beside=False)
    for _ in range(100):
        now[0] += 1.0
        balancer.look(plan, loads, lambda _: (lambda: None, 0))
        balancer.found()
    # ten seconds of CPU at six a minute: what the first overdraws is paid off in 40 s
    assert len(searched) == 2
    assert searched[1] - searched[0] >= 40


@pytest.mark.parametrize(("workers", "asked"), [(2, 5_000), (8, 20_000), (64, 100_000)])
def test_a_search_takes_as_many_subscriptions_as_its_workers_need(
    workers: int, asked: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few workers are judged by fewer subscriptions, which is quicker."""
    monkeypatch.setattr("nearcast.spark.driver.balancing._searched", lambda *_: (None, 0.0))
    balancer = Balancer("auto", beside=False, watch=BalanceWatch(patience=1))
    numbers = list[int]()

    def standing(most: int) -> tuple[Any, int]:
        numbers.append(most)
        return (lambda: None), 10**6

    grid = Grid(-180.0, -90.0, 180.0, 90.0, 1, 1)
    loads: Any = Uneven()
    balancer.look(Plan("any", workers, "grid", grid, np.zeros(1, np.int32)), loads, standing)
    assert numbers == [asked]


def test_a_step_carries_what_takes_a_part_of_the_usual_time() -> None:
    """A step that carried something is not a usual one."""
    now = [0.0]
    pace = Pace(lambda: now[0])
    least = pace.bytes
    for took, carried in ((2.0, False), (50.0, True), (2.0, False)):
        pace.begin()
        now[0] += took
        pace.end(carried)
    assert pace.bytes == pytest.approx(20e6)
    pace.end(False)  # without a beginning it says nothing
    assert pace.bytes == pytest.approx(20e6)
    assert least < 1e6
    allowance = Allowance(600, lambda: now[0])
    assert allowance.affordable(np.array([200, 100, 100]), 300) == 2
    assert allowance.affordable(np.array([500, 100]), 300) == 1  # it cannot be cut
    allowance.spend(200)
    assert allowance.affordable(np.array([500, 100]), 300) == 0
    assert allowance.affordable(np.empty(0, np.int64)) == 0


def test_an_allowance_fills_up_and_is_overdrawn_for_one_thing_at_most() -> None:
    """What is too large for a minute is carried alone, once nothing else was for a minute."""
    now = [0.0]
    allowance = Allowance(600, lambda: now[0])
    assert allowance.affordable(np.array([200, 300, 200])) == 2
    assert allowance.affordable(np.array([5000, 1])) == 1
    allowance.spend(5000)
    assert allowance.affordable(np.array([1])) == 0
    now[0] = 60.0 * 8
    assert allowance.left == 400
    assert allowance.affordable(np.array([5000])) == 0
    now[0] = 60.0 * 9
    assert allowance.left == 600
    with pytest.raises(InvalidValue):
        Allowance(0)


def test_rebuilding_a_plan_keeps_to_the_line(small: Small) -> None:
    """Another number of workers, or a rebuilt plan, follows the one in use."""
    paths = write_events(small.folder / "in", uneven_log(5, 2, 120), 2, 500)
    feed = small.open()
    for batch, path in enumerate(paths):
        small.take(feed, batch, [path])
    found, measured = standing(feed.pipeline.state), read_loads(feed.pipeline.state)
    assert measured is not None
    made = suggest(found.plan, found.begun, measured, workers=5)
    assert made is not None
    assert line_of(made.target) == line_of(found.plan)
    assert len(made.after) == made.target.workers == 5
    assert balance_of(made.after) < 5
    assert made.cells.tolist() == differing(found.plan, made.target).tolist()
