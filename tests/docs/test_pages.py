"""The documentation: what it shows runs, what it links to exists, and nothing is left out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import reference
from documented import ROOT
from documented_pages import blocks, run_page
from nearcast.errors import NearcastError
from nearcast.text import parse_query

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
README = ROOT / "README.md"
RUN = ["README", "tutorial", "model", "command-line", "client", "deal-alerts", "fleet",
       "nearest-and-best", "warnings", "from-tile38", "from-percolator", "spark-cluster",
       "python", "durability", "moving", "topk"]  # fmt: skip


@pytest.mark.parametrize("name", RUN)
def test_what_a_page_shows_runs(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (page,) = (path for path in [README, *PAGES] if path.stem == name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEARCAST_URL", raising=False)
    assert run_page(page, monkeypatch, capfd) > 0


def test_every_page_with_python_is_run() -> None:
    """Blocks that need a cluster are marked `py`, those for a shell `sh`."""
    with_python = {page.stem for page in PAGES if any(b.language == "python" for b in blocks(page))}
    assert with_python <= set(RUN)


def test_every_page_is_in_the_navigation() -> None:
    _, _, navigation = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")
    listed = re.findall(r"[\w/-]+\.md", navigation)
    there = [str(page.relative_to(DOCS)) for page in PAGES]
    assert sorted(listed) == sorted([*there, *reference.pages()])


def test_every_link_within_the_documentation_leads_somewhere() -> None:
    texts = {DOCS / path: text for path, text in reference.pages().items()}
    texts |= {path: path.read_text("utf-8") for path in [*PAGES, *ROOT.glob("*.md")]}
    broken = []
    for page, text in texts.items():
        prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)\s]+)\)", prose):
            path, _, anchor = target.partition("#")
            place = page.parent.joinpath(path).resolve() if path else page
            if target.startswith("http") or (place.exists() and not anchor):
                continue
            if place not in texts or (anchor and anchor not in anchors(texts[place])):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def anchors(page: str) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.*)$", page, flags=re.MULTILINE)
    kept = (re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in headings)
    return {heading.replace(" ", "-") for heading in kept}


def test_every_command_and_option_says_what_it_is() -> None:
    page = reference.commands_page()
    for name, command in reference.every_command():
        assert f"# {name}\n" in page
        assert command.help, name
        for parameter in command.params:
            assert parameter.help, f"{name}: {parameter.name} has no help"
            if parameter.param_type_name == "option" and parameter.name != "help":
                assert f"`{parameter.opts[0]}`" in page
                assert parameter.is_flag or parameter.metavar, f"{name}: {parameter.name}"


def test_every_environment_variable_is_documented() -> None:
    page = reference.settings_page()
    named = set()
    for path in (ROOT / "src" / "nearcast").rglob("*.py"):
        named |= set(re.findall(r"[\"'](NEARCAST_[A-Z_]+)[\"']", path.read_text("utf-8")))
    named -= {"NEARCAST_SERVE", "NEARCAST_SPARK_RUN"}  # how those for options begin
    assert named
    assert [name for name in sorted(named) if f"`{name}`" not in page] == []


def test_every_route_and_metric_is_documented() -> None:
    server = (DOCS / "reference" / "server.md").read_text("utf-8")
    routes = re.findall(r"^## [A-Z]+ (/\S*)$", reference.http_page(), flags=re.MULTILINE)
    assert len(routes) > 20
    assert [path for path in routes if f"`{path}`" not in server] == []
    source = (ROOT / "src" / "nearcast" / "server" / "metrics.py").read_text("utf-8")
    names = re.findall(r"\"(nearcast_\w+)\"", source)
    assert len(names) > 20
    assert [name for name in names if f"`{name}`" not in reference.metrics_page()] == []


def test_an_error_of_the_documentation_is_the_one_that_is_given() -> None:
    page = (DOCS / "reference" / "queries.md").read_text("utf-8")
    with pytest.raises(NearcastError) as caught:
        parse_query("ipad price:<abc")
    assert f"query: {str(caught.value).removeprefix('query: ')}" in page
