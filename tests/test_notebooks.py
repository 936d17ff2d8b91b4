"""The notebooks of the examples run, and show what they end in as tables, maps and pictures."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from nearcast import Box, Circle, Engine, MultiPolygon
from nearcast.events.html import MOST_ROWS, as_html, map_of
from nearcast.notebook import load_ipython_extension, unload_ipython_extension

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").glob("*.ipynb"))


class Formatter(dict[Any, Any]):
    """As much of a formatter of IPython as an extension uses."""

    def for_type(self, kind: type, function: Any) -> None:
        self[kind] = function


class Shell:
    """Runs cells one after the other, and shows the last expression of each."""

    def __init__(self) -> None:
        self.html = Formatter()
        self.display_formatter = self
        self.formatters = {"text/html": self.html}
        self.names: dict[str, Any] = {}

    def run(self, source: str) -> str | bytes | None:
        if source.startswith("%load_ext nearcast.notebook"):
            load_ipython_extension(self)
            source = source.partition("\n")[2]
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), self.names)  # noqa: S102 - ours
        if last is None:
            return None
        assert isinstance(last, ast.Expr)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), self.names)  # noqa: S307
        return self.shown(value)

    def shown(self, value: Any) -> str | bytes | None:
        for name in ("_repr_html_", "_repr_png_"):
            if hasattr(value, name):
                found: str | bytes = getattr(value, name)()
                return found
        formatter = self.html.get(type(value))
        answer: str | None = formatter(value) if formatter else None
        return answer or repr(value)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    shell, shown = Shell(), []
    for cell in json.loads(path.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == []
            shown.append(shell.run("".join(cell["source"])))
    texts = [each for each in shown if isinstance(each, str)]
    assert any("<svg" in each for each in texts)
    assert any("<td>add</td>" in each for each in texts)
    if path.stem == "zones":
        assert all(f"<td>{op}</td>" in "".join(texts) for op in ("add", "change", "remove"))
        assert isinstance(shown[-1], bytes)
        assert shown[-1].startswith(b"\x89PNG")


def test_there_are_two() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["alerts", "zones"]


def test_lists_of_ours_are_tables_and_others_are_left_alone() -> None:
    engine = Engine()
    engine.subscribe("<b>", "a", Box(170, -10, -170, 10))
    updates = [*engine.publish("m", "a <script>", (175, 0))]
    table = as_html(updates)
    assert table is not None
    assert "<td>&lt;b&gt;</td>" in table
    assert "a &lt;script&gt;" in table
    assert "<th>score</th>" not in table  # none has one
    assert f"{200 - MOST_ROWS} more" in str(as_html(updates * 200))
    assert as_html([]) is None
    assert as_html([*updates, 1]) is None
    assert as_html([1, 2]) is None
    shell = Shell()
    load_ipython_extension(shell)
    assert shell.shown(updates) == table
    unload_ipython_extension(shell)
    assert shell.shown([1]) == "[1]"


def test_an_engine_shows_its_regions() -> None:
    engine = Engine()
    assert engine._repr_html_() == "<p>&lt;Engine in memory, 0 subscriptions, 0 events&gt;</p>"
    square = [(0, 0), (1, 0), (1, 1), (0, 0)]
    engine.subscribe("a", region=Circle((2, 2), radius=1000))
    engine.subscribe("b", "x", MultiPolygon([[square], [[(lon + 5, lat) for lon, lat in square]]]))
    engine.subscribe("c", "x")
    shown = engine._repr_html_()
    assert "3 subscriptions, 3 events" in shown
    assert shown.count("<path") == 2
    assert "<td>anywhere</td>" in shown
    assert map_of([]) == ""
    engine.close()
    assert "closed" in engine._repr_html_()
