"""The examples run as they are."""

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SHOWN = {
    "happy_hour": """\
add ada Happy hour at the Paper Moon None
add bo Cocktails at dusk {'to': 'bo'}
""",
    "fleet": """\
0 min: add depot truck-17
2 min: remove depot truck-17
2 min: add harbour truck-17
3 min: change harbour truck-17
4 min: remove harbour truck-17
""",
    "jobs": """\
add j1 0.85 Data engineer
add j3 0.67 Python data engineer
""",
    "deals": """\
   add  ada   iPad sale, today only!
   add  bo    Pizza margherita for 5 dollars
   add  cleo  Jazz tonight
   add  bo    works (came into range)
""",
}


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_shows_its_updates(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == SHOWN[name]


@pytest.mark.parametrize("name", ["happy_hour", "fleet", "jobs"])
def test_what_an_example_shows_takes_few_lines(name: str) -> None:
    assert len((EXAMPLES / f"{name}.py").read_text("utf-8").splitlines()) <= 15


def test_every_example_is_explained() -> None:
    page = (EXAMPLES / "README.md").read_text("utf-8")
    there = [*EXAMPLES.rglob("*.py"), *EXAMPLES.glob("*.ipynb")]
    assert {path.stem for path in EXAMPLES.glob("*.py")} == set(SHOWN)
    assert [path.name for path in there if f"`{path.relative_to(EXAMPLES)}`" not in page] == []
    assert SHOWN["fleet"] in page
