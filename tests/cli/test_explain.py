"""`nearcast explain`: how a query is read, and why a message matches it or does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nearcast.cli.main import main
from served import serving

QUERY = 'ipad AND (price:<500 OR "on sale") NOT broken'


def said(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert main(["explain", *arguments]) == 0
    return capfd.readouterr().out.splitlines()


def explained(capfd: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    (line,) = said(capfd, *arguments, "--json")
    read: dict[str, Any] = json.loads(line)
    return read


def test_a_query_is_shown_with_its_operators_and_alternatives(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert said(capfd, QUERY) == [
        'reads: ipad AND (price:<500 OR "on sale") AND NOT broken',
        "alternative 1 of 2, found by the rarest of ipad, price:*",
        "  has ipad                  a word",
        "  has price:<500            price is less than 500",
        "  not broken                a word",
        'alternative 2 of 2, found by the rarest of ipad, on, sale, "on sale"',
        "  has ipad                  a word",
        '  has "on sale"             "on sale", side by side',
        "  not broken                a word",
    ]
    read = explained(capfd, QUERY)
    assert [each["rarest_of"] for each in read["alternatives"]] == [
        ["ipad", "price:*"],
        ["ipad", "on", "sale", '"on sale"'],
    ]
    assert {each["found_by"] for each in read["alternatives"]} == {"terms"}


@pytest.mark.parametrize(
    ("query", "found_by", "words"),
    [
        ("pizza", "terms", "found by pizza"),
        ('"red wine"', "terms", 'found by the rarest of red, wine, "red wine"'),
        ("ipad*", "terms", "found by ipad*"),
        ("category:deal", "terms", 'found by category:"deal"'),
        ("price:5", "terms", "found by price:5"),
        ("sold:true", "terms", "found by sold:true"),
        ("price:[1 TO 5]", "range", "found by price:[1 TO 5]"),
        ("price:* age:>3", "range", "found by the rarest of price:*, age:>3"),
        (
            "price:*",
            "property",
            "found by price:*: looked at for every message that has the property",
        ),
        ("*", "place", "found by its place: looked at for every message"),
    ],
)
def test_every_kind_of_operand_says_what_it_is_found_by(
    query: str, found_by: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    (alternative,) = explained(capfd, query)["alternatives"]
    assert alternative["found_by"] == found_by
    assert said(capfd, query)[1] == f"alternative 1 of 1, {words}"


def test_a_place_narrows_down_what_no_term_does(capfd: pytest.CaptureFixture[str]) -> None:
    lines = said(capfd, "* NOT pineapple", "--region", "0,0,1,1")
    assert lines[1].endswith("found by its place: looked at for every message near its region")


def test_a_query_that_contradicts_itself_matches_nothing(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert said(capfd, "pizza NOT pizza")[1:] == ["matches no message: it contradicts itself"]


def test_a_message_is_tried_operand_by_operand(capfd: pytest.CaptureFixture[str]) -> None:
    tried = ["--text", "Broken iPad", "--properties", '{"price": 600}', "--point", "0,1"]
    lines = said(capfd, "ipad price:<500 NOT broken", "--region", "0,0,1000", *tried)
    assert lines[2:] == [
        "  yes has ipad                  a word",
        "  no  has price:<500            price is less than 500",
        "  no  not broken                a word",
        "place: no, 111,195 m from the center, the radius is 1,000 m",
        "does not match",
    ]
    found = explained(capfd, "ipad price:<500", "--text", "iPad", "--properties", '{"price": 5}')
    assert found["matches"] is True
    assert found["reads"] == "ipad AND price:<500"


def test_text_is_read_as_the_options_say(capfd: pytest.CaptureFixture[str]) -> None:
    (alternative,) = explained(capfd, "東京駅", "--cjk")["alternatives"]
    assert [one["operand"] for one in alternative["having"]] == ['"東京 京駅"']


def test_hints_go_to_standard_error(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "pizza or pasta"]) == 0
    assert "'or' at position 6 is an ordinary word" in capfd.readouterr().err
    assert explained(capfd, "price<5")["hints"]


def test_a_subscription_and_a_message_of_a_server_are_explained(
    capfd: pytest.CaptureFixture[str],
) -> None:
    top = {"query": "jazz blues", "point": [0, 0], "top": {"k": 1, "alpha": 0.5}}
    with serving() as server:
        server.http.put("/v1/subscriptions/s1", json={"query": "pizza price:<9"})
        server.http.put("/v1/subscriptions/fan", json=top | {"filter": "price:<9"})
        sent = {"text": "Pizza and jazz", "point": [0, 0], "ttl": 60, "properties": {"price": 8}}
        server.post("/v1/messages", sent | {"id": "m1"})
        of = ["--message", "m1", "--url", server.url]
        lines = said(capfd, "--subscription", "s1", *of)
        ranked = said(capfd, "--subscription", "fan", *of)
        found = explained(capfd, "--subscription", "s1", *of)
        assert main(["explain", "--subscription", "none", *of]) == 2
        assert "there is no subscription 'none'" in capfd.readouterr().err
    assert lines[-1] == "matches, and is a result"
    assert found["result"] is True
    assert "filter:" in ranked
    assert ranked[-2].startswith("score: score 0.")
    assert ranked[-1] == "matches, and is a result"


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "QUERY: missing; expected a query, or --subscription ID and --message ID"),
        (["(pizza"], "query: "),
        (["pizza", "--region", "0,0,5", "--text", "x"], "--point: missing"),
        (["pizza", "--properties", "5"], "--properties: '5' given; expected a JSON object"),
        (["--subscription", "s"], "--message: missing"),
        (["--message", "m"], "--subscription: missing"),
        (["pizza", "--subscription", "s", "--message", "m"], "--subscription: 's' given"),
    ],
)
def test_bad_usage_is_one_line(
    arguments: list[str], problem: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", *arguments]) == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith(f"nearcast: {problem}")
