"""The other commands, as a user runs them, and the documentation that names them."""

import json
import re
from pathlib import Path

import pytest
import typer.main

from nearcast.cli.main import app_for, main
from nearcast.events import open_log
from nearcast.index import INDEXES
from nearcast_lab.workloads import WORKLOADS

ROOT = Path(__file__).parents[2]
COMMAND_LINE = ROOT / "docs" / "how-to" / "command-line.md"
COMMANDS = [
    *("replay", "match", "explain", "sample", "generate", "export", "import", "demo", "bench"),
    *("experiment", "spark", "kernels", "serve", "keys", "sub", "publish", "retract"),
    *("listen", "backup", "restore", "promote", "config"),
]


@pytest.mark.parametrize("kind", sorted(WORKLOADS))
def test_generate_writes_a_log_that_replays(
    kind: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log.parquet"
    sizes = ["--subscriptions", "50", "--messages", "60", "--seed", "3"]
    assert main(["generate", kind, *sizes, "--output", str(log)]) == 0
    with open_log(log) as records:
        assert all(record.event is not None for record in records)
    assert main(["replay", str(log), "--output", str(tmp_path / "updates.jsonl")]) == 0
    assert capfd.readouterr().err == ""


def test_generate_writes_to_standard_output_the_same_for_the_same_seed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    texts = []
    for seed in ("1", "1", "2"):
        arguments = ["generate", "tweets", "--subscriptions", "5", "--messages", "5"]
        assert main([*arguments, "--seed", seed]) == 0
        texts.append(capfd.readouterr().out)
    assert texts[0] == texts[1] != texts[2]
    assert len(texts[0].splitlines()) == 10


def test_generate_names_the_kinds_when_it_does_not_know_one(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert main(["generate", "poems"]) == 2
    err = capfd.readouterr().err
    assert "'poems'" in err
    assert "tweets" in err


LOG = """\
{"op":"subscribe","id":"near","query":"ipad sale","region":{"type":"Box","bbox":[0,0,2,2]}}
{"op":"subscribe","id":"far","query":"ipad","region":{"type":"Box","bbox":[50,0,52,2]}}
{"op":"subscribe","id":"gone","query":"ipad","region":{"type":"Box","bbox":[0,0,2,2]}}
{"op":"subscribe","id":"ranked","query":"ipad","point":[1,1],"top":{"k":1,"alpha":1}}
{"op":"publish","id":"m1","text":"iPad sale","point":[1,1]}
{"op":"publish","id":"m1","text":"Storm","region":{"type":"Box","bbox":[0,0,9,9]}}
{"op":"unsubscribe","id":"gone"}
"""


@pytest.fixture
def log(tmp_path: Path) -> str:
    path = tmp_path / "log.jsonl"
    path.write_text(LOG)
    return str(path)


def found(text: str) -> list[str]:
    return [json.loads(line)["id"] for line in text.splitlines()]


def test_match_tries_a_message_on_the_standing_subscriptions(
    log: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", log, "--text", "An iPad on sale", "--point", "1,1", "--json"]) == 0
    assert found(capfd.readouterr().out) == ["near"]
    assert main(["match", log, "--text", "iPad sale", "--region", "1,1,60,1", "--json"]) == 0
    assert found(capfd.readouterr().out) == ["far", "near"]


def test_match_leaves_out_subscriptions_that_messages_outlived(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Time passes with messages too: for their ends, and for those that begin after them."""
    path = tmp_path / "log.jsonl"
    path.write_text(
        '{"op":"subscribe","id":"ended","query":"x","ttl":10,"at":0}\n'
        '{"op":"publish","id":"m","point":[0,0],"at":100}\n'
        '{"op":"subscribe","id":"begun","query":"x","ttl":10}\n'
        '{"op":"retract","id":"m","at":105}\n'
    )
    assert main(["match", str(path), "--text", "x", "--point", "0,0", "--json"]) == 0
    assert found(capfd.readouterr().out) == ["begun"]


def test_match_points_out_operators_in_small_letters(
    log: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["match", log, "--query", "sale or storm", "--json"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err == (
        "nearcast: 'or' at position 5 is an ordinary word; the operator is OR, in capitals\n"
    )


def test_match_tries_a_query_on_the_messages(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["match", log, "--query", "sale OR storm", "--json"]) == 0
    assert found(capfd.readouterr().out) == ["m1", "m1"]
    assert main(["match", log, "--query", "sale OR storm", "--region", "-5,5,1000", "--json"]) == 0
    assert found(capfd.readouterr().out) == []


def test_match_shows_a_table_to_a_person(log: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["match", log, "--query", "sale"]) == 0
    out = capfd.readouterr().out
    assert "iPad sale" in out
    assert "1 matching" in out


def test_bench_ingest_reports_rate_and_memory(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "ingest", "--messages", "2000", "--json"]) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["messages"] == 2000
    assert report["messages_per_cpu_s"] > 0
    assert report["peak_memory_mib"] > 0


@pytest.mark.parametrize(
    "command",
    [[], ["bench", "ingest"], ["spark", "status"], *([c] for c in COMMANDS)],
)
def test_help_has_an_example(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "--help"]) == 0
    out = capfd.readouterr().out
    assert "Usage: nearcast" in out
    assert not re.search(r"<\w+[>\[]", out), "a type of Python"
    if command:
        assert "Example" in out
        assert f"nearcast {command[0]}" in out


def test_the_version_is_told(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.fullmatch(r"nearcast \d+\.\d+\.\d+\n", capfd.readouterr().out)


def test_a_page_names_every_command() -> None:
    commands = set(typer.main.get_command(app_for([])).commands)  # type: ignore[attr-defined]
    assert commands == set(COMMANDS)
    page = COMMAND_LINE.read_text()
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", page, flags=re.MULTILINE)
    assert {name for row in rows for name in re.findall(r"\w+", row)} == commands


def test_the_guide_names_every_option_of_replay_and_every_op() -> None:
    guide = (ROOT / "docs" / "reference" / "event-log.md").read_text()
    for word in ("subscribe", "move", "unsubscribe", "publish", "--window-count", "--history",
                 "--window-seconds", "--on-error"):  # fmt: skip
        assert word in guide


def test_the_page_about_indexes_names_each_of_them() -> None:
    page = (ROOT / "docs" / "explanation" / "indexes.md").read_text()
    for name in INDEXES:
        assert f"| `{name}` |" in page


def test_the_log_of_the_page_gives_the_update_it_promises(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (log,) = re.findall(r"```json\n(.*?)```", COMMAND_LINE.read_text(), flags=re.DOTALL)
    path = tmp_path / "log.jsonl"
    path.write_text(log)
    assert main(["replay", str(path)]) == 0
    assert json.loads(capfd.readouterr().out) == {
        "event": 1,
        "op": "add",
        "subscription": "s1",
        "message": "m1",
    }
