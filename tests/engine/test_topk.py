"""Top-k mode: the k best of the window, and every change to them."""

import math
from pathlib import Path

import pytest

from nearcast import Box, Engine, Result, Top, Update
from nearcast.engine import history_from
from nearcast.errors import InvalidValue, QueryError, StateError
from nearcast.text import Vocabulary

SQUARE = Box(0, 0, 3, 4)  # its diagonal is 5


def ops(updates: list[Update]) -> list[tuple[str, str]]:
    return [(u.op, u.message) for u in updates]


def test_the_score_weighs_nearness_and_likeness() -> None:
    engine = Engine(index="rarest-term", space=SQUARE)
    engine.subscribe("s", "jazz blues", point=(0, 0), top=Top(5, 0.25))
    (update,) = engine.publish("m", "jazz jazz rock", (0, 4))
    cosine = 2 / (math.sqrt(2) * math.sqrt(5))
    assert update.score == pytest.approx(0.25 * (1 - 4 / 5) + 0.75 * cosine, abs=1e-15)


def test_alpha_1_counts_nearness_alone_and_alpha_0_likeness_alone() -> None:
    engine = Engine(index="rarest-term", space=SQUARE)
    engine.subscribe("near", "jazz", point=(0, 0), top=Top(1, 1))
    engine.subscribe("like", "jazz", point=(0, 0), top=Top(1, 0))
    scores = {u.subscription: u.score for u in engine.publish("m", "jazz rock", (3, 4))}
    assert scores["near"] == 0.0
    assert scores["like"] == pytest.approx(1 / math.sqrt(2))


def test_a_common_term_is_required_however_near_the_message() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 1))
    assert engine.publish("m", "rock", (0, 0)) == []


def test_a_better_message_displaces_the_worst() -> None:
    engine = Engine(index="rarest-term", space=SQUARE)
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(2, 1))
    engine.publish("far", "jazz", (0, 4))
    engine.publish("mid", "jazz", (0, 2))
    assert ops(engine.publish("near", "jazz", (0, 1))) == [("remove", "far"), ("add", "near")]
    assert engine.publish("farther", "jazz", (3, 4)) == []
    assert [r.message for r in engine.results("s")] == ["near", "mid"]


def test_of_equal_scores_the_newer_message_comes_first() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 0.5))
    engine.publish("older", "jazz", (1, 1))
    assert ops(engine.publish("newer", "jazz", (1, 1))) == [("add", "newer"), ("remove", "older")]
    assert ops(engine.publish("last", "jazz", (-1, 1))) == [("add", "last"), ("remove", "newer")]


def test_equally_like_messages_tie_to_the_last_bit() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "a b", point=(0, 0), top=Top(1, 0))
    engine.publish("older", "a a a b b b", (0, 0))
    assert ops(engine.publish("newer", "a b", (0, 0))) == [("add", "newer"), ("remove", "older")]


def test_a_window_by_count_forgets_the_oldest_and_promotes_the_next_best() -> None:
    engine = Engine(index="rarest-term", window_count=3)
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 1))
    engine.publish("best", "jazz", (0, 0))
    engine.publish("second", "jazz", (1, 0))
    engine.publish("unrelated", "rock", (0, 0))
    assert ops(engine.publish("third", "jazz", (2, 0))) == [("remove", "best"), ("add", "second")]


def test_a_window_by_seconds_forgets_at_the_exact_instant() -> None:
    engine = Engine(index="rarest-term", window_seconds=10)
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 1))
    engine.publish("best", "jazz", (0, 0), at=0)
    engine.publish("second", "jazz", (1, 0), at=5)
    assert engine.publish("other", "rock", (0, 0), at=9.75) == []
    assert ops(engine.publish("another", "rock", (0, 0), at=10)) == [
        ("remove", "best"),
        ("add", "second"),
    ]
    assert engine.results("s")[0].message == "second"


def test_any_event_can_be_the_one_whose_time_ends_a_message() -> None:
    engine = Engine(index="rarest-term", window_seconds=10)
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 1))
    engine.subscribe("b", "rock", Box(0, 0, 1, 1))
    engine.publish("m", "jazz", (0, 0), at=0)
    assert engine.move("b", Box(0, 0, 2, 2), at=10) == [Update("remove", "s", "m")]
    engine.publish("m", "jazz", (0, 0), at=20)
    assert engine.unsubscribe("b", at=30) == [Update("remove", "s", "m")]


def test_unsubscribing_is_silent_for_the_one_who_leaves() -> None:
    engine = Engine(index="rarest-term", window_seconds=10)
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 1))
    engine.publish("m", "jazz", (0, 0), at=0)
    assert engine.unsubscribe("s", at=10) == []


def test_k_larger_than_the_window_takes_all_there_is() -> None:
    engine = Engine(index="rarest-term", window_count=2)
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1000, 0.5))
    engine.publish("a", "jazz", (0, 0))
    engine.publish("b", "jazz", (0, 0))
    assert ops(engine.publish("c", "jazz", (0, 0))) == [("remove", "a"), ("add", "c")]


def test_a_subscription_starts_with_the_best_of_the_window() -> None:
    engine = Engine(index="rarest-term", space=SQUARE)
    engine.publish("near", "jazz", (0, 0))
    engine.publish("far", "jazz", (3, 4))
    assert engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 1)) == [
        Update("add", "s", "near", 1.0)
    ]


def test_a_move_reports_who_comes_and_goes_and_whose_score_changes() -> None:
    engine = Engine(index="rarest-term", space=SQUARE)
    engine.publish("a", "jazz", (0, 0))
    engine.publish("b", "jazz", (1, 0))
    engine.publish("c", "jazz", (3, 0))
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(2, 1))
    assert engine.move("s", point=(3, 0)) == [
        Update("remove", "s", "a"),
        Update("change", "s", "b", 1 - 2 / 5),
        Update("add", "s", "c", 1.0),
    ]
    assert engine.results("s") == [Result("c", 1.0), Result("b", 1 - 2 / 5)]


def test_replacing_a_ranking_reports_the_difference() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("a", "jazz", (0, 0))
    engine.publish("b", "blues", (0, 0))
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 0.5))
    assert ops(engine.subscribe("s", "blues", point=(0, 0), top=Top(1, 0.5))) == [
        ("remove", "a"),
        ("add", "b"),
    ]


def test_range_messages_take_no_part() -> None:
    engine = Engine(index="rarest-term", window_count=1)
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 0.5))
    engine.publish("m", "jazz", (0, 0))
    assert engine.publish("range", "jazz", region=Box(0, 0, 1, 1)) == []
    assert [r.message for r in engine.results("s")] == ["m"]


def test_a_message_with_an_end_leaves_the_window_at_it() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 0.5))
    engine.publish("next", "jazz", (1, 0), at=0)
    engine.publish("m", "jazz", (0, 0), at=0, ttl=1)
    assert engine.publish("other", "rock", (0, 0), at=0.75) == []
    assert ops(engine.publish("another", "rock", (0, 0), at=1)) == [
        ("remove", "m"),
        ("add", "next"),
    ]


def test_the_kind_of_a_subscription_cannot_change() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("ranked", "jazz", point=(0, 0), top=Top(1, 0.5))
    engine.subscribe("plain", "jazz", Box(0, 0, 1, 1))
    with pytest.raises(StateError, match="of the other kind"):
        engine.subscribe("ranked", "jazz", Box(0, 0, 1, 1))
    with pytest.raises(StateError, match="of the other kind"):
        engine.subscribe("plain", "jazz", point=(0, 0), top=Top(1, 0.5))
    with pytest.raises(StateError, match="move it to a region"):
        engine.move("plain", point=(0, 0))
    engine.unsubscribe("plain")
    engine.subscribe("plain", "jazz", point=(0, 0), top=Top(1, 0.5))


@pytest.mark.parametrize(
    "query", ["jazz OR blues", "jazz AND blues", "jazz NOT rock", "(jazz)", ""]
)
def test_a_ranked_query_is_a_bag_of_words(query: str) -> None:
    with pytest.raises(QueryError):
        Engine(index="rarest-term").subscribe("s", query, point=(0, 0), top=Top(1, 0.5))


def test_points_outside_the_space_are_refused() -> None:
    engine = Engine(index="rarest-term", space=SQUARE)
    with pytest.raises(InvalidValue, match="a point inside the space 0,0,3,4"):
        engine.publish("m", "jazz", (3.1, 0))
    with pytest.raises(InvalidValue, match="a point inside the space"):
        engine.subscribe("s", "jazz", point=(0, -1), top=Top(1, 0.5))
    engine.publish("corner", "jazz", (3, 4))


def test_a_space_needs_a_diagonal_and_no_antimeridian() -> None:
    with pytest.raises(InvalidValue, match="space"):
        Engine(index="rarest-term", space=Box(1, 1, 1, 1))
    with pytest.raises(InvalidValue, match="space"):
        Engine(index="rarest-term", space=Box(170, 0, -170, 1))


def test_windows_are_counted_or_timed_not_both() -> None:
    with pytest.raises(InvalidValue, match="not both"):
        Engine(index="rarest-term", window_count=5, window_seconds=5)
    for bad in (0, -1):
        with pytest.raises(InvalidValue):
            Engine(index="rarest-term", window_count=bad)
        with pytest.raises(InvalidValue):
            Engine(index="rarest-term", window_seconds=bad)


def test_a_history_makes_rare_terms_weigh_more() -> None:
    history = Vocabulary.from_documents([{"jazz", "music"}, {"music"}, {"music", "rock"}])
    idf = {
        term: math.log(1 + 3 / (1 + df)) for term, df in {"jazz": 1, "music": 3, "new": 0}.items()
    }
    engine = Engine(index="rarest-term", history=history)
    engine.subscribe("s", "jazz music", point=(0, 0), top=Top(5, 0))
    (update,) = engine.publish("m", "music music new", (0, 0))
    query_norm = math.hypot(idf["jazz"], idf["music"])
    message_norm = math.hypot(2 * idf["music"], idf["new"])
    expected = idf["music"] * 2 * idf["music"] / (query_norm * message_norm)
    assert update.score == pytest.approx(expected, abs=1e-15)


def test_an_empty_history_counts_as_none() -> None:
    engine = Engine(index="rarest-term", history=Vocabulary.from_documents([]))
    engine.subscribe("s", "jazz", point=(0, 0), top=Top(1, 0.5))
    (update,) = engine.publish("m", "jazz", (0, 0))
    assert update.score == 1.0


def test_a_history_is_read_from_the_messages_of_a_log(tmp_path: Path) -> None:
    log = tmp_path / "history.jsonl"
    log.write_text(
        '{"op":"publish","id":"a","text":"jazz jazz","point":[0,0]}\n'
        '{"op":"unsubscribe","id":"s"}\n'
        '{"op":"publish","id":"a","text":"rock","point":[0,0]}\n'
    )
    history = history_from(log)
    assert (history.documents, history.document_frequency("jazz")) == (2, 1)
    history.save(tmp_path / "counts.parquet")
    again = history_from(tmp_path / "counts.parquet")
    assert (again.documents, again.document_frequency("jazz")) == (2, 1)


def test_boolean_and_ranked_subscriptions_live_side_by_side() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("plain", "jazz", Box(0, 0, 1, 1))
    engine.subscribe("ranked", "jazz", point=(0, 0), top=Top(1, 1))
    assert engine.publish("m", "jazz", (0, 0)) == [
        Update("add", "plain", "m"),
        Update("add", "ranked", "m", 1.0),
    ]
