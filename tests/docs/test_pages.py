"""The documentation: what it shows runs, what it links to exists, and nothing is left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import reference
from documented import ROOT
from documented_pages import blocks, run_page
from nearcast.errors import NearcastError
from nearcast.server.app import create_app
from nearcast.server.config import Config
from nearcast.server.describe import document
from nearcast.spark.reports.metrics import all_metrics
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


def test_every_option_of_the_server_is_on_its_page() -> None:
    page = (DOCS / "reference" / "server.md").read_text("utf-8")
    (serve,) = (command for name, command in reference.every_command() if name == "nearcast serve")
    names = {name for each in serve.params for name in (*each.opts, *each.secondary_opts)}
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def test_every_setting_is_documented() -> None:
    page = reference.settings_page()
    for name, command in reference.every_command():
        prefix = command.context_settings.get("auto_envvar_prefix")
        for each in command.params if prefix else ():
            if each.name != "help":
                assert f"`{prefix}_{each.name.upper()}` | `{each.opts[0]}` of `{name}`" in page


def test_every_route_is_documented() -> None:
    server = (DOCS / "reference" / "server.md").read_text("utf-8")
    app = create_app(Config())
    paths = set(routes_of(app.routes)) | set(document(app)["paths"])
    assert len(paths) > 25
    assert [path for path in sorted(paths) if f"`{path}`" not in server] == []
    shown = set(re.findall(r"^## [A-Z]+ (/\S*)$", reference.http_page(), flags=re.MULTILINE))
    assert shown == set(document(app)["paths"])


def routes_of(routes: Iterable[Any]) -> Iterator[str]:
    """The paths of routes, and of those in the routers among them."""
    for each in routes:
        inner = getattr(each, "original_router", each)
        if hasattr(each, "path"):
            yield each.path
        elif hasattr(inner, "routes"):
            yield from routes_of(inner.routes)


def test_every_metric_is_documented() -> None:
    """With what it means; and a page names no metric that there is not."""
    collected = list(create_app(Config()).state.server_state.metrics.registry.collect())
    names = {family.name for family in collected}
    assert len(names) > 20
    assert [family.name for family in collected if not family.documentation] == []
    server = (DOCS / "reference" / "server.md").read_text("utf-8")
    assert set(re.findall(r"`(nearcast_\w+)`", server)) == names
    assert [name for name in sorted(names) if f"`{name}`" not in reference.metrics_page()] == []


def test_every_metric_of_a_pipeline_is_documented() -> None:
    _, _, page = (DOCS / "explanation" / "spark.md").read_text("utf-8").partition("## Monitoring")
    names = {each.name for each in all_metrics()}
    assert len(names) > 20
    assert [name for name in sorted(names) if not re.search(rf"`{name}[`{{]", page)] == []


def test_an_error_of_the_documentation_is_the_one_that_is_given() -> None:
    page = (DOCS / "reference" / "queries.md").read_text("utf-8")
    with pytest.raises(NearcastError) as caught:
        parse_query("ipad price:<abc")
    assert f"query: {str(caught.value).removeprefix('query: ')}" in page
