"""Options of an index, written as text, reach the index through every door."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nearcast import Box, Engine
from nearcast.cli.main import main
from nearcast.engine.indexed import Indexed
from nearcast.errors import InvalidValue
from nearcast.index import INDEXES, IndexChoice, read_index
from nearcast.index.ap_tree import ApTree
from nearcast.index.registry import options_of

DOCS = Path(__file__).parents[2] / "docs/explanation/indexes.md"


def index_of(engine: Engine) -> ApTree:
    core = engine._core
    assert isinstance(core, Indexed)
    index = core.boolean.index
    assert isinstance(index, ApTree)
    return index


def test_a_name_may_have_options() -> None:
    """Values become what the index expects; hyphens may stand for underscores."""
    assert read_index("gi2") == IndexChoice("gi2", "gi2", {})
    assert read_index("auto") == IndexChoice("rarest-term", "rarest-term", {})
    choice = read_index("ap-tree:order=idf,leaf-capacity=20,rebuild=false")
    assert choice.options == {"order": "idf", "leaf_capacity": 20, "rebuild": False}
    assert choice.label == "ap-tree:order=idf,leaf_capacity=20,rebuild=false"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("cheese", "'cheese' given; expected one of auto, rarest-term"),
        ("ap-tree:colour=red", "'colour' given; expected one of the options of ap-tree: fanout"),
        ("ap-tree:order=abc", "ap-tree:order: 'abc' given; expected one of tf, idf, random"),
        ("ap-tree:fanout=many", "ap-tree:fanout: 'many' given; expected int"),
        ("ap-tree:history=1", "'history' given; expected one of the options"),
        ("ap-plus-tree:colour=red", "one of the options of ap-plus-tree: .*order"),
        ("rarest-term:a=1", "'a' given; expected no options, since rarest-term has none"),
        ("gi2:grid", "expected names with commas between them"),
        ("gi2,sequential", "expected a name, with options or without"),
    ],
)
def test_what_cannot_be_is_refused(text: str, complaint: str) -> None:
    """The error names the option, the value, and what is possible."""
    with pytest.raises(InvalidValue, match=complaint):
        read_index(text)


def test_an_index_that_passes_options_on_has_them_too() -> None:
    assert options_of("ap-tree").keys() < options_of("ap-plus-tree").keys()


def test_the_documentation_lists_every_option() -> None:
    """Each option is in the row of its index, with its default."""
    lines = DOCS.read_text().splitlines()
    for name in INDEXES:
        (row,) = [line for line in lines if re.match(rf"\| `{name}` \| options", line)] or [""]
        for option, (_, default) in options_of(name).items():
            if name == "ap-plus-tree" and option in options_of("ap-tree"):
                continue  # the row says that it has those as well
            written = str(default).lower() if isinstance(default, bool) else f"{default}"
            assert f"`{option}={written}`" in row, (name, option, written)


def test_an_engine_takes_options() -> None:
    engine = Engine(index="ap-tree:cut=again,fanout=7")
    engine.subscribe("s", "a b", Box(0, 0, 1, 1))
    assert [update.subscription for update in engine.publish("m", "a b", (0.5, 0.5))] == ["s"]
    assert (index_of(engine)._plan.again, index_of(engine)._plan.fanout) == (True, 7)
    for wrong in ("auto:a=1", "scan:a=1", "ap-tree:cut=twice"):
        with pytest.raises(InvalidValue, match="index"):
            Engine(index=wrong)


def test_a_file_is_opened_with_the_options_that_are_asked_for(tmp_path: Path) -> None:
    """A snapshot of an index with other options is not used."""
    path = tmp_path / "engine.nearcast"
    with Engine(path=path, index="ap-tree:fanout=7") as engine:
        for number in range(1500):  # as many as make a snapshot worth it
            engine.subscribe(f"s{number}", "a b", Box(0, 0, 1, 1))
    for text, fanout in (("ap-tree:fanout=7", 7), ("ap-tree", 200)):
        with Engine(path=path, index=text) as engine:
            assert index_of(engine)._plan.fanout == fanout
            assert len(engine.publish(f"m{fanout}", "a b", (0.5, 0.5))) == 1500


def test_commands_take_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, output = tmp_path / "log.jsonl", tmp_path / "updates.jsonl"
    assert main(["generate", "small", "--output", str(log)]) == 0
    replay = ["replay", str(log), "--output", str(output), "--index"]
    assert main([*replay, "ap-tree:order=idf,fanout=200,cut=again"]) == 0
    capsys.readouterr()
    assert main([*replay, "ap-tree:order=abc"]) == 2
    assert "--index ap-tree:order: 'abc' given; expected one of tf" in capsys.readouterr().err
    assert main(["serve", "--port", "0", "--index", "gi2:grid=0"]) == 2
    assert "--index gi2:grid: 0 given" in capsys.readouterr().err
