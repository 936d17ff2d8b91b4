"""The bill of materials of a wheel, as CycloneDX JSON: what it contains, and what it asks for.

    python tools/sbom.py

Contained are the library and the data of the live map, as `SOURCES.md` lists them. What it asks for
has the versions of this environment, with which the wheel was built. There is no date in it: the
same sources in the same environment give the same file.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
NAME = "nearcast"
FILE = f"{NAME}.cdx.json"
_SOURCES = ROOT / "src" / "nearcast" / "server" / "web" / "SOURCES.md"
_NOT_SHIPPED = ("dev", "dist", "docs")  # extras of those who work on the package
_LICENCES = {
    "BSD-3-Clause": "BSD-3-Clause",
    "ISC": "ISC",
    "LGPL-3.0-or-later": "LGPL-3.0-or-later",
    "CC BY 4.0": "CC-BY-4.0",
}
"""Licences as `SOURCES.md` writes them, with their identifiers."""


def bill() -> dict[str, Any]:
    """The whole bill."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    required = [Requirement(line) for line in project["dependencies"]]
    optional = [
        Requirement(line)
        for extra, lines in project["optional-dependencies"].items()
        if extra not in _NOT_SHIPPED
        for line in lines
        if not line.startswith(f"{NAME}[")
    ]
    contained = contents()
    asked: dict[str, dict[str, Any]] = {}
    below: dict[str, list[str]] = {}
    for requirement in required:
        _follow(requirement, "required", asked, below)
    for requirement in optional:
        _follow(requirement, "optional", asked, below)
    itself = _component(NAME, _version()) | {"licenses": [{"expression": project["license"]}]}
    direct = sorted({_ref(each.name) for each in (*required, *optional)})
    parts = sorted(each["bom-ref"] for each in contained)
    graph = {itself["bom-ref"]: direct + parts} | {name: [] for name in parts} | below
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": itself},
        "components": [*contained, *(asked[name] for name in sorted(asked))],
        "dependencies": [
            {"ref": name, "dependsOn": sorted(set(names))} for name, names in sorted(graph.items())
        ],
    }


def contents() -> list[dict[str, Any]]:
    """What is in the wheel and was made by others: a component for each row of `SOURCES.md`."""
    found = []
    for line in _SOURCES.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 4 or not cells[0].startswith("`"):
            continue
        files, what, origin, licence = cells
        source = re.fullmatch(r"(npm|PyPI) `([\w-]+)`(?: ([\d.]+))?", origin)
        if source is None:
            raise ValueError(f"{_SOURCES.name}: {origin!r} is not 'npm' or 'PyPI' and a name")
        version = source[3] or next(iter(re.findall(r"\d+\.\d+\.\d+", what)), None)
        kind = "library" if files.startswith("`vendor/") else "data"
        known = [id for written, id in _LICENCES.items() if written in licence]
        component = _component(source[2], version, source[1].lower(), kind)
        component["bom-ref"] = f"contained:{source[2]}"
        component["description"] = f"{files.replace('`', '')}: {what.replace('`', '')}"
        component["licenses"] = [{"license": {"id": id}} for id in known]
        found.append(component)
    return found


def _follow(
    requirement: Requirement,
    scope: str,
    asked: dict[str, dict[str, Any]],
    below: dict[str, list[str]],
) -> None:
    """Add what a requirement is met by here, and what that asks for in turn."""
    ref = _ref(requirement.name)
    if ref in asked:
        return
    try:
        installed = distribution(requirement.name)
    except PackageNotFoundError:
        asked[ref] = _component(requirement.name, None) | {"bom-ref": ref, "scope": scope}
        below[ref] = []
        return
    component = _component(requirement.name, installed.version) | {"bom-ref": ref, "scope": scope}
    if expression := installed.metadata["License-Expression"]:
        component["licenses"] = [{"expression": expression}]
    asked[ref] = component
    needs = [Requirement(line) for line in installed.requires or []]
    extras = requirement.extras or {""}
    needs = [
        each
        for each in needs
        if each.marker is None or any(each.marker.evaluate({"extra": one}) for one in extras)
    ]
    below[ref] = [_ref(each.name) for each in needs]
    for each in needs:
        _follow(each, scope, asked, below)


def _ref(name: str) -> str:
    return f"pypi:{canonicalize_name(name)}"


def _component(
    name: str, version: str | None, registry: str = "pypi", kind: str = "library"
) -> dict[str, Any]:
    name = canonicalize_name(name) if registry == "pypi" else name
    tail = "" if version is None else f"@{version}"
    component = {
        "type": kind,
        "bom-ref": f"{registry}:{name}",
        "name": name,
        "purl": f"pkg:{registry}/{name}{tail}",
    }
    return component if version is None else component | {"version": version}


def _version() -> str:
    text = (ROOT / "src" / "nearcast" / "_version.py").read_text("utf-8")
    found = re.search(r"__version__ = \"(.+)\"", text)
    if found is None:
        raise ValueError("_version.py: has no __version__")
    return found[1]


def write(path: Path) -> None:
    """Write the bill to a file."""
    path.write_text(json.dumps(bill(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(), indent=1, ensure_ascii=False) + "\n")
