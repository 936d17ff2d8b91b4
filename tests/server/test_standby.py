"""A standby has what its primary has, answers reads, and takes its place."""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from nearcast.cli.main import main
from patience import wait_until
from served import IPAD, SALE, Ear
from server_pair import PairedServer, in_step, pair

LASTING = SALE | {"ttl": 600}


def test_a_standby_answers_reads_as_its_primary_does(tmp_path: Path) -> None:
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        top = {"query": "ipad sale", "point": [151, -33], "top": {"k": 2, "alpha": 0.5}}
        primary.http.put("/v1/subscriptions/best", json=top)
        with Ear(standby.port, "/v1/updates?subscription=s1&after=0") as ear:
            for number in range(5):
                primary.post("/v1/messages", LASTING | {"id": f"m{number}"})
            heard = [ear.event() for _ in range(5)]
        in_step(primary, standby)
        for path in (
            "/v1/subscriptions",
            "/v1/subscriptions/best",
            "/v1/subscriptions/s1/results",
            "/v1/subscriptions/best/results",
            "/v1/explain?message=m3&subscription=best",
            "/v1/map/messages?bbox=150,-35,152,-33",
        ):
            assert standby.http.get(path).json() == primary.http.get(path).json(), path
        assert standby.updates() == primary.updates()
        of_s1 = [each["id"] for each in primary.updates() if each["subscription"] == "s1"]
        assert [int(event["id"]) for event in heard] == of_s1


def test_a_standby_refuses_changes_and_names_the_primary(tmp_path: Path) -> None:
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        in_step(primary, standby)
        answers = [
            standby.post("/v1/messages", SALE),
            standby.http.put("/v1/subscriptions/s2", json=IPAD),
            standby.http.delete("/v1/subscriptions/s1"),
            standby.http.put("/v1/subscriptions/s1/webhook", json={"url": "http://x.example/"}),
        ]
        for answer in answers:
            assert answer.status_code == 409
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.json()["primary"] == primary.url
            assert primary.url in answer.json()["detail"]
        assert standby.post("/v1/queries", {"query": "a"}).status_code == 200
        assert standby.updates() == []


def test_both_say_how_far_the_standby_is(tmp_path: Path) -> None:
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        primary.post("/v1/messages", SALE)
        in_step(primary, standby)
        said = standby.ready()
        assert (said["role"], said["term"], said["primary"]) == ("standby", 1, primary.url)
        assert (said["connected"], said["lag_commits"], said["lag_seconds"]) == (True, 0, 0.0)
        assert primary.ready()["role"] == "primary"
        standby.signal(signal.SIGSTOP)
        primary.post("/v1/messages", SALE)
        wait_until(lambda: primary.ready()["lag_commits"] == 1, "lag")
        assert primary.ready()["lag_seconds"] > 0
        standby.signal(signal.SIGCONT)
        in_step(primary, standby)
        families = {
            family.name: family.samples[0].value
            for family in text_string_to_metric_families(standby.http.get("/metrics").text)
            if family.samples
        }
        assert families["nearcast_accepts_changes"] == 0
        assert families["nearcast_standby_connected"] == 1
        assert families["nearcast_standby_lag_commits"] == 0
        primary.kill()
        wait_until(lambda: not standby.ready()["connected"], "lost connection")


def test_promoted_while_the_primary_works_nothing_is_lost(tmp_path: Path) -> None:
    """The old primary accepts nothing more, not after a restart either; ids and streams go on."""
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        for _ in range(3):
            primary.post("/v1/messages", SALE)
        with Ear(primary.port, "/v1/updates?after=0") as ear:
            heard = [ear.event()["id"] for _ in range(3)]
        answer = standby.http.post("/v1/promote").json()
        assert (answer["fenced"], answer["caught_up"], answer["term"]) == (True, True, 2)
        assert standby.post("/v1/messages", SALE).json()["updates"] == 1
        with Ear(standby.port, "/v1/updates", f"Last-Event-ID: {heard[1]}\r\n") as ear:
            assert [ear.event()["id"] for _ in range(2)] == ["3", "4"]
        for _ in range(2):
            refused = primary.post("/v1/messages", SALE)
            assert (refused.status_code, refused.json()["primary"]) == (409, standby.url)
            primary.kill()
            primary.start()
        assert standby.http.post("/v1/promote").json()["term"] == 2, "it is the primary already"
        primary.kill()
        primary.start("--follow", standby.url)
        in_step(standby, primary)
        assert primary.updates() == standby.updates()
        assert '"copied"' not in primary.log, "it had everything"


def test_there_and_back_the_standby_goes_on_without_a_copy(tmp_path: Path) -> None:
    """A primary that was a standby in between has nothing to send but what it accepted since."""
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        in_step(primary, standby)
        primary.kill()
        primary.start("--follow", standby.url)
        in_step(primary, standby)
        for one, other in ((primary, standby), (standby, primary)):
            one.post("/v1/messages", SALE)
            assert other.http.post("/v1/promote").json()["caught_up"]
            assert other.post("/v1/messages", SALE).status_code == 200
            in_step(other, one)
        assert [each["id"] for each in standby.updates()] == [1, 2, 3, 4]
        assert '"copied"' not in primary.log
        assert standby.log.count('"copied"') == 1, "at the start"


def test_a_primary_that_comes_back_does_not_accept_changes(tmp_path: Path) -> None:
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        primary.post("/v1/messages", SALE)
        in_step(primary, standby)
        primary.kill()
        answer = standby.http.post("/v1/promote").json()
        assert (answer["fenced"], answer["term"]) == (False, 2)
        assert standby.post("/v1/messages", SALE).json()["updates"] == 1
        primary.start()
        assert primary.post("/v1/messages", SALE).status_code in (409, 503)
        wait_until(lambda: primary.ready()["role"] == "fenced", "fence")
        refused = primary.post("/v1/messages", SALE)
        assert (refused.status_code, refused.json()["primary"]) == (409, standby.url)
        assert len(primary.updates()) == 1


def test_without_its_standby_a_primary_waits_until_it_is_promoted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The standby cannot be asked whether it was promoted: only an operator can say."""
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        in_step(primary, standby)
        standby.kill()
        primary.kill()
        primary.start()
        refused = primary.post("/v1/messages", SALE)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")
        assert standby.url in refused.json()["detail"]
        assert main(["promote", primary.url]) == 0
        said = capsys.readouterr().out.splitlines()
        assert said[0] == f"{primary.url} is the primary, in term 2"
        assert "could not be reached" in said[1]
        assert primary.post("/v1/messages", SALE).json()["updates"] == 1
        primary.kill()
        primary.start()
        assert primary.post("/v1/messages", SALE).json()["updates"] == 1, "it has no standby now"


def test_a_restarted_primary_goes_on_when_its_standby_answers(tmp_path: Path) -> None:
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        in_step(primary, standby)
        primary.kill()
        primary.start()
        wait_until(lambda: primary.ready()["accepts_changes"], "check")
        assert primary.post("/v1/messages", SALE).json()["updates"] == 1
        in_step(primary, standby)


def test_a_primary_that_is_stopped_gives_its_standby_everything_first(tmp_path: Path) -> None:
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        in_step(primary, standby)
        standby.signal(signal.SIGSTOP)
        for _ in range(2):
            primary.post("/v1/messages", SALE)
        primary.signal(signal.SIGTERM)
        accepted = 2
        try:
            while primary.post("/v1/messages", SALE).status_code == 200:
                accepted += 1
        except httpx.HTTPError:
            pass  # it does not even listen
        standby.signal(signal.SIGCONT)
        assert primary.wait() == 0
        wait_until(lambda: not standby.ready()["connected"], "end of the connection")
        assert len(standby.updates()) == accepted


def test_what_was_not_copied_is_named_when_the_old_primary_rejoins(tmp_path: Path) -> None:
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        primary.post("/v1/messages", SALE)
        in_step(primary, standby)
        standby.signal(signal.SIGSTOP)
        for _ in range(2):
            assert primary.post("/v1/messages", SALE).json()["updates"] == 1
        primary.kill()
        standby.signal(signal.SIGCONT)
        standby.http.post("/v1/promote")
        kept = standby.updates()
        primary.begin("--follow", standby.url)
        assert primary.wait() == 2
        said = re.sub(r"commits \d+ to \d+", "commits N", primary.log.splitlines()[-1])
        lost = 3 - len(kept)  # what had arrived when it was stopped counts
        assert f"({lost} events, {lost} updates, ids {len(kept) + 1} to 3)" in said
        assert "--resync" in said
        standby.post("/v1/messages", SALE)
        primary.start("--follow", standby.url, "--resync")
        in_step(standby, primary)
        assert primary.updates() == standby.updates()
        assert len(list((primary.data / "discarded").glob("default-*.nearcast"))) == 1


def test_a_standby_that_missed_too_much_copies_anew(tmp_path: Path) -> None:
    """The primary keeps recent commits in memory only; the rest comes as a copy of the file."""
    with pair(tmp_path) as (primary, standby):
        primary.http.put("/v1/subscriptions/s1", json=IPAD)
        in_step(primary, standby)
        standby.kill()
        primary.post("/v1/messages", SALE)
        primary.kill()
        primary.start()
        standby.start("--follow", primary.url)
        in_step(primary, standby)
        assert '"copied"' in standby.log
        primary.post("/v1/messages", SALE)
        in_step(primary, standby)
        assert [each["id"] for each in standby.updates()] == [1, 2]


def test_other_data_is_not_overwritten(tmp_path: Path) -> None:
    primary, other = PairedServer(tmp_path, "one"), PairedServer(tmp_path, "other")
    try:
        for each in (primary, other):
            each.start()
            each.http.put("/v1/subscriptions/s1", json=IPAD)
        other.kill()
        other.begin("--follow", primary.url)
        assert other.wait() == 2
        assert "holds other data" in other.log
        other.start()
        assert other.post("/v1/messages", SALE).json()["updates"] == 1, "it is what it was"
        primary.kill()
        primary.start()
        assert primary.post("/v1/messages", SALE).json()["updates"] == 1, "it has no standby"
    finally:
        primary.end()
        other.end()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--follow", "http://127.0.0.1:9"], "expected --data DIR"),
        (["--ack", "replicated"], "expected --data DIR"),
        (["--data", "x", "--ack", "both"], "expected local or replicated"),
        (["--data", "x", "--follow", "one.example"], "expected the address of a server"),
        (["--data", "x", "--follow-key-file", "no-file"], "expected a file with a key"),
    ],
)
def test_options_that_do_not_fit(
    options: list[str], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["serve", *options]) == 2
    assert reason in capsys.readouterr().err


def test_nobody_to_promote(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["promote", "http://127.0.0.1:9"]) == 2
    assert "cannot be reached" in capsys.readouterr().err
